"""The operators of `topi`: one row (or a few) for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright import topi
from tilewright.testing import operator_references as ref
from tilewright.testing.operator_rows_nn import NN_ROWS
from tilewright.testing.operator_table import (
    ALL,
    FLOATS,
    INDICES,
    INTEGERS,
    MOVED,
    NUMBERS,
    PLAIN,
    TAME,
    Row,
    Shape,
    Values,
    always,
    summed,
)

# A point, nothing, one element, and a prime number of them.
_ONE_INPUT: list[tuple[Shape, ...]] = [((),), ((0, 3),), ((1, 1),), ((23,),)]
_TWO_INPUTS: list[tuple[Shape, ...]] = [
    ((), ()), ((0, 3), (3,)), ((1,), (5, 1)), ((29, 3), (3,)), ((31,), (31,)),
]  # fmt: skip
_REDUCED: list[tuple[Shape, ...]] = [((1, 1),), ((7, 13),)]


def unary(
    name: str, reference: Callable[..., Any], dtypes: Sequence[str] = FLOATS, **more: Any
) -> Row:
    return Row(name, getattr(topi, name), reference, dtypes, _ONE_INPUT, **more)


def binary(
    name: str, reference: Callable[..., Any], dtypes: Sequence[str] = NUMBERS, **more: Any
) -> Row:
    return Row(name, getattr(topi, name), reference, dtypes, _TWO_INPUTS, **more)


def _over_axes(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    """A reduction over everything, the first axis, and the last one which is kept."""
    return lambda x: [function(x), function(x, axis=0), function(x, axis=-1, keepdims=True)]


def reduction(name: str, reference: Callable[..., Any], dtypes: Sequence[str], **more: Any) -> Row:
    call = _over_axes(getattr(topi, name))
    return Row(name, call, _over_axes(reference), dtypes, _REDUCED, **more)


def _shape_rows() -> list[Row]:
    one: list[tuple[Shape, ...]] = [((1, 1),), ((0, 4),), ((3, 4),)]
    two: list[tuple[Shape, ...]] = [((1, 4), (2, 4)), ((0, 4), (2, 4)), ((3, 4), (3, 4))]
    same: list[tuple[Shape, ...]] = [((), ()), ((0,), (0,)), ((3, 4), (3, 4))]
    rows = [
        Row("transpose", topi.transpose, np.transpose, MOVED, [*one, ((),), ((2, 3, 5),)]),
        Row("reshape", lambda x: topi.reshape(x, (2, -1)), lambda x: x.reshape(2, -1), MOVED,
            [((3, 4),), ((2,),), ((0, 6),), ((1, 14),)]),
        Row("reshape", lambda x: topi.reshape(x, ()), lambda x: x.reshape(()), MOVED,
            [((1, 1),), ((),)]),
        Row("squeeze", topi.squeeze, np.squeeze, MOVED, [*one, ((1, 5, 1),), ((),)]),
        Row("expand_dims", lambda x: topi.expand_dims(x, 0), lambda x: x[None], MOVED,
            [*one, ((),)]),
        Row("concatenate", lambda *x: topi.concatenate(x, 0), lambda *x: np.concatenate(x), MOVED,
            two),
        Row("stack", lambda *x: topi.stack(x, -1), lambda *x: np.stack(x, -1), MOVED, same),
        Row("split", lambda x: topi.split(x, 2, 1), lambda x: np.split(x, 2, 1), MOVED,
            [((3, 4),), ((0, 2),), ((3, 0),)]),
        Row("split", lambda x: topi.split(x, [1, 1], 1), lambda x: np.split(x, [1, 1], 1),
            ["float32"], one),
        Row("flip", lambda x: topi.flip(x, 1), lambda x: np.flip(x, 1), MOVED, one),
        Row("repeat", lambda x: topi.repeat(x, 3, 1), lambda x: np.repeat(x, 3, 1), MOVED, one),
        Row("repeat", lambda x: topi.repeat(x, 0, 1), lambda x: np.repeat(x, 0, 1), ["int8"], one),
        Row("tile", lambda x: topi.tile(x, (2, 3)), lambda x: np.tile(x, (2, 3)), MOVED, one),
        Row("broadcast_to", lambda x: topi.broadcast_to(x, (2, 3, 5)),
            lambda x: np.broadcast_to(x, (2, 3, 5)), MOVED, [((),), ((3, 1),), ((5,),), ((1,),)]),
        Row("broadcast_to", lambda x: topi.broadcast_to(x, (0, 5)),
            lambda x: np.broadcast_to(x, (0, 5)), ["float32"], [((),), ((1, 1),), ((0, 5),)]),
        Row("strided_slice", lambda x: topi.strided_slice(x, [-1, 1], [-9, 9], [-2, 1]),
            lambda x: x[-1:None:-2, 1:9], MOVED, [*one, ((7, 11),)]),
        Row("identity", topi.identity, lambda x: x, MOVED, _ONE_INPUT),
        Row("full_like", lambda x: topi.full_like(x, 1), np.ones_like, MOVED, _ONE_INPUT),
        Row("full", lambda: [topi.full(s, "int8", -3) for s in ((), (0, 2), (5,))],
            lambda: [np.full(s, -3) for s in ((), (0, 2), (5,))], ["int8"], [()]),
        Row("arange", lambda: [topi.arange(7), topi.arange(9, 2, -3), topi.arange(3, 3)],
            lambda: [np.arange(7.0), np.arange(9.0, 2, -3), np.zeros(0)], ["float32"], [()]),
        Row("arange", lambda: topi.arange(0.5, 2, 0.25), lambda: np.arange(0.5, 2, 0.25),
            ["float32"], [()]),
    ]  # fmt: skip
    return rows


def _indexing_rows() -> list[Row]:
    indices = (Values(), INDICES)
    return [
        Row("take", lambda x, i: topi.take(x, i, 1), lambda x, i: np.take(x, i, 1, mode="clip"),
            MOVED, [((3, 4), (5,)), ((3, 1), (2, 2)), ((0, 2), ()), ((3, 4), (0,))], indices),
        Row("take", topi.take, lambda x, i: np.take(x, i, mode="clip"),
            MOVED, [((3, 4), (13,)), ((1,), ()), ((), (2,))], indices),
        Row("take", lambda x, i: topi.take(x, i, mode="wrap"),
            lambda x, i: np.take(x, i, mode="wrap"),
            MOVED, [((3, 4), (13,)), ((1,), ()), ((5,), (7, 3))], indices),
        Row("take", lambda x, i: topi.take(x, i, mode="fast"), np.take,
            ["float32"], [((3, 4), (13,))], (Values(), Values(0, 11, dtype="int64"))),
        Row("take", lambda x, i: topi.take(x, i, 0), lambda x, i: np.take(x, i, 0, mode="clip"),
            ["float32"], [((300, 2), (9,))], (Values(), Values(0, 255, dtype="uint8"))),
        Row("gather", lambda x, i: topi.gather(x, 1, i),
            lambda x, i: np.take_along_axis(x, ref.from_the_end(i, x.shape[1]), 1),
            MOVED, [((3, 4), (3, 7)), ((1, 1), (1, 1)), ((0, 2), (0, 5)), ((3, 4), (3, 0))],
            indices),
        Row("gather_nd", topi.gather_nd,
            lambda x, i: x[tuple(ref.from_the_end(k, n) for k, n in zip(i, x.shape, strict=False))],
            MOVED, [((3, 4), (2, 7)), ((3, 4), (1, 2, 2)), ((5,), (1,)), ((3, 4), (2, 0))],
            indices),
        Row("where", topi.where, np.where, MOVED,
            [((), (), ()), ((0, 2), (2,), (1,)), ((13, 3), (3,), (13, 1))],
            (Values(dtype="bool"), Values())),
        Row("where", topi.where, np.where, NUMBERS, [((13,), (13,), (13,))], (Values(-1, 1),)),
        Row("one_hot", lambda i: topi.one_hot(i, 2, -1, 5, 1, "float32"),
            lambda i: np.moveaxis(np.where(i[..., None] == np.arange(5), 2.0, -1.0), -1, 1),
            INTEGERS, [((3,),), ((0,),), ((2, 7),)], result=always("float32")),
    ]  # fmt: skip


def _cast_rows() -> list[Row]:
    small = Values(0, 100, special=False, extreme=False)
    rows = []
    for target in ALL:
        values = Values() if target == "bool" else small
        rows.append(
            Row("cast", lambda x, t=target: topi.cast(x, t), _reference_cast(target), ALL,
                _ONE_INPUT, (values,), always(target), units=0)
        )  # fmt: skip
    return rows


def _reference_cast(target: str) -> Callable[[Any], Any]:
    if target == "bool":
        return lambda x: x != 0
    return (lambda x: x) if "float" in target else np.trunc


def _pointwise_rows() -> list[Row]:
    positive, unit = Values(0.01, 9), Values(-1, 1)
    shifts = (Values(-100, 100), Values(0, 7, extreme=False))
    divided = (Values(-100, 100), Values(1, 9, extreme=False))
    truth = always("bool")
    return [
        unary("exp", np.exp), unary("exp2", np.exp2), unary("log", np.log, values=(positive,)),
        unary("log2", np.log2, values=(positive,)), unary("log10", np.log10, values=(positive,)),
        unary("log1p", np.log1p, values=(Values(-1.1, 5),)), unary("sqrt", np.sqrt),
        unary("rsqrt", lambda x: 1 / np.sqrt(x)), unary("sin", np.sin), unary("cos", np.cos),
        unary("tan", np.tan, units=4), unary("asin", np.arcsin, values=(unit,)),
        unary("acos", np.arccos, values=(unit,)), unary("atan", np.arctan),
        unary("sinh", np.sinh), unary("cosh", np.cosh), unary("tanh", np.tanh),
        unary("asinh", np.arcsinh), unary("acosh", np.arccosh, values=(Values(0.9, 5),)),
        unary("atanh", np.arctanh, values=(unit,)), unary("erf", ref.erf),
        unary("sigmoid", ref.sigmoid),
        unary("floor", np.floor), unary("floor", np.positive, INTEGERS),
        unary("ceil", np.ceil), unary("ceil", np.positive, INTEGERS),
        unary("trunc", np.trunc), unary("trunc", np.positive, INTEGERS),
        unary("round", np.rint), unary("round", np.positive, INTEGERS),
        unary("abs", np.abs, NUMBERS), unary("negative", np.negative, NUMBERS),
        unary("sign", np.sign, NUMBERS),
        unary("isnan", np.isnan, NUMBERS, result=truth),
        unary("isinf", np.isinf, NUMBERS, result=truth),
        unary("isfinite", np.isfinite, NUMBERS, result=truth),
        unary("logical_not", np.logical_not, ALL, result=truth, values=(Values(-1, 1),)),
        unary("bitwise_not", np.invert, (*INTEGERS, "bool")),
        Row("clip", lambda x: topi.clip(x, 1, 3), lambda x: np.clip(x, 1, 3), NUMBERS, _ONE_INPUT),
        Row("clip", lambda x: topi.clip(x, 3, 1), lambda x: np.clip(x, 3, 1), ["float32"],
            _ONE_INPUT),
        Row("reinterpret", lambda x: topi.reinterpret(x, "int32"),
            lambda x: x.astype("float32").view("int32"), ["float32"], _ONE_INPUT,
            result=always("int32")),
        binary("add", np.add), binary("subtract", np.subtract), binary("multiply", np.multiply),
        binary("divide", np.divide, FLOATS),
        binary("maximum", np.maximum, ALL), binary("minimum", np.minimum, ALL),
        binary("floor_divide", np.floor_divide, FLOATS), binary("floor_mod", np.mod, FLOATS),
        binary("mod", np.fmod, FLOATS),
        binary("floor_divide", np.floor_divide, INTEGERS, values=divided),
        binary("floor_mod", np.mod, INTEGERS, values=divided),
        binary("mod", np.fmod, INTEGERS, values=divided),
        binary("power", np.power, FLOATS, units=4),
        binary("atan2", np.arctan2, FLOATS),
        binary("equal", np.equal, ALL, result=truth, values=(Values(-1, 1),)),
        binary("not_equal", np.not_equal, ALL, result=truth, values=(Values(-1, 1),)),
        binary("less", np.less, ALL, result=truth),
        binary("less_equal", np.less_equal, ALL, result=truth),
        binary("greater", np.greater, ALL, result=truth),
        binary("greater_equal", np.greater_equal, ALL, result=truth),
        binary("logical_and", np.logical_and, ["bool"]),
        binary("logical_or", np.logical_or, ["bool"]),
        binary("bitwise_and", np.bitwise_and, (*INTEGERS, "bool")),
        binary("bitwise_or", np.bitwise_or, (*INTEGERS, "bool")),
        binary("bitwise_xor", np.bitwise_xor, (*INTEGERS, "bool")),
        binary("left_shift", np.left_shift, INTEGERS, values=shifts),
        binary("right_shift", np.right_shift, INTEGERS, values=shifts),
    ]  # fmt: skip


def _reduction_rows() -> list[Row]:
    position = always("int32")
    few: list[tuple[Shape, ...]] = [((1, 1),), ((2, 5),)]
    near_one = Values(0.5, 1.5, extreme=False)
    return [
        reduction("sum", np.sum, ALL, values=(TAME,), result=summed, units=8, cancels=True),
        Row("prod", _over_axes(topi.prod), _over_axes(np.prod), ALL, few, (near_one,),
            summed, units=8),
        reduction("mean", np.mean, FLOATS, values=(TAME,), units=8, cancels=True),
        reduction("max", np.max, NUMBERS), reduction("min", np.min, NUMBERS),
        reduction("argmax", np.argmax, NUMBERS, result=position),
        reduction("argmin", np.argmin, NUMBERS, result=position),
        reduction("any", np.any, ALL, result=always("bool")),
        reduction("all", np.all, ALL, result=always("bool")),
        *_empty_rows(),
        *_point_rows(),
    ]  # fmt: skip


def _empty_rows() -> list[Row]:
    """Reductions of nothing."""
    nothing: list[tuple[Shape, ...]] = [((0, 3),), ((3, 0),), ((0, 0),)]
    average = lambda x, **given: np.full_like(np.sum(x, **given), np.nan)  # noqa: E731
    return [
        Row("sum", _over_axes(topi.sum), _over_axes(np.sum), ALL, nothing, result=summed),
        Row("prod", _over_axes(topi.prod), _over_axes(np.prod), ALL, nothing, result=summed),
        Row("mean", _over_axes(topi.mean), _over_axes(average), FLOATS, nothing),
        Row("any", _over_axes(topi.any), _over_axes(np.any), ["bool"], nothing),
        Row("all", _over_axes(topi.all), _over_axes(np.all), ["bool"], nothing),
        Row("max", lambda x: topi.max(x, 1), lambda x: np.zeros(0), NUMBERS, [((0, 3),)]),
        Row("argmin", lambda x: topi.argmin(x, 1), lambda x: np.zeros(0), NUMBERS, [((0, 3),)],
            result=always("int32")),
    ]  # fmt: skip


def _point_rows() -> list[Row]:
    """Reductions of a tensor without dimensions, which give its element."""
    point: list[tuple[Shape, ...]] = [((),)]
    return [
        Row("sum", topi.sum, np.sum, ALL, point, result=summed),
        Row("prod", topi.prod, np.prod, ALL, point, result=summed),
        Row("mean", topi.mean, np.mean, FLOATS, point),
        Row("max", topi.max, np.max, NUMBERS, point),
        Row("min", topi.min, np.min, NUMBERS, point),
        Row("any", topi.any, np.any, ALL, point, result=always("bool")),
        Row("all", topi.all, np.all, ALL, point, result=always("bool")),
        Row("argmax", topi.argmax, np.argmax, NUMBERS, point, result=always("int32")),
        Row("argmin", topi.argmin, np.argmin, NUMBERS, point, result=always("int32")),
    ]


def _quantization_rows() -> list[Row]:
    half, sums = 1 << 30, Values(-(2**20), 2**20, extreme=False)
    scale = Values(half, 2**31 - 1, extreme=False)
    return [
        Row("fixed_point_multiply", lambda x: topi.fixed_point_multiply(x, half, -3),
            lambda x: (x * half + (1 << 33)) >> 34, ["int32"], _ONE_INPUT, (sums,)),
        Row("fixed_point_multiply_per_axis",
            lambda x, y, r: topi.fixed_point_multiply_per_axis(x, y, r, r, False, True, [1]),
            lambda x, y, r: (x * y + (1 << (30 + r))) >> (31 + r),
            ["int32"], [((3, 5), (5,), (5,)), ((0, 1), (1,), (1,))],
            (sums, scale, Values(0, 9, extreme=False))),
        Row("requantize", lambda x: topi.requantize(x, half, -7, 3),
            lambda x: ref.requantized(x, half, -7, 3, "int8"), ["int32"], _ONE_INPUT, (sums,),
            always("int8")),
        Row("saturating_cast", lambda x: topi.saturating_cast(x, "int8"),
            lambda x: np.clip(np.trunc(np.nan_to_num(x)), -128, 127), NUMBERS, _ONE_INPUT,
            (Values(-300, 300),), always("int8")),
    ]  # fmt: skip


def _product_rows() -> list[Row]:
    shapes: list[tuple[Shape, ...]] = [
        ((1, 1), (1, 1)), ((0, 3), (3, 2)), ((3, 0), (0, 2)), ((7, 13), (13, 5)),
    ]  # fmt: skip
    return [
        Row("matmul", topi.matmul, np.matmul, NUMBERS, shapes, (TAME,), summed, 8, True),
        Row("einsum", lambda a, b: topi.einsum("ij,jk->ki", a, b), lambda a, b: (a @ b).T,
            NUMBERS, shapes, (TAME,), summed, 16, True),
        Row("matmul", lambda a, b: topi.matmul(b, a, True, True), lambda a, b: (a @ b).T,
            NUMBERS, shapes, (PLAIN,), summed, 8, True),
    ]  # fmt: skip


def _ordering_rows() -> list[Row]:
    rows: list[tuple[Shape, ...]] = [((7, 13),), ((1, 1),), ((0, 3),), ((3, 0),)]
    most: list[tuple[Shape, ...]] = [((7, 13),), ((0, 5),)]
    totals = Values(0.5, 1.5, extreme=False)
    position = always("int64")
    return [
        Row("sort", topi.sort, np.sort, NUMBERS, rows),
        Row("argsort", topi.argsort, lambda x: np.argsort(x, -1, kind="stable"), NUMBERS, rows,
            result=position),
        Row("topk", lambda x: topi.topk(x, 3, ret_type="values"),
            lambda x: -np.sort(-x, -1)[:, :3], NUMBERS, most, (PLAIN,)),
        Row("cumsum", lambda x: topi.cumsum(x, 1), lambda x: np.cumsum(x, 1), NUMBERS, rows,
            (TAME,), summed, 16, True),
        Row("cumsum", topi.cumsum, np.cumsum, NUMBERS, [((3, 5),)], (PLAIN,), summed, 16, True),
        Row("cumprod", lambda x: topi.cumprod(x, 1), lambda x: np.cumprod(x, 1), NUMBERS, rows,
            (totals,), summed, 16),
    ]  # fmt: skip


def _scatter_rows() -> list[Row]:
    inside = Values(0, 4, dtype="int32")
    return [
        Row("scatter_elements", lambda x, i, u: topi.scatter_elements(x, i, u, 0, "max"),
            ref.scatter_max, NUMBERS, [((5, 3), (7, 3), (7, 3)), ((5, 1), (0, 1), (0, 1))],
            (Values(), inside, Values())),
        Row("scatter_nd", lambda x, i, u: topi.scatter_nd(x, i, u, "max"),
            lambda x, i, u: ref.scatter_max(x, np.repeat(i.T, x.shape[1], 1), u), NUMBERS,
            [((5, 3), (1, 7), (7, 3))], (Values(), inside, Values())),
    ]  # fmt: skip


def _image_rows() -> list[Row]:
    rows = []
    for n, shape in {1: (2, 3, 5), 2: (1, 2, 5, 3), 3: (1, 1, 3, 2, 5)}.items():
        rows.append(
            Row(f"image.resize{n}d", lambda x, n=n: _resize(x, n),
                lambda x: ref.resized(x, 7), FLOATS, [(shape,), ((0, *shape[1:]),)], (PLAIN,),
                units=16, cancels=True)
        )  # fmt: skip
    return rows


def _resize(x: Any, n: int) -> Any:
    return getattr(topi.image, f"resize{n}d")(x, None, [7] * n)


ROWS: list[Row] = [
    *_pointwise_rows(),
    *_cast_rows(),
    *_reduction_rows(),
    *_shape_rows(),
    *_indexing_rows(),
    *_quantization_rows(),
    *_product_rows(),
    *_ordering_rows(),
    *_scatter_rows(),
    *_image_rows(),
    *NN_ROWS,
]

"""Rows of a table of operators, each checked against NumPy in float64 (integers exactly).

A row says how an operator is called on tensors of some shapes, and what NumPy has for it. Rows are
compiled once for each of their data types; all their shapes are results of one function.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

import tilewright as tw
from tilewright import te
from tilewright.ir import DType, IntImm, PrimFunc
from tilewright.ir.numpy_bridge import to_numpy

Shape: TypeAlias = tuple[int, ...]
HALVES = ("float16", "bfloat16")
FLOATS = (*HALVES, "float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
NUMBERS = (*FLOATS, *INTEGERS)
ALL = (*NUMBERS, "bool")
PRODUCTS = (*FLOATS, "int8", "uint8", "int32")
MOVED = ("bfloat16", "float64", "int8", "int32", "bool")  # all sizes, for what only moves elements
OWN = ""  # an input of the data type that the row is checked for

_EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
_UNTOUCHED = 99  # what results hold before


@dataclass(frozen=True)
class Values:
    """The numbers of an input: from `low` to `high`, with special ones among them."""

    low: float = -4
    high: float = 4
    special: bool = True  # NaN and infinities
    extreme: bool = True  # the largest and the smallest numbers of the type
    dtype: str = OWN


PLAIN = Values(special=False, extreme=False)
TAME = Values(extreme=False)  # NaN and infinities, but nothing that overflows when it is added
INDICES = Values(-9, 9, dtype="int32")


def always(dtype: str) -> Callable[[str], str]:
    return lambda _: dtype


def summed(dtype: str) -> str:
    """Sums of narrow integers have 32 bits."""
    if dtype in ("bool", "int8", "uint8", "int16"):
        return "uint32" if dtype.startswith("u") else "int32"
    return dtype


@dataclass(frozen=True)
class Row:
    """An operator on some inputs; `shapes` has the inputs' shapes of each call."""

    name: str
    call: Callable[..., Any]
    reference: Callable[..., Any]
    dtypes: Sequence[str] = NUMBERS
    shapes: Sequence[tuple[Shape, ...]] = ()
    values: Sequence[Values] = field(default=(Values(),))  # the last one is for all further inputs
    result: Callable[[str], str] = str  # the data type of the result
    units: float = 2  # of the last place, by which a result may differ
    cancels: bool = False  # sums may cancel: the largest result says what a unit is

    def inputs(self, dtype: str, shapes: tuple[Shape, ...]) -> list[Any]:
        """An array for each input of a call."""
        rng = np.random.default_rng(zlib.crc32(f"{self.name} {dtype} {shapes}".encode()))
        count = len(self.values)
        return [
            _numbers(rng, shape, dtype, self.values[min(n, count - 1)])
            for n, shape in enumerate(shapes)
        ]


def _numbers(rng: Any, shape: Shape, own: str, values: Values) -> Any:
    dtype = values.dtype or own
    kind, size = to_numpy(dtype), int(np.prod(shape))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if "float" not in dtype:
        limits = np.iinfo(dtype)
        low, high = max(int(values.low), limits.min), min(int(values.high), limits.max)
        numbers = rng.integers(low, high + 1, size)
        special = [limits.min, limits.max] if values.extreme and not values.dtype else []
        _put(rng, special, numbers)
        return rng.permutation(numbers).astype(kind).reshape(shape)
    numbers = rng.uniform(values.low, values.high, size)
    chosen = [np.nan, np.inf, -np.inf, -0.0, 0.0] if values.special else []
    if values.extreme:
        finite = _float_limits(dtype)
        chosen += [finite.max, -finite.max, finite.smallest_subnormal]
    _put(rng, chosen, numbers)
    return rng.permutation(numbers).astype(kind).reshape(shape)


def _put(rng: Any, special: Sequence[float], numbers: Any) -> None:
    """Special values instead of at most half of some numbers."""
    chosen = rng.permutation(np.array(special, numbers.dtype))[: len(numbers) // 2]
    numbers[: len(chosen)] = chosen


def _float_limits(dtype: str) -> Any:
    return ml_dtypes.finfo(to_numpy(dtype))  # type: ignore[no-untyped-call]


def exact(array: Any) -> Any:
    """An input in the type that references compute in."""
    if array.dtype == bool:
        return array
    return array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)


Run: TypeAlias = Callable[[PrimFunc, list[Any]], None]  # a function on its arrays


def run_compiled(func: PrimFunc, arrays: list[Any]) -> None:
    """On the CPU."""
    tw.build(func)(*arrays)


def check(row: Row, dtype: str, run: Run = run_compiled) -> None:
    """Run a row for a data type, and compare."""
    tensors: list[te.Tensor] = []
    arrays: list[Any] = []
    results: list[te.Tensor] = []
    expected: list[Any] = []
    for shapes in row.shapes:
        given = row.inputs(dtype, shapes)
        own = [
            te.placeholder(array.shape, _dtype_of(array), f"x{len(tensors) + n}")
            for n, array in enumerate(given)
        ]
        tensors += own
        arrays += given
        results += _several(row.call(*own))
        with np.errstate(all="ignore"):
            expected += _several(row.reference(*map(exact, given)))
    outputs = [np.full(_shape_of(t), _UNTOUCHED, to_numpy(str(t.dtype))) for t in results]
    run(te.create_prim_func([*tensors, *results]), [*arrays, *outputs])
    for output, want in zip(outputs, expected, strict=True):
        assert _dtype_of(output) == row.result(dtype), "the data type of the result"
        compare(row, output, np.asarray(want))


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _dtype_of(array: Any) -> str:
    return str(array.dtype.name)


def _shape_of(tensor: te.Tensor) -> Shape:
    return tuple(extent.value for extent in tensor.shape if isinstance(extent, IntImm))


def compare(row: Row, actual: Any, exact_result: Any) -> None:
    """Insist on the shape, and on every element to within the row's tolerance."""
    assert actual.shape == exact_result.shape, "the shape of the result"
    dtype = _dtype_of(actual)
    with np.errstate(all="ignore"):
        rounded = exact_result.astype(actual.dtype)
    if not DType(dtype).is_float:
        np.testing.assert_array_equal(actual, rounded)
        return
    got, want = actual.astype(np.float64), rounded.astype(np.float64)
    finite = np.abs(want[np.isfinite(want)])
    largest = finite.max(initial=0) if row.cancels else 0
    smallest = float(_float_limits(dtype).smallest_normal)
    unit = _EPSILON[dtype] * np.maximum(np.maximum(np.abs(want), largest), smallest)
    with np.errstate(all="ignore"):
        near = (np.abs(got - want) <= row.units * unit) | (got == want)
    wrong = ~(near | (np.isnan(got) & np.isnan(want)))
    assert not wrong.any(), f"{got[wrong][:5]} instead of {want[wrong][:5]}"

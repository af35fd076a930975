"""Operators on two tensors whose shapes are matched from the right, as NumPy does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tilewright import ir
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, PrimExpr, Select, Var, const, intrinsics as math, match_types
from tilewright.support.names import named
from tilewright.te import Tensor
from tilewright.te.tensor import shape_of, tensor_operators
from tilewright.topi.axes import BROADCAST, Shape, compute_ax, same_extent, shape_text

__all__ = [
    "broadcast_to", "add", "subtract", "multiply", "divide", "floor_divide", "mod", "floor_mod",
    "maximum", "minimum", "power", "atan2", "equal", "not_equal", "less", "less_equal", "greater",
    "greater_equal", "logical_and", "logical_or", "bitwise_and", "bitwise_or", "bitwise_xor",
    "left_shift", "right_shift",
]  # fmt: skip

Operand: TypeAlias = Tensor | ExprLike


def broadcast_shape(a: Sequence[PrimExpr], b: Sequence[PrimExpr], what: str) -> list[PrimExpr]:
    """The shape that both `a` and `b` can be stretched to."""
    ndim = max(len(a), len(b))
    padded_a: list[PrimExpr] = [const(1)] * (ndim - len(a)) + list(a)
    padded_b: list[PrimExpr] = [const(1)] * (ndim - len(b)) + list(b)
    result = []
    for x, y in zip(padded_a, padded_b, strict=True):
        if not (ir.is_one(x) or ir.is_one(y) or same_extent(x, y)):
            raise TensorExpressionError(
                f"{what}: shapes {shape_text(a)} and {shape_text(b)} do not match: "
                f"extent {x} against {y}"
            )
        result.append(y if ir.is_one(x) else x)
    return result


def can_stretch(data: Tensor, shape: Sequence[PrimExpr], what: str) -> bool:
    """True when `data` can be stretched to `shape`, which stays as it is."""
    found = broadcast_shape(data.shape, shape, what)
    return len(found) == len(shape) and all(map(same_extent, found, shape))


def element_at(
    operand: Operand, shape: Sequence[PrimExpr], indices: Sequence[PrimExpr]
) -> ExprLike:
    """The element of `operand`, stretched to `shape`, at `indices`."""
    if not isinstance(operand, Tensor):
        return operand
    skipped = len(indices) - operand.ndim
    own = [
        const(0, index.dtype) if ir.is_one(extent) and not ir.is_one(full) else index
        for extent, full, index in zip(
            operand.shape, shape[skipped:], indices[skipped:], strict=True
        )
    ]
    return operand(*own)


def broadcast_to(data: Tensor, shape: Shape) -> Tensor:
    """`data` stretched to `shape`."""
    target = shape_of(shape, "broadcast_to")
    if not can_stretch(data, target, "broadcast_to"):
        raise TensorExpressionError(
            f"broadcast_to: shape {shape_text(data.shape)} cannot be stretched to "
            f"{shape_text(target)}"
        )
    return compute_ax(target, lambda *i: element_at(data, target, i), "T_broadcast_to", BROADCAST)


def combine(
    name: str, function: Callable[[ExprLike, ExprLike], ExprLike], a: Operand, b: Operand
) -> Tensor:
    """`function` of the elements of two operands, at least one of them a tensor."""
    tensors = [x for x in (a, b) if isinstance(x, Tensor)]
    if not tensors:
        raise TensorExpressionError(f"{name}: at least one operand must be a tensor")
    other = tensors[1].shape if len(tensors) == 2 else ()
    shape = broadcast_shape(tensors[0].shape, other, name)

    def element(*i: Var) -> ExprLike:
        return function(element_at(a, shape, i), element_at(b, shape, i))

    return compute_ax(shape, element, f"T_{name}", BROADCAST)


def _binary(
    name: str, function: Callable[[ExprLike, ExprLike], ExprLike]
) -> Callable[[Operand, Operand], Tensor]:
    def operator(lhs: Operand, rhs: Operand) -> Tensor:
        return combine(name, function, lhs, rhs)

    return named(operator, name, f"`{name}` of two operands, stretched to a common shape.")


def _floor_divide(a: ExprLike, b: ExprLike) -> PrimExpr:
    x, y = match_types(a, b)
    if not x.dtype.is_float:
        return ir.floordiv(x, y)
    # From the exact remainder: the rounded quotient of 1 and 0.1 is 10, though 0.1 is above 1/10.
    rest = math.fmod(x, y)
    quotient = (x - rest) / y
    quotient = Select(_rounded_up(rest, y), quotient - 1, quotient)
    whole = math.floor(quotient)
    nearest = Select(quotient - whole > 0.5, whole + 1, whole)
    return Select(y.equal(const(0, y.dtype)), x / y, nearest)


def _floor_mod(a: ExprLike, b: ExprLike) -> PrimExpr:
    x, y = match_types(a, b)
    if not x.dtype.is_float:
        return ir.floormod(x, y)
    rest = math.fmod(x, y)
    return Select(_rounded_up(rest, y), rest + y, rest)


def _rounded_up(rest: PrimExpr, divisor: PrimExpr) -> PrimExpr:
    """True where truncation moved a quotient that leaves `rest` upwards."""
    zero = const(0, rest.dtype)
    return ir.logical_and(ir.not_equal(rest, zero), ir.not_equal(rest < zero, divisor < zero))


def _mod(a: ExprLike, b: ExprLike) -> PrimExpr:
    x, y = match_types(a, b)
    return math.fmod(x, y) if x.dtype.is_float else ir.truncmod(x, y)


def _of_floats(
    name: str, function: Callable[[ExprLike, ExprLike], PrimExpr]
) -> Callable[[ExprLike, ExprLike], PrimExpr]:
    def checked(a: ExprLike, b: ExprLike) -> PrimExpr:
        x, y = match_types(a, b)
        if not x.dtype.is_float:
            raise TensorExpressionError(f"{name}: `{x}` is {x.dtype!s}, expected a float type")
        return function(x, y)

    return checked


add = _binary("add", ir.add)
subtract = _binary("subtract", ir.subtract)
multiply = _binary("multiply", ir.multiply)
divide = _binary("divide", ir.divide)
floor_divide = _binary("floor_divide", _floor_divide)
mod = _binary("mod", _mod)
floor_mod = _binary("floor_mod", _floor_mod)
maximum = _binary("maximum", ir.maximum)
minimum = _binary("minimum", ir.minimum)
power = _binary("power", _of_floats("power", math.power))
atan2 = _binary("atan2", _of_floats("atan2", math.atan2))
equal = _binary("equal", ir.equal)
not_equal = _binary("not_equal", ir.not_equal)
less = _binary("less", ir.less)
less_equal = _binary("less_equal", ir.less_equal)
greater = _binary("greater", ir.greater)
greater_equal = _binary("greater_equal", ir.greater_equal)
logical_and = _binary("logical_and", ir.logical_and)
logical_or = _binary("logical_or", ir.logical_or)
bitwise_and = _binary("bitwise_and", math.bitwise_and)
bitwise_or = _binary("bitwise_or", math.bitwise_or)
bitwise_xor = _binary("bitwise_xor", math.bitwise_xor)
left_shift = _binary("left_shift", math.shift_left)
right_shift = _binary("right_shift", math.shift_right)

tensor_operators.update(add=add, subtract=subtract, multiply=multiply, divide=divide)

"""Operators on each element of one tensor."""

from __future__ import annotations

from collections.abc import Callable

from tilewright import ir, te
from tilewright.errors import TensorExpressionError
from tilewright.ir import intrinsics as math
from tilewright.support.names import named
from tilewright.te import Tensor
from tilewright.te.tensor import tensor_operators
from tilewright.topi.axes import ELEMENTWISE, compute_ax

__all__ = [
    "identity", "negative", "exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin",
    "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
    "sigmoid", "floor", "ceil", "trunc", "round", "abs", "isnan", "isinf", "isfinite",
    "logical_not", "bitwise_not", "sign", "cast", "clip", "reinterpret",
]  # fmt: skip


def map_elements(x: Tensor, function: Callable[[ir.PrimExpr], ir.ExprLike]) -> Tensor:
    """`function` of every element, in an operation called `compute`."""
    return te.compute(x.shape, lambda *i: function(x(*i)), tag=ELEMENTWISE)


def _unary(
    name: str, function: Callable[[ir.PrimExpr], ir.ExprLike], meaning: str | None = None
) -> Callable[[Tensor], Tensor]:
    def operator(x: Tensor) -> Tensor:
        return map_elements(x, function)

    return named(operator, name, f"{meaning or f'`{name}`'} of every element.")


def _intrinsic(name: str) -> Callable[[Tensor], Tensor]:
    return _unary(name, getattr(math, name))


def _negated(v: ir.PrimExpr) -> ir.PrimExpr:
    # Unsigned numbers wrap around; 0 - v would be 0.0 for 0.0.
    return ir.const(0, v.dtype) - v if v.dtype.is_uint else v * ir.const(-1, v.dtype)


def _not(v: ir.PrimExpr) -> ir.PrimExpr:
    return ~v if v.dtype.is_bool else v.equal(ir.const(0, v.dtype))


identity = _unary("identity", lambda v: v, "The value")
negative = _unary("negative", _negated, "The negation")
exp, exp2, sqrt, rsqrt = map(_intrinsic, ("exp", "exp2", "sqrt", "rsqrt"))
log, log2, log10, log1p = map(_intrinsic, ("log", "log2", "log10", "log1p"))
sin, cos, tan, asin, acos, atan = map(_intrinsic, ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, tanh, asinh = map(_intrinsic, ("sinh", "cosh", "tanh", "asinh"))
acosh, atanh, erf, sigmoid = map(_intrinsic, ("acosh", "atanh", "erf", "sigmoid"))
floor, ceil, trunc = map(_intrinsic, ("floor", "ceil", "trunc"))
isnan, isinf, isfinite = map(_intrinsic, ("isnan", "isinf", "isfinite"))
round = _unary("round", math.nearbyint, "The nearest integer, ties to even,")
abs = _unary("abs", math.abs, "The magnitude")
logical_not = _unary("logical_not", _not, "The logical negation")
bitwise_not = _unary("bitwise_not", math.bitwise_not, "The bitwise complement")


def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1 for every element."""

    def element(*i: ir.Var) -> ir.PrimExpr:
        value = x(*i)
        zero = ir.const(0, value.dtype)
        rest = value if value.dtype.is_float else zero  # NaN, or a zero with its sign
        if not value.dtype.is_uint:
            rest = ir.Select(value < zero, ir.const(-1, value.dtype), rest)
        return ir.Select(zero < value, ir.const(1, value.dtype), rest)

    return compute_ax(x.shape, element, "T_sign", ELEMENTWISE)


def cast(x: Tensor, dtype: str) -> Tensor:
    """Every element converted to `dtype`."""
    if ir.DType(dtype).code in ("handle", "void"):
        raise TensorExpressionError(f"cast: {dtype!r} is not a type of numbers")
    return map_elements(x, lambda v: ir.cast(dtype, v))


def clip(x: Tensor, a_min: float, a_max: float) -> Tensor:
    """Every element limited to `[a_min, a_max]`; `a_max` where they are the wrong way round."""

    def element(value: ir.PrimExpr) -> ir.PrimExpr:
        low, high = ir.const(min(a_min, a_max), value.dtype), ir.const(a_max, value.dtype)
        return ir.maximum(ir.minimum(value, high), low)

    return map_elements(x, element)


def reinterpret(x: Tensor, dtype: str) -> Tensor:
    """The bits of every element as another type of the same size."""
    return map_elements(x, lambda v: math.reinterpret(dtype, ir.convert(v)))


tensor_operators["cast"] = cast

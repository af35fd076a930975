"""Activation functions."""

from __future__ import annotations

import math

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import PrimExpr, Select, Var, const, intrinsics, maximum
from tilewright.te import Tensor
from tilewright.topi.axes import BROADCAST, check_extents, check_float, check_ndim, normalize_axis
from tilewright.topi.elementwise import map_elements

__all__ = ["relu", "leaky_relu", "prelu", "gelu", "silu"]


def relu(x: Tensor) -> Tensor:
    """`max(x, 0)`."""
    return map_elements(x, lambda v: maximum(v, const(0, v.dtype)))


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """`x` where positive, else `alpha * x`."""
    check_float(x, "leaky_relu")

    def element(v: PrimExpr) -> PrimExpr:
        return Select(v > const(0, v.dtype), v, v * const(alpha, v.dtype))

    return map_elements(x, element)


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """`x` where positive, else `x` times the slope of its channel."""
    check_float(x, "prelu")
    check_ndim(slope, 1, "prelu")
    channel = normalize_axis(axis, x.ndim, "prelu")
    check_extents(slope.shape[0], x.shape[channel], "prelu", "the numbers of channels")

    def element(*i: Var) -> PrimExpr:
        v = x(*i)
        return Select(v > const(0, v.dtype), v, v * slope(i[channel]))

    return te.compute(x.shape, element, tag=BROADCAST)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """The Gaussian error linear unit, by `erf` or (`approximate="tanh"`) by `tanh`."""
    check_float(x, "gelu")
    if approximate not in ("none", "tanh"):
        raise TensorExpressionError(
            f"gelu: unknown approximation {approximate!r}, expected 'none' or 'tanh'"
        )

    def by_erf(v: PrimExpr) -> PrimExpr:
        half, one = const(0.5, v.dtype), const(1.0, v.dtype)
        return v * half * (one + intrinsics.erf(v * const(math.sqrt(0.5), v.dtype)))

    def by_tanh(v: PrimExpr) -> PrimExpr:
        half, one = const(0.5, v.dtype), const(1.0, v.dtype)
        cubic = v + v * v * v * const(0.044715, v.dtype)
        inner = cubic * const(math.sqrt(2.0 / math.pi), v.dtype)
        return v * half * (one + intrinsics.tanh(inner))

    return map_elements(x, by_erf if approximate == "none" else by_tanh)


def silu(x: Tensor) -> Tensor:
    """`x * sigmoid(x)`."""
    check_float(x, "silu")
    return map_elements(x, lambda v: v * intrinsics.sigmoid(v))

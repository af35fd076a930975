"""Tensors made from nothing."""

from __future__ import annotations

import math

from tilewright.errors import TensorExpressionError
from tilewright.ir import PrimExpr, Var, cast, const
from tilewright.te import Tensor
from tilewright.te.tensor import shape_of
from tilewright.topi.axes import INJECTIVE, Shape, compute_ax


def full(shape: Shape, dtype: str, fill_value: float) -> Tensor:
    """A tensor with `fill_value` everywhere."""
    value = const(fill_value, dtype)
    return compute_ax(shape_of(shape, "full"), lambda *i: value, "T_full", INJECTIVE)


def full_like(x: Tensor, fill_value: float) -> Tensor:
    """A tensor of the shape and dtype of `x` with `fill_value` everywhere."""
    value = const(fill_value, x.dtype)
    return compute_ax(x.shape, lambda *i: value, "T_full_like", INJECTIVE)


def arange(
    start: float, stop: float | None = None, step: float = 1, dtype: str = "float32"
) -> Tensor:
    """`start, start + step, ...` up to, not including, `stop`."""
    first, last = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise TensorExpressionError("arange: step must not be zero")
    count = max(0, math.ceil((last - first) / step))
    whole = isinstance(first, int) and isinstance(step, int)

    def element(i: Var) -> PrimExpr:
        exact = i if whole else cast("float64", i)
        return cast(dtype, exact * step + first)

    return compute_ax((const(count),), element, "T_arange", INJECTIVE)

"""Activation functions, softmax and its logarithm."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, IterVar, PrimExpr, Select, Var, const, intrinsics, maximum
from tilewright.ir.intrinsics import exp, log
from tilewright.te import Tensor
from tilewright.topi.axes import BROADCAST, check_extents, check_float, check_ndim, normalize_axis
from tilewright.topi.elementwise import map_elements
from tilewright.topi.transform import expand_dims, squeeze

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


class _Rows:
    """A tensor seen as rows along one axis, so that a value per row can be looked up."""

    def __init__(self, x: Tensor, axis: int, what: str) -> None:
        self.x = x
        check_float(x, what)
        self.axis = normalize_axis(axis, x.ndim, what)
        self.wide = x.dtype.accumulator
        self.reduced_shape = [e for d, e in enumerate(x.shape) if d != self.axis]

    def reduce_axis(self) -> IterVar:
        return te.reduce_axis((0, self.x.shape[self.axis]), name="k")

    def with_axis(self, indices: Sequence[Var], k: IterVar) -> list[ExprLike]:
        """The indices of element `k` of a row."""
        return [*indices[: self.axis], k, *indices[self.axis :]]

    def without_axis(self, indices: Sequence[Var]) -> list[ExprLike]:
        """The indices of the row of an element."""
        return [*indices[: self.axis], *indices[self.axis + 1 :]]

    def shifted(
        self, element: Sequence[ExprLike], largest: Tensor, row: Sequence[ExprLike]
    ) -> PrimExpr:
        """An element less the largest of its row, in the type of the sums."""
        return self.x(*element).astype(self.wide) - largest(*row).astype(self.wide)

    def max_of_row(self) -> Tensor:
        k = self.reduce_axis()
        return te.compute(
            self.reduced_shape,
            lambda *i: te.max(self.x(*self.with_axis(i, k)), axis=k),
            name="T_softmax_maxelem",
        )


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """`exp(x) / sum(exp(x))` along `axis`, with the largest element subtracted first."""
    if x.ndim == 0:
        return squeeze(softmax(expand_dims(x, 0), axis))
    rows = _Rows(x, axis, "softmax")
    largest = rows.max_of_row()
    powers = te.compute(
        x.shape,
        lambda *i: exp(rows.shifted(i, largest, rows.without_axis(i))),
        name="T_softmax_exp",
    )
    k = rows.reduce_axis()
    total = te.compute(
        rows.reduced_shape,
        lambda *i: te.sum(powers(*rows.with_axis(i, k)), axis=k),
        name="T_softmax_expsum",
    )
    return te.compute(
        x.shape,
        lambda *i: (powers(*i) / total(*rows.without_axis(i))).astype(x.dtype),
        name="T_softmax_norm",
        tag="softmax_output",
        attrs={"axis": rows.axis},
    )


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """`log(softmax(x))`, computed without the intermediate quotient."""
    if x.ndim == 0:
        return squeeze(log_softmax(expand_dims(x, 0), axis))
    rows = _Rows(x, axis, "log_softmax")
    largest = rows.max_of_row()
    k = rows.reduce_axis()

    def total_of_row(*i: Var) -> ExprLike:
        return te.sum(exp(rows.shifted(rows.with_axis(i, k), largest, i)), axis=k)

    total = te.compute(rows.reduced_shape, total_of_row)

    def normalized(*i: Var) -> PrimExpr:
        row = rows.without_axis(i)
        return (rows.shifted(i, largest, row) - log(total(*row))).astype(x.dtype)

    return te.compute(x.shape, normalized, tag="log_softmax_output", attrs={"axis": rows.axis})

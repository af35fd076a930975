"""Reductions over some axes of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tilewright import ir, te
from tilewright.errors import TensorExpressionError
from tilewright.ir.intrinsics import lower_limit, max_value, upper_limit
from tilewright.te import Tensor
from tilewright.te.reduce import AxisReducer, Compare, keep_better
from tilewright.topi import axes as ax
from tilewright.topi.accumulate import sum_types
from tilewright.topi.broadcast import divide
from tilewright.topi.creation import full

__all__ = ["sum", "max", "min", "prod", "all", "any", "mean", "argmax", "argmin"]

Axis: TypeAlias = int | Sequence[int] | None
# te.max and te.min start from the limits of finite numbers; these find infinities, too.
LARGEST = te.comm_reducer(ir.maximum, lower_limit, "max")
SMALLEST = te.comm_reducer(ir.minimum, upper_limit, "min")


class _Plan:
    """Which axes of a tensor are reduced, and how output indices become input indices."""

    def __init__(self, data: Tensor, axis: Axis, keepdims: bool, what: str) -> None:
        self._data = data
        self.axes = ax.normalize_axes(axis, data.ndim, what)
        self._keepdims = keepdims
        self._shape = data.shape
        self.reduce_axes = [te.reduce_axis((0, data.shape[d]), f"k{d}") for d in self.axes]

    def check_not_empty(self, what: str) -> None:
        """Insist on something to choose from."""
        reduced = ax.extent_product([self._shape[d] for d in self.axes])
        if ax.is_zero(reduced) and not ax.is_zero(ax.extent_product(self.output_shape())):
            raise TensorExpressionError(
                f"{what}: {self._data.name} has no elements along axis "
                f"{', '.join(map(str, self.axes))}, and the {what} of nothing is not defined"
            )

    def output_shape(self) -> list[ir.PrimExpr]:
        one = [ir.const(1, extent.dtype) for extent in self._shape]
        kept = [one[d] if d in self.axes else extent for d, extent in enumerate(self._shape)]
        return kept if self._keepdims else [e for d, e in enumerate(kept) if d not in self.axes]

    def input_indices(self, outputs: Sequence[ir.Var]) -> list[ir.ExprLike]:
        remaining = iter(outputs)
        by_axis = dict(zip(self.axes, self.reduce_axes, strict=True))
        indices: list[ir.ExprLike] = []
        for d in range(len(self._shape)):
            reduced = by_axis.get(d)
            if reduced is None or self._keepdims:
                own: ir.ExprLike = next(remaining)
            if reduced is not None:
                own = reduced
            indices.append(own)
        return indices

    def flat_index(self) -> ir.PrimExpr:
        """The position within the reduced axes, row-major."""
        position: ir.PrimExpr = ir.const(0, self._shape[0].dtype if self._shape else None)
        for d, item in zip(self.axes, self.reduce_axes, strict=True):
            position = position * self._shape[d] + item.var
        return position


def comm_reduce(
    data: Tensor,
    axis: Axis,
    keepdims: bool,
    reducer: AxisReducer,
    what: str,
    dtype: ir.DType | None = None,
) -> Tensor:
    """Reduce with a one-valued reducer of te, elements converted to `dtype` first."""
    plan = _Plan(data, axis, keepdims, what)
    if reducer in (LARGEST, SMALLEST):
        plan.check_not_empty(what)

    def element(*i: ir.Var) -> ir.ExprLike:
        value: ir.PrimExpr = data(*plan.input_indices(i))
        if reducer in (te.all, te.any) and not value.dtype.is_bool:
            value = ir.not_equal(value, ir.const(0, value.dtype))
        value = value.astype(dtype or value.dtype)
        return reducer(value, axis=plan.reduce_axes) if plan.reduce_axes else value

    return ax.compute_ax(plan.output_shape(), element, f"{data.name}_red", ax.COMM_REDUCE)


def sum(
    data: Tensor, axis: Axis = None, keepdims: bool = False, dtype: str | None = None
) -> Tensor:
    """The sum over `axis` (all axes if None), of type `dtype`.

    By default floats keep their type, and narrow integers become int32 or uint32.
    """
    types = sum_types(dtype, data)
    return types.finish(comm_reduce(data, axis, keepdims, te.sum, "sum", types.accumulator))


def max(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element over `axis`; NaN where there is one."""
    return comm_reduce(data, axis, keepdims, LARGEST, "max")


def min(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element over `axis`; NaN where there is one."""
    return comm_reduce(data, axis, keepdims, SMALLEST, "min")


def prod(
    data: Tensor, axis: Axis = None, keepdims: bool = False, dtype: str | None = None
) -> Tensor:
    """The product over `axis`, of type `dtype` (by default as `sum` has it)."""
    types = sum_types(dtype, data)
    return types.finish(comm_reduce(data, axis, keepdims, te.prod, "prod", types.accumulator))


def all(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """True where every element over `axis` is (numbers other than 0 are)."""
    return comm_reduce(data, axis, keepdims, te.all, "all")


def any(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """True where some element over `axis` is (numbers other than 0 are)."""
    return comm_reduce(data, axis, keepdims, te.any, "any")


def mean(
    data: Tensor, axis: Axis = None, keepdims: bool = False, dtype: str | None = None
) -> Tensor:
    """The average over `axis`, of type `dtype` (by default that of the data)."""
    types = sum_types(dtype, data)
    if not types.result.is_float:
        raise TensorExpressionError(
            f"mean: {data.name} is {data.dtype!s}; give a float type as dtype="
        )
    count = ir.const(1)
    for d in ax.normalize_axes(axis, data.ndim, "mean"):
        count = count * data.shape[d]
    total = comm_reduce(data, axis, keepdims, te.sum, "mean", types.accumulator)
    return types.finish(divide(total, count.astype(types.accumulator)))


def index_reducer(better: Compare, worst: Callable[[str], ir.PrimExpr], last: bool) -> AxisReducer:
    """Keeps the better of two (index, value) pairs; of equal values the first (or last) index."""

    def identity(index: ir.DType, value: ir.DType) -> tuple[ir.PrimExpr, ir.PrimExpr]:
        # An index that loses every tie, so that it never is the result.
        return (ir.const(-1, index) if last else max_value(index)), worst(value)

    return te.comm_reducer(keep_better(better, last), identity, "argreduce")


def _index_of_best(
    data: Tensor, axis: Axis, keepdims: bool, reducer: AxisReducer, what: str
) -> Tensor:
    plan = _Plan(data, axis, keepdims, what)
    plan.check_not_empty(what)
    if not plan.reduce_axes:
        return full(plan.output_shape(), str(plan.flat_index().dtype), 0)

    def pair(*i: ir.Var) -> Any:
        value = data(*plan.input_indices(i))
        return reducer((plan.flat_index(), value), axis=plan.reduce_axes)

    name = f"{data.name}_red"
    shape = plan.output_shape()
    axis_names = [f"ax{d}" for d in range(len(shape))]
    pairs = te.compute(shape, pair, f"{name}_temp", ax.COMM_REDUCE_IDX, varargs_names=axis_names)
    return ax.compute_ax(shape, lambda *i: pairs[0](*i), name, ax.COMM_REDUCE_IDX)


def argmax(
    data: Tensor, axis: Axis = None, keepdims: bool = False, select_last_index: bool = False
) -> Tensor:
    """The position of the largest element over `axis` (in the flattened tensor if None).

    Of equal elements the first counts (or the last), and NaN counts as the largest.
    """
    reducer = index_reducer(ir.greater, lower_limit, select_last_index)
    return _index_of_best(data, axis, keepdims, reducer, "argmax")


def argmin(
    data: Tensor, axis: Axis = None, keepdims: bool = False, select_last_index: bool = False
) -> Tensor:
    """The position of the smallest element over `axis` (in the flattened tensor if None).

    Of equal elements the first counts (or the last), and NaN counts as the smallest.
    """
    reducer = index_reducer(ir.less, upper_limit, select_last_index)
    return _index_of_best(data, axis, keepdims, reducer, "argmin")

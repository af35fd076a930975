"""Pooling: windows, the whole image, or an adaptive grid."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import (
    DType,
    ExprLike,
    IntImm,
    IterVar,
    PrimExpr,
    Select,
    Var,
    cast,
    const,
    logical_and,
    maximum,
    minimum,
)
from tilewright.ir.intrinsics import if_then_else, lower_limit
from tilewright.te import Tensor
from tilewright.te.reduce import Reducer
from tilewright.topi.axes import (
    COMM_REDUCE,
    Window,
    check_float,
    compute_ax,
    is_zero,
    pad_widths,
    per_axis,
    positive_per_axis,
)
from tilewright.topi.reduction import LARGEST

_POOL_TYPES = ("max", "avg")
_MAX_TAG, _SUM_TAG, _AVG_TAG = "pool_max", "pool_sum", "elemwise"


def spatial_axes(layout: str, ndim: int, what: str) -> list[int]:
    """The positions of D, H and W in a layout such as "NCHW" or "NCHW16c"."""
    letters = [c for c in layout if c.isalpha()]
    if len(letters) != ndim:
        raise TensorExpressionError(
            f"{what}: layout {layout!r} does not fit a tensor of {ndim} dimensions"
        )
    found = [d for d, letter in enumerate(letters) if letter in "DHW"]
    if not found:
        raise TensorExpressionError(f"{what}: layout {layout!r} has no spatial axes D, H or W")
    return found


class _Windows:
    """The windows of a pooling: kernel, stride, dilation and padding of each spatial axis."""

    def __init__(
        self,
        data: Tensor,
        axes: Sequence[int],
        kernel: Window,
        stride: Window,
        dilation: Window,
        padding: Window,
        ceil_mode: bool,
        what: str,
    ) -> None:
        count = len(axes)
        self.data = data
        self.axes = list(axes)
        self.kernel = positive_per_axis(kernel, count, f"{what} kernel")
        self.stride = positive_per_axis(stride, count, f"{what} stride")
        self.dilation = positive_per_axis(dilation, count, f"{what} dilation")
        self.before, self.after = pad_widths(padding, self.kernel, what)
        self._user_after = self.after
        if ceil_mode:  # a last window that starts inside may reach beyond the border
            self.after = [a + s - 1 for a, s in zip(self.after, self.stride, strict=True)]

    def output_shape(self) -> list[PrimExpr]:
        shape = list(self.data.shape)
        for n, d in enumerate(self.axes):
            reach = (self.kernel[n] - 1) * self.dilation[n] + 1
            padded = self.data.shape[d] + self.before[n] + self.after[n]
            extent = (padded - reach) // self.stride[n] + 1
            if isinstance(extent, IntImm) and extent.value <= 0:
                raise TensorExpressionError(
                    f"pooling: a window of {reach} does not fit the padded extent {padded} of "
                    f"axis {d} of {self.data.name}"
                )
            shape[d] = extent
        return shape

    def padded(self, value: PrimExpr) -> Tensor:
        """The data with its border; the data itself if there is none."""
        if not any(self.before) and not any(self.after):
            return self.data
        return _pad(self.data, self.axes, self.before, self.after, value)

    def reduce_axes(self) -> list[IterVar]:
        return [te.reduce_axis((0, extent), name=f"rv{n}") for n, extent in enumerate(self.kernel)]

    def source(self, indices: Sequence[Var], window: Sequence[IterVar]) -> list[ExprLike]:
        """Where an element of the window of an output lies in the padded data."""
        own: list[ExprLike] = list(indices)
        for n, d in enumerate(self.axes):
            own[d] = indices[d] * self.stride[n] + window[n].var * self.dilation[n]
        return own

    def covered(self, n: int, index: Var, include_pad: bool) -> PrimExpr:
        """How many elements of a window along one axis are counted in an average."""
        size = self.data.shape[self.axes[n]]
        start = index * self.stride[n] - self.before[n]
        if include_pad:
            # The border given by the user counts, what `ceil_mode` adds does not.
            last = size + self._user_after[n] - 1
            end = minimum(start + (self.kernel[n] - 1) * self.dilation[n], last)
            return (end - start) // self.dilation[n] + 1
        end = minimum(start + (self.kernel[n] - 1) * self.dilation[n], size - 1)
        # Steps of the window that fall left of the data are skipped.
        skipped = (maximum(const(0) - start, 0) + (self.dilation[n] - 1)) // self.dilation[n]
        return (end - (start + skipped * self.dilation[n])) // self.dilation[n] + 1


def _pad(
    data: Tensor,
    axes: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    value: PrimExpr,
) -> Tensor:
    widths = {d: (before[n], after[n]) for n, d in enumerate(axes)}
    shape = [extent + sum(widths.get(d, (0, 0))) for d, extent in enumerate(data.shape)]

    def element(*i: Var) -> ExprLike:
        conditions = []
        own: list[ExprLike] = list(i)
        for d, (left, right) in widths.items():
            own[d] = i[d] - left
            if not is_zero(left):
                conditions.append(i[d] >= left)
            if not is_zero(right):
                conditions.append(i[d] < data.shape[d] + left)
        return if_then_else(logical_and(*conditions), data(*own), value)

    return compute_ax(shape, element, "pad_temp", "injective,pad")


def _pool(windows: _Windows, pool_type: str, count_include_pad: bool) -> Tensor:
    shape = windows.output_shape()
    reduce_axes = windows.reduce_axes()
    dtype = windows.data.dtype
    border = lower_limit(dtype) if pool_type == "max" else const(0, dtype)
    padded = windows.padded(border)
    reducer, wide = _reduction(pool_type, dtype)

    def element(*i: Var) -> ExprLike:
        value = padded(*windows.source(i, reduce_axes)).astype(wide)
        return reducer(value, axis=reduce_axes)

    if pool_type == "max":
        attrs = {"schedule_rule": "meta_schedule.pool_max"}
        return compute_ax(shape, element, "pool_max", _MAX_TAG, attrs)
    total = compute_ax(shape, element, "pool_sum", _SUM_TAG)

    def average(*i: Var) -> ExprLike:
        count: PrimExpr = const(1)
        for n, d in enumerate(windows.axes):
            count = count * windows.covered(n, i[d], count_include_pad)
        if not count_include_pad:
            count = maximum(count, 1)
        return (total(*i) / cast(wide, count)).astype(dtype)

    attrs = {"schedule_rule": "meta_schedule.pool_avg"}
    return compute_ax(shape, average, "pool_avg", _AVG_TAG, attrs)


def _reduction(pool_type: str, dtype: DType) -> tuple[Reducer, DType]:
    """How windows are reduced, and in which type."""
    return (LARGEST, dtype) if pool_type == "max" else (te.sum, dtype.accumulator)


def _check_type(data: Tensor, pool_type: str, what: str) -> None:
    if pool_type not in _POOL_TYPES:
        raise TensorExpressionError(
            f"{what}: unknown pool_type {pool_type!r}, expected 'max' or 'avg'"
        )
    if pool_type == "avg":
        check_float(data, f"{what} of averages")


def pool1d(
    data: Tensor,
    kernel: Window,
    stride: Window,
    dilation: Window,
    padding: Window,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCW",
    count_include_pad: bool = True,
) -> Tensor:
    """The maximum or average of windows along one spatial axis."""
    return _pool_nd(
        data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad, 1
    )


def pool2d(
    data: Tensor,
    kernel: Window,
    stride: Window,
    dilation: Window,
    padding: Window,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Tensor:
    """The maximum or average of windows of an image; padding is (top, left, bottom, right)."""
    return _pool_nd(
        data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad, 2
    )


def pool3d(
    data: Tensor,
    kernel: Window,
    stride: Window,
    dilation: Window,
    padding: Window,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCDHW",
    count_include_pad: bool = True,
) -> Tensor:
    """The maximum or average of windows of a volume."""
    return _pool_nd(
        data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad, 3
    )


def _pool_nd(
    data: Tensor,
    kernel: Window,
    stride: Window,
    dilation: Window,
    padding: Window,
    pool_type: str,
    ceil_mode: bool,
    layout: str,
    count_include_pad: bool,
    spatial: int,
) -> Tensor:
    what = f"pool{spatial}d"
    _check_type(data, pool_type, what)
    axes = spatial_axes(layout, data.ndim, what)
    if len(axes) != spatial:
        raise TensorExpressionError(f"{what}: layout {layout!r} has {len(axes)} spatial axes")
    windows = _Windows(data, axes, kernel, stride, dilation, padding, ceil_mode, what)
    return _pool(windows, pool_type, count_include_pad)


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """The maximum or average of each whole channel."""
    axes = spatial_axes(layout, data.ndim, "global_pool")
    return _adaptive(data, [1] * len(axes), pool_type, axes, "global_pool")


def adaptive_pool(
    data: Tensor, output_size: Window, pool_type: str, layout: str = "NCHW"
) -> Tensor:
    """Pooling to a given output size; windows may differ by one element and overlap."""
    axes = spatial_axes(layout, data.ndim, "adaptive_pool")
    sizes = per_axis(output_size, len(axes), "adaptive_pool output_size")
    return _adaptive(data, sizes, pool_type, axes, "adaptive_pool")


def _start(index: PrimExpr, out_size: int, in_size: PrimExpr) -> PrimExpr:
    return index * in_size // out_size


def _end(index: PrimExpr, out_size: int, in_size: PrimExpr) -> PrimExpr:
    """`ceil((index + 1) * in / out)`, written so that it simplifies well."""
    scaled = (index + 1) * in_size
    exact = (scaled % out_size).equal(0)
    return Select(exact, scaled // out_size, scaled // out_size + 1)


class _Grid:
    """The windows of an adaptive pooling."""

    def __init__(self, data: Tensor, sizes: Sequence[int], axes: Sequence[int]) -> None:
        self.data = data
        self.axes = list(axes)
        self.sizes = list(sizes)

    def window(self, n: int, index: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """The start and the length of the window of one output along one axis."""
        extent = self.data.shape[self.axes[n]]
        if isinstance(extent, IntImm) and extent.value % self.sizes[n] == 0:
            length = extent.value // self.sizes[n]
            return index * length, const(length, extent.dtype)
        start = _start(index, self.sizes[n], extent)
        return start, _end(index, self.sizes[n], extent) - start


def _adaptive(
    data: Tensor, sizes: Sequence[int], pool_type: str, axes: Sequence[int], what: str
) -> Tensor:
    _check_type(data, pool_type, what)
    grid = _Grid(data, sizes, axes)
    shape = list(data.shape)
    for d, size in zip(axes, sizes, strict=True):
        if size <= 0:
            raise TensorExpressionError(f"{what}: output size {size} must be positive")
        if is_zero(data.shape[d]) and pool_type == "max":
            raise TensorExpressionError(
                f"{what}: axis {d} of {data.name} has no elements, and the max of none is not "
                "defined"
            )
        shape[d] = const(size, data.shape[d].dtype)
    dtype = data.dtype
    reducer, wide = _reduction(pool_type, dtype)

    def element(*i: Var) -> ExprLike:
        own: list[ExprLike] = list(i)
        windows = [grid.window(n, i[d]) for n, d in enumerate(axes)]
        reduce_axes = [
            te.reduce_axis((0, length), name=f"rv{n}") for n, (_, length) in enumerate(windows)
        ]
        for d, (start, _), axis in zip(axes, windows, reduce_axes, strict=True):
            own[d] = start + axis.var
        return reducer(data(*own).astype(wide), axis=reduce_axes)

    if pool_type == "max":
        attrs = {"schedule_rule": "meta_schedule.adaptive_pool_max"}
        return compute_ax(shape, element, "adaptive_pool_max", COMM_REDUCE, attrs)
    total = compute_ax(shape, element, "adaptive_pool_sum", _SUM_TAG)

    def average(*i: Var) -> ExprLike:
        count: PrimExpr = const(1, wide)
        for n, d in enumerate(axes):
            count = count * cast(wide, grid.window(n, i[d])[1])
        return (total(*i) / count).astype(dtype)

    attrs = {"schedule_rule": "meta_schedule.adaptive_pool_avg"}
    return compute_ax(shape, average, "adaptive_pool_avg", _AVG_TAG, attrs)

"""Pooling: windows, the whole image, or an adaptive grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewright import ir, te
from tilewright.errors import TensorExpressionError
from tilewright.ir.annotation_keys import SCHEDULE_RULE
from tilewright.ir.intrinsics import if_then_else, lower_limit
from tilewright.support.names import named
from tilewright.te import Tensor
from tilewright.topi import axes as ax
from tilewright.topi.reduction import LARGEST

__all__ = ["pool1d", "pool2d", "pool3d", "global_pool", "adaptive_pool"]


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


@dataclass(frozen=True)
class _WindowAxis:
    """The windows of a pooling along one spatial axis."""

    axis: int
    extent: ir.PrimExpr  # of the data
    kernel: int
    stride: int
    dilation: int
    before: int  # padding
    after: int
    beyond: int  # what `ceil_mode` adds: a last window that starts inside may reach over the border

    @property
    def reach(self) -> int:
        """The distance between the first and the last element of a window."""
        return (self.kernel - 1) * self.dilation

    def outputs(self, name: str) -> ir.PrimExpr:
        """How many windows there are."""
        padded = self.extent + self.before + (self.after + self.beyond)
        count = (padded - (self.reach + 1)) // self.stride + 1
        if isinstance(count, ir.IntImm) and count.value <= 0:
            raise TensorExpressionError(
                f"pooling: a window of {self.reach + 1} does not fit the padded extent {padded} of "
                f"axis {self.axis} of {name}"
            )
        return count

    def covered(self, index: ir.Var, include_pad: bool) -> ir.PrimExpr:
        """How many elements of a window are counted in an average."""
        start = index * self.stride - self.before
        if include_pad:
            # The border given by the user counts, what `ceil_mode` adds does not.
            end = ir.minimum(start + self.reach, self.extent + self.after - 1)
            return (end - start) // self.dilation + 1
        end = ir.minimum(start + self.reach, self.extent - 1)
        # Steps of the window that fall left of the data are skipped.
        skipped = (ir.maximum(ir.const(0) - start, 0) + (self.dilation - 1)) // self.dilation
        return (end - (start + skipped * self.dilation)) // self.dilation + 1


def _padded(data: Tensor, windows: Sequence[_WindowAxis], value: ir.PrimExpr) -> Tensor:
    """The data with its border; the data itself if there is none."""
    widths = {w.axis: (w.before, w.after + w.beyond) for w in windows}
    if not any(map(sum, widths.values())):
        return data
    shape = [extent + sum(widths.get(d, (0, 0))) for d, extent in enumerate(data.shape)]

    def element(*i: ir.Var) -> ir.ExprLike:
        conditions = []
        own: list[ir.ExprLike] = list(i)
        for d, (left, right) in widths.items():
            own[d] = i[d] - left
            if left:
                conditions.append(i[d] >= left)
            if right:
                conditions.append(i[d] < data.shape[d] + left)
        return if_then_else(ir.logical_and(*conditions), data(*own), value)

    return ax.compute_ax(shape, element, "pad_temp", "injective,pad")


@dataclass(frozen=True)
class _Pooling:
    """What all poolings share: the type of the sums, and the names and tags of their stages."""

    data: Tensor
    pool_type: str
    name: str  # of the stages
    max_tag: str

    @property
    def wide(self) -> ir.DType:
        dtype = self.data.dtype
        return dtype if self.pool_type == "max" else dtype.accumulator

    def reduce(self, value: ir.PrimExpr, axes: Sequence[ir.IterVar]) -> ir.ExprLike:
        reducer = LARGEST if self.pool_type == "max" else te.sum
        return reducer(value.astype(self.wide), axis=axes)

    def tensor(
        self,
        shape: Sequence[ir.PrimExpr],
        element: Callable[..., ir.ExprLike],
        count: Callable[[Sequence[ir.Var]], ir.PrimExpr],
    ) -> Tensor:
        """The largest element of each window, or the sum divided by the `count` of elements."""
        attrs = {SCHEDULE_RULE: f"meta_schedule.{self.name}_{self.pool_type}"}
        if self.pool_type == "max":
            return ax.compute_ax(shape, element, f"{self.name}_max", self.max_tag, attrs)
        total = ax.compute_ax(shape, element, f"{self.name}_sum", "pool_sum")

        def average(*i: ir.Var) -> ir.ExprLike:
            return (total(*i) / count(i)).astype(self.data.dtype)

        return ax.compute_ax(shape, average, f"{self.name}_avg", ax.ELEMENTWISE, attrs)


def _check_type(data: Tensor, pool_type: str, what: str) -> None:
    if pool_type not in ("max", "avg"):
        raise TensorExpressionError(
            f"{what}: unknown pool_type {pool_type!r}, expected 'max' or 'avg'"
        )
    if pool_type == "avg":
        ax.check_float(data, f"{what} of averages")


def _pool_nd(n: int, usual_layout: str, meaning: str) -> Callable[..., Tensor]:
    what = f"pool{n}d"

    def pool(
        data: Tensor,
        kernel: ax.Window,
        stride: ax.Window,
        dilation: ax.Window,
        padding: ax.Window,
        pool_type: str,
        ceil_mode: bool = False,
        layout: str = usual_layout,
        count_include_pad: bool = True,
    ) -> Tensor:
        _check_type(data, pool_type, what)
        axes = spatial_axes(layout, data.ndim, what)
        if len(axes) != n:
            raise TensorExpressionError(f"{what}: layout {layout!r} has {len(axes)} spatial axes")
        kernels = ax.positive_per_axis(kernel, n, f"{what} kernel")
        strides = ax.positive_per_axis(stride, n, f"{what} stride")
        dilations = ax.positive_per_axis(dilation, n, f"{what} dilation")
        before, after = ax.pad_widths(padding, kernels, what)
        beyond = [step - 1 if ceil_mode else 0 for step in strides]
        extents = [data.shape[d] for d in axes]
        sizes = zip(axes, extents, kernels, strides, dilations, before, after, beyond, strict=True)
        return _pool(data, [_WindowAxis(*each) for each in sizes], pool_type, count_include_pad)

    return named(pool, what, f"The maximum or average of windows {meaning}.")


pool1d = _pool_nd(1, "NCW", "along one spatial axis")
pool2d = _pool_nd(2, "NCHW", "of an image; padding is (top, left, bottom, right)")
pool3d = _pool_nd(3, "NCDHW", "of a volume")


def _pool(
    data: Tensor, windows: Sequence[_WindowAxis], pool_type: str, include_pad: bool
) -> Tensor:
    pooling = _Pooling(data, pool_type, "pool", "pool_max")
    shape = list(data.shape)
    for w in windows:
        shape[w.axis] = w.outputs(data.name)
    axes = [te.reduce_axis((0, w.kernel), name=f"rv{n}") for n, w in enumerate(windows)]
    border = lower_limit(data.dtype) if pool_type == "max" else ir.const(0, data.dtype)
    padded = _padded(data, windows, border)

    def element(*i: ir.Var) -> ir.ExprLike:
        own: list[ir.ExprLike] = list(i)
        for w, axis in zip(windows, axes, strict=True):
            own[w.axis] = i[w.axis] * w.stride + axis.var * w.dilation
        return pooling.reduce(padded(*own), axes)

    def count(i: Sequence[ir.Var]) -> ir.PrimExpr:
        found: ir.PrimExpr = ir.const(1)
        for w in windows:
            found = found * w.covered(i[w.axis], include_pad)
        return ir.cast(pooling.wide, found if include_pad else ir.maximum(found, 1))

    return pooling.tensor(shape, element, count)


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """The maximum or average of each whole channel."""
    axes = spatial_axes(layout, data.ndim, "global_pool")
    return _adaptive(data, dict.fromkeys(axes, 1), pool_type, "global_pool")


def adaptive_pool(
    data: Tensor, output_size: ax.Window, pool_type: str, layout: str = "NCHW"
) -> Tensor:
    """Pooling to a given output size; windows may differ by one element and overlap."""
    axes = spatial_axes(layout, data.ndim, "adaptive_pool")
    sizes = ax.per_axis(output_size, len(axes), "adaptive_pool output_size")
    return _adaptive(data, dict(zip(axes, sizes, strict=True)), pool_type, "adaptive_pool")


def _window(index: ir.PrimExpr, size: int, extent: ir.PrimExpr) -> tuple[ir.PrimExpr, ir.PrimExpr]:
    """The start and the length of the window of one of `size` outputs along an axis."""
    if isinstance(extent, ir.IntImm) and extent.value % size == 0:
        length = extent.value // size
        return index * length, ir.const(length, extent.dtype)
    start, scaled = index * extent // size, (index + 1) * extent
    # The quotient rounded up, written so that it simplifies well.
    end = ir.Select((scaled % size).equal(0), scaled // size, scaled // size + 1)
    return start, end - start


def _adaptive(data: Tensor, sizes: Mapping[int, int], pool_type: str, what: str) -> Tensor:
    _check_type(data, pool_type, what)
    shape = list(data.shape)
    for d, size in sizes.items():
        if size <= 0:
            raise TensorExpressionError(f"{what}: output size {size} must be positive")
        if ax.is_zero(data.shape[d]) and pool_type == "max":
            raise TensorExpressionError(
                f"{what}: axis {d} of {data.name} has no elements, and the max of nothing "
                "is not defined"
            )
        shape[d] = ir.const(size, data.shape[d].dtype)
    pooling = _Pooling(data, pool_type, "adaptive_pool", ax.COMM_REDUCE)

    def windows(i: Sequence[ir.Var]) -> list[tuple[ir.PrimExpr, ir.PrimExpr]]:
        return [_window(i[d], size, data.shape[d]) for d, size in sizes.items()]

    def element(*i: ir.Var) -> ir.ExprLike:
        own: list[ir.ExprLike] = list(i)
        axes = []
        for n, (d, (start, length)) in enumerate(zip(sizes, windows(i), strict=True)):
            axes.append(te.reduce_axis((0, length), name=f"rv{n}"))
            own[d] = start + axes[n].var
        return pooling.reduce(data(*own), axes)

    def count(i: Sequence[ir.Var]) -> ir.PrimExpr:
        found: ir.PrimExpr = ir.const(1, pooling.wide)
        for _, length in windows(i):
            found = found * ir.cast(pooling.wide, length)
        return found

    return pooling.tensor(shape, element, count)

"""Direct convolutions in one, two and three dimensions, channels first or last, with groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, IntImm, IterVar, PrimExpr, Var
from tilewright.te import Tensor
from tilewright.topi.accumulate import sum_types
from tilewright.topi.axes import (
    Window,
    check_extents,
    check_ndim,
    constant_extent,
    is_zero,
    pad_widths,
    per_axis,
)
from tilewright.topi.nn.padding import pad

Padding: TypeAlias = Window | str

_SPATIAL_NAMES = ("yy", "xx", "zz")
_WINDOW_NAMES = ("ry", "rx", "rz")


@dataclass(frozen=True)
class ConvOptions:
    """Stride, padding, dilation and groups of a convolution."""

    stride: Window = 1
    padding: Padding = 0
    dilation: Window = 1
    groups: int = 1
    out_dtype: str | None = None
    pad_value: int | float | PrimExpr = 0  # the zero point of quantized data


class Geometry:
    """The sizes of a convolution over `n` spatial axes, from data, kernel extents and options."""

    def __init__(
        self,
        spatial: Sequence[PrimExpr],
        kernel: Sequence[PrimExpr],
        options: ConvOptions,
        what: str,
    ) -> None:
        count = len(spatial)
        self.kernel = list(kernel)
        self.stride = per_axis(options.stride, count, f"{what} stride")
        self.dilation = per_axis(options.dilation, count, f"{what} dilation")
        if min(self.stride + self.dilation) <= 0:
            raise TensorExpressionError(f"{what}: stride and dilation must be positive")
        if any(map(is_zero, kernel)):
            raise TensorExpressionError(f"{what}: the kernel has no elements along a spatial axis")
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, self.dilation, strict=True)]
        self.before, self.after = pad_widths(options.padding, reach, what)
        self.output = [self._output_extent(n, spatial[n], reach[n], what) for n in range(count)]

    def _output_extent(self, n: int, extent: PrimExpr, reach: PrimExpr, what: str) -> PrimExpr:
        padded = extent + self.before[n] + self.after[n]
        output = (padded - reach) // self.stride[n] + 1
        if isinstance(output, IntImm) and output.value <= 0:
            raise TensorExpressionError(
                f"{what}: a kernel that reaches over {reach} elements does not fit the padded "
                f"extent {padded} of spatial axis {n}"
            )
        return output

    def source(self, indices: Sequence[Var], window: Sequence[IterVar]) -> list[PrimExpr]:
        """Where the element `window` of the receptive field of an output lies."""
        return [
            index * stride + axis.var * dilation
            for index, stride, axis, dilation in zip(
                indices, self.stride, window, self.dilation, strict=True
            )
        ]


@dataclass(frozen=True)
class _Layout:
    """Where channels and spatial axes are in data and kernel."""

    name: str
    channel: int  # in data and output
    spatial: tuple[int, ...]
    kernel_out: int
    kernel_in: int
    kernel_spatial: tuple[int, ...]


def _channels_first(name: str, n: int) -> _Layout:
    return _Layout(name, 1, tuple(range(2, n + 2)), 0, 1, tuple(range(2, n + 2)))


def _channels_last(name: str, n: int) -> _Layout:
    return _Layout(name, n + 1, tuple(range(1, n + 1)), n + 1, n, tuple(range(n)))


def _place(ndim: int, entries: dict[int, ExprLike]) -> list[ExprLike]:
    return [entries[d] for d in range(ndim)]


class _DirectConv:
    """A convolution written as one reduction over channels and window."""

    def __init__(
        self, data: Tensor, kernel: Tensor, layout: _Layout, options: ConvOptions, what: str
    ) -> None:
        n = len(layout.spatial)
        check_ndim(data, n + 2, what)
        check_ndim(kernel, n + 2, what)
        self.layout = layout
        self.kernel = kernel
        self.geometry = Geometry(
            [data.shape[d] for d in layout.spatial],
            [kernel.shape[d] for d in layout.kernel_spatial],
            options,
            what,
        )
        self.types = sum_types(options.out_dtype, data, kernel)
        self.out_channels = kernel.shape[layout.kernel_out]
        self.in_channels = kernel.shape[layout.kernel_in]
        self.groups = options.groups
        self._check_channels(data.shape[layout.channel], what)
        before, after = [0] * (n + 2), [0] * (n + 2)
        for position, d in enumerate(layout.spatial):
            before[d], after[d] = self.geometry.before[position], self.geometry.after[position]
        self.padded = pad(data, before, after, options.pad_value, "pad_temp")
        self.batch = data.shape[0]

    def _check_channels(self, channels: PrimExpr, what: str) -> None:
        if self.groups == 1:
            check_extents(channels, self.in_channels, what, "the input channels of data and kernel")
            return
        total = constant_extent(channels, what)
        per_group = constant_extent(self.in_channels, what)
        outputs = constant_extent(self.out_channels, what)
        if self.groups < 1 or per_group * self.groups != total or outputs % self.groups:
            raise TensorExpressionError(
                f"{what}: {self.groups} groups do not fit {total} input channels, {per_group} per "
                f"group in the kernel, and {outputs} output channels"
            )

    def output_shape(self) -> list[ExprLike]:
        entries: dict[int, ExprLike] = {0: self.batch, self.layout.channel: self.out_channels}
        entries.update(zip(self.layout.spatial, self.geometry.output, strict=True))
        return _place(len(entries), entries)

    def axis_names(self) -> list[str]:
        entries: dict[int, str] = {0: "nn", self.layout.channel: "ff"}
        entries.update(zip(self.layout.spatial, _SPATIAL_NAMES, strict=False))
        return [entries[d] for d in range(len(entries))]

    def build(self, name: str) -> Tensor:
        window = [
            te.reduce_axis((0, extent), name=axis)
            for extent, axis in zip(self.geometry.kernel, _WINDOW_NAMES, strict=False)
        ]
        rc = te.reduce_axis((0, self.in_channels), name="rc")
        first = self.layout.channel == 1
        reduce_axes = [rc, *window] if first else [*window, rc]

        def element(*i: Var) -> ExprLike:
            channel: ExprLike = rc
            if self.groups > 1:
                group = i[self.layout.channel] // (self.out_channels // self.groups)
                channel = group * self.in_channels + rc
            value = self.padded(*self._data_indices(i, channel, window))
            weight = self.kernel(*self._kernel_indices(i, rc, window))
            wide = self.types.accumulator
            result: ExprLike = te.sum(value.astype(wide) * weight.astype(wide), axis=reduce_axes)
            return result

        # Constant weights of these may be packed ahead of time in whatever layout is best.
        free = {"layout_free_placeholders": [self.kernel]} if name == "conv2d_nhwc" else None
        shape = self.output_shape()
        total = te.compute(shape, element, name, name, free, varargs_names=self.axis_names())
        return self.types.finish(total)

    def _data_indices(
        self, i: Sequence[Var], channel: ExprLike, window: Sequence[IterVar]
    ) -> list[ExprLike]:
        entries: dict[int, ExprLike] = {0: i[0], self.layout.channel: channel}
        spatial = self.geometry.source([i[d] for d in self.layout.spatial], window)
        entries.update(zip(self.layout.spatial, spatial, strict=True))
        return _place(len(entries), entries)

    def _kernel_indices(
        self, i: Sequence[Var], rc: IterVar, window: Sequence[IterVar]
    ) -> list[ExprLike]:
        entries: dict[int, ExprLike] = {
            self.layout.kernel_out: i[self.layout.channel],
            self.layout.kernel_in: rc,
        }
        entries.update(zip(self.layout.kernel_spatial, window, strict=True))
        return _place(len(entries), entries)


Conv: TypeAlias = Callable[..., Tensor]


def _conv(layout: _Layout, n: int) -> Conv:
    name = f"conv{n}d_{layout.name}"

    def convolution(
        data: Tensor,
        kernel: Tensor,
        stride: Window = 1,
        padding: Padding = 0,
        dilation: Window = 1,
        groups: int = 1,
        out_dtype: str | None = None,
        pad_value: int | float | PrimExpr = 0,
    ) -> Tensor:
        options = ConvOptions(stride, padding, dilation, groups, out_dtype, pad_value)
        full_name = name if groups == 1 else f"group_{name}"
        return _DirectConv(data, kernel, layout, options, full_name).build(full_name)

    convolution.__name__ = convolution.__qualname__ = name
    convolution.__doc__ = f"The direct convolution over {n} spatial axes, {layout.name.upper()}."
    return convolution


conv1d_ncw = _conv(_channels_first("ncw", 1), 1)
conv1d_nwc = _conv(_channels_last("nwc", 1), 1)
conv2d_nchw = _conv(_channels_first("nchw", 2), 2)
conv2d_nhwc = _conv(_channels_last("nhwc", 2), 2)
conv3d_ncdhw = _conv(_channels_first("ncdhw", 3), 3)
conv3d_ndhwc = _conv(_channels_last("ndhwc", 3), 3)


def group_conv2d_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: Window,
    padding: Padding,
    dilation: Window,
    groups: int,
    out_dtype: str | None = None,
) -> Tensor:
    """conv2d_nchw in which each group of output channels sees one group of input channels."""
    return conv2d_nchw(data, kernel, stride, padding, dilation, groups, out_dtype)


def group_conv2d_nhwc(
    data: Tensor,
    kernel: Tensor,
    stride: Window,
    padding: Padding,
    dilation: Window,
    groups: int,
    out_dtype: str | None = None,
) -> Tensor:
    """conv2d_nhwc in which each group of output channels sees one group of input channels."""
    return conv2d_nhwc(data, kernel, stride, padding, dilation, groups, out_dtype)

"""Depthwise convolutions: each input channel has its own `multiplier` filters."""

from __future__ import annotations

from tilewright import te
from tilewright.ir import ExprLike, PrimExpr, Var
from tilewright.te import Tensor
from tilewright.topi.accumulate import sum_types
from tilewright.topi.axes import Window, check_extents, check_ndim
from tilewright.topi.nn.conv import ConvOptions, Geometry, Padding
from tilewright.topi.nn.padding import pad

_NAME = "DepthwiseConv2d"


def depthwise_conv2d_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: Window = 1,
    padding: Padding = 0,
    dilation: Window = 1,
    out_dtype: str | None = None,
    pad_value: int | float | PrimExpr = 0,
) -> Tensor:
    """The depthwise convolution of NCHW data with `kernel[channel, multiplier, kh, kw]`."""
    what = "depthwise_conv2d_nchw"
    check_ndim(data, 4, what)
    check_ndim(kernel, 4, what)
    batch, channels, height, width = data.shape
    kernel_channels, multiplier, kernel_h, kernel_w = kernel.shape
    check_extents(channels, kernel_channels, what, "the channels of data and kernel")
    geometry = Geometry(
        [height, width], [kernel_h, kernel_w], ConvOptions(stride, padding, dilation), what
    )
    types = sum_types(out_dtype, data, kernel)
    before, after = geometry.before, geometry.after
    padded = pad(data, [0, 0, *before], [0, 0, *after], pad_value, "PaddedInput")
    di = te.reduce_axis((0, kernel_h), name="di")
    dj = te.reduce_axis((0, kernel_w), name="dj")

    def element(b: Var, c: Var, i: Var, j: Var) -> ExprLike:
        y, x = geometry.source([i, j], [di, dj])
        channel, filter_index = _channel_of(c, multiplier)
        value = padded(b, channel, y, x).astype(types.accumulator)
        weight = kernel(channel, filter_index, di, dj).astype(types.accumulator)
        return te.sum(value * weight, axis=[di, dj])

    shape = (batch, channels * multiplier, *geometry.output)
    return types.finish(te.compute(shape, element, name=_NAME, tag=what))


def depthwise_conv2d_nhwc(
    data: Tensor,
    kernel: Tensor,
    stride: Window = 1,
    padding: Padding = 0,
    dilation: Window = 1,
    out_dtype: str | None = None,
    pad_value: int | float | PrimExpr = 0,
) -> Tensor:
    """The depthwise convolution of NHWC data with `kernel[kh, kw, channel, multiplier]`."""
    what = "depthwise_conv2d_nhwc"
    check_ndim(data, 4, what)
    check_ndim(kernel, 4, what)
    batch, height, width, channels = data.shape
    kernel_h, kernel_w, kernel_channels, multiplier = kernel.shape
    check_extents(channels, kernel_channels, what, "the channels of data and kernel")
    geometry = Geometry(
        [height, width], [kernel_h, kernel_w], ConvOptions(stride, padding, dilation), what
    )
    types = sum_types(out_dtype, data, kernel)
    before, after = geometry.before, geometry.after
    padded = pad(data, [0, *before, 0], [0, *after, 0], pad_value, "PaddedInput")
    di = te.reduce_axis((0, kernel_h), name="di")
    dj = te.reduce_axis((0, kernel_w), name="dj")

    def element(b: Var, i: Var, j: Var, c: Var) -> ExprLike:
        y, x = geometry.source([i, j], [di, dj])
        channel, filter_index = _channel_of(c, multiplier)
        value = padded(b, y, x, channel).astype(types.accumulator)
        weight = kernel(di, dj, channel, filter_index).astype(types.accumulator)
        return te.sum(value * weight, axis=[di, dj])

    shape = (batch, *geometry.output, channels * multiplier)
    return types.finish(te.compute(shape, element, name=_NAME, tag=what))


def _channel_of(c: Var, multiplier: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """The input channel of an output channel, and which of its filters it is."""
    return c // multiplier, c % multiplier

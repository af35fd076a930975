"""Depthwise convolutions: each input channel has its own `multiplier` filters."""

from __future__ import annotations

from tilewright.ir import ExprLike, PrimExpr
from tilewright.te import Tensor
from tilewright.topi.axes import Window, check_extents
from tilewright.topi.named_axes import Indices, compute_named
from tilewright.topi.nn.conv import ConvOperands, ConvOptions, Padding


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
    options = ConvOptions(stride, padding, dilation, 1, out_dtype, pad_value)
    return _depthwise(data, kernel, "NCHW CMHW", options)


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
    options = ConvOptions(stride, padding, dilation, 1, out_dtype, pad_value)
    return _depthwise(data, kernel, "NHWC HWCM", options)


def _depthwise(data: Tensor, kernel: Tensor, axes: str, options: ConvOptions) -> Tensor:
    what = f"depthwise_conv2d_{axes[:4].lower()}"
    conv = ConvOperands(data, kernel, axes, options, what)
    channels, multiplier = conv.data.extent("C"), conv.kernel.extent("M")
    check_extents(channels, conv.kernel.extent("C"), what, "the channels of data and kernel")
    padded, (di, dj) = conv.padded("PaddedInput"), conv.window("di", "dj")

    def element(i: Indices) -> ExprLike:
        y, x = conv.source([i["H"], i["W"]], [di, dj])
        channel, number = i["C"] // multiplier, i["C"] % multiplier
        value = padded.at(N=i["N"], C=channel, H=y, W=x)
        return conv.types.dot(value, conv.kernel.at(C=channel, M=number, H=di, W=dj), [di, dj])

    height, width = conv.output
    sizes = {"N": data.shape[0], "C": channels * multiplier, "H": height, "W": width}
    shown = {"N": "b", "C": "c", "H": "i", "W": "j"}
    names = {axis: shown[axis] for axis in axes[:4]}
    return conv.types.finish(compute_named("DepthwiseConv2d", names, sizes, element, what).tensor)

"""Depthwise convolutions: each input channel has its own `multiplier` filters."""

from __future__ import annotations

from tilewright.ir import ExprLike
from tilewright.te import Tensor
from tilewright.topi.axes import check_extents
from tilewright.topi.named_axes import Indices, compute_named
from tilewright.topi.nn.conv import ConvOperands, convolution


@convolution("NCHW CMHW")
def depthwise_conv2d_nchw(conv: ConvOperands) -> Tensor:
    """The depthwise convolution of NCHW data with `kernel[channel, multiplier, kh, kw]`."""
    return _depthwise(conv)


@convolution("NHWC HWCM")
def depthwise_conv2d_nhwc(conv: ConvOperands) -> Tensor:
    """The depthwise convolution of NHWC data with `kernel[kh, kw, channel, multiplier]`."""
    return _depthwise(conv)


def _depthwise(conv: ConvOperands) -> Tensor:
    channels, multiplier = conv.data.extent("C"), conv.kernel.extent("M")
    check_extents(channels, conv.kernel.extent("C"), conv.what, "the channels of data and kernel")
    padded, (di, dj) = conv.padded("PaddedInput"), conv.window("di", "dj")

    def element(i: Indices) -> ExprLike:
        y, x = conv.source([i["H"], i["W"]], [di, dj])
        channel, number = i["C"] // multiplier, i["C"] % multiplier
        value = padded.at(N=i["N"], C=channel, H=y, W=x)
        return conv.types.dot(value, conv.kernel.at(C=channel, M=number, H=di, W=dj), [di, dj])

    height, width = conv.output
    sizes = {"N": conv.data.extent("N"), "C": channels * multiplier, "H": height, "W": width}
    shown = {"N": "b", "C": "c", "H": "i", "W": "j"}
    names = {axis: shown[axis] for axis in conv.data.axes}
    total = compute_named("DepthwiseConv2d", names, sizes, element, conv.what)
    return conv.types.finish(total.tensor)

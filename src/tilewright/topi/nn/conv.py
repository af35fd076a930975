"""Direct convolutions in one, two and three dimensions, channels first or last, with groups.

In depthwise convolutions each input channel has its own `multiplier` filters. The form for bytes on
blocks splits the input channels once more, into the few that one dot product takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, IntImm, IterVar, PrimExpr, Var, convert
from tilewright.ir.annotation_keys import LAYOUT_FREE_PLACEHOLDERS
from tilewright.support.names import named
from tilewright.te import Tensor
from tilewright.topi import axes as ax
from tilewright.topi.accumulate import sum_types
from tilewright.topi.axes import Indices, NamedTensor, compute_named
from tilewright.topi.nn.padding import pad_named

__all__ = [
    "conv1d_ncw", "conv1d_nwc", "conv2d_nchw", "conv2d_nhwc", "conv3d_ncdhw", "conv3d_ndhwc",
    "group_conv2d_nchw", "group_conv2d_nhwc", "depthwise_conv2d_nchw", "depthwise_conv2d_nhwc",
    "conv2d_NCHWc", "conv2d_NCHWc_int8", "conv1d", "conv2d", "conv3d",
]  # fmt: skip

Padding: TypeAlias = ax.Window | str


@dataclass(frozen=True)
class ConvOptions:
    """Stride, padding, dilation and groups of a convolution."""

    stride: ax.Window = 1
    padding: Padding = 0
    dilation: ax.Window = 1
    groups: int = 1
    out_dtype: str | None = None
    pad_value: int | float | PrimExpr = 0  # the zero point of quantized data


class ConvOperands:
    """Data and kernel of a convolution, checked, with the sizes that follow from them.

    `axes` names the axes of both by letters, as in "NCHW OIHW"; D, H and W are the spatial ones.
    """

    def __init__(
        self, data: Tensor, kernel: Tensor, axes: str, options: ConvOptions, what: str
    ) -> None:
        self.what = what
        data_axes, kernel_axes = axes.split()
        ax.check_ndim(data, len(data_axes), what)
        ax.check_ndim(kernel, len(kernel_axes), what)
        self.data, self.kernel = NamedTensor(data, data_axes), NamedTensor(kernel, kernel_axes)
        self.types = sum_types(options.out_dtype, data, kernel)
        self.spatial = [axis for axis in data_axes if axis in "DHW"]
        self.extents = [self.kernel.extent(axis) for axis in self.spatial]
        self._pad_value = options.pad_value
        count = len(self.spatial)
        self._stride = ax.per_axis(options.stride, count, f"{what} stride")
        self._dilation = ax.per_axis(options.dilation, count, f"{what} dilation")
        if min(self._stride + self._dilation) <= 0:
            raise TensorExpressionError(f"{what}: stride and dilation must be positive")
        if any(map(ax.is_zero, self.extents)):
            raise TensorExpressionError(f"{what}: the kernel has no elements along a spatial axis")
        reach = [(k - 1) * d + 1 for k, d in zip(self.extents, self._dilation, strict=True)]
        self._before, self._after = ax.pad_widths(options.padding, reach, what)
        self.output = [self._output_extent(n, reach[n], what) for n in range(count)]

    def _output_extent(self, n: int, reach: PrimExpr, what: str) -> PrimExpr:
        padded = self.data.extent(self.spatial[n]) + self._before[n] + self._after[n]
        output = (padded - reach) // self._stride[n] + 1
        if isinstance(output, IntImm) and output.value <= 0:
            raise TensorExpressionError(
                f"{what}: a kernel that reaches over {reach} elements does not fit the padded "
                f"extent {padded} of spatial axis {n}"
            )
        return output

    @property
    def is_padded(self) -> bool:
        return any(self._before + self._after)

    def padded(self, name: str) -> NamedTensor:
        """The data with its border."""
        sides = self._before, self._after
        return pad_named(self.data, self.spatial, *sides, self._pad_value, name)

    def window(self, *names: str) -> list[IterVar]:
        """Reduction axes over the spatial axes of the kernel."""
        pairs = zip(self.extents, names, strict=False)
        return [te.reduce_axis((0, extent), name=name) for extent, name in pairs]

    def source(self, indices: Sequence[PrimExpr], window: Sequence[ExprLike]) -> list[PrimExpr]:
        """Where the element `window` of the receptive field of an output lies."""
        return [
            index * stride + convert(offset) * dilation
            for index, stride, offset, dilation in zip(
                indices, self._stride, window, self._dilation, strict=True
            )
        ]

    def check_channels(self, groups: int = 1) -> None:
        """Insist that the channels (C) of the data are the inputs (I) of the kernel's groups."""
        channels, inputs, what = self.data.extent("C"), self.kernel.extent("I"), self.what
        if groups == 1:
            ax.check_extents(channels, inputs, what, "the input channels of data and kernel")
            return
        total, per_group = ax.constant_extent(channels, what), ax.constant_extent(inputs, what)
        outputs = ax.constant_extent(self.kernel.extent("O"), what)
        if groups < 1 or per_group * groups != total or outputs % groups:
            raise TensorExpressionError(
                f"{what}: {groups} groups do not fit {total} input channels, {per_group} per "
                f"group in the kernel, and {outputs} output channels"
            )


Conv: TypeAlias = Callable[..., Tensor]


def convolution(
    axes: str, usual_dtype: str | None = None
) -> Callable[[Callable[[ConvOperands], Tensor]], Conv]:
    """Turns a function of checked operands with these axes into an operator."""

    def decorate(compute: Callable[[ConvOperands], Tensor]) -> Conv:
        name = compute.__name__

        def operator(
            data: Tensor,
            kernel: Tensor,
            stride: ax.Window = 1,
            padding: Padding = 0,
            dilation: ax.Window = 1,
            out_dtype: str | None = usual_dtype,
            pad_value: int | float | PrimExpr = 0,
        ) -> Tensor:
            options = ConvOptions(stride, padding, dilation, 1, out_dtype, pad_value)
            return compute(ConvOperands(data, kernel, axes, options, name))

        return named(operator, name, compute.__doc__)

    return decorate


def _direct(data: Tensor, kernel: Tensor, axes: str, options: ConvOptions, name: str) -> Tensor:
    """A convolution written as one reduction over channels and window."""
    conv, groups = ConvOperands(data, kernel, axes, options, name), options.groups
    conv.check_channels(groups)
    padded, window = conv.padded("pad_temp"), conv.window("ry", "rx", "rz")
    inputs, outputs = conv.kernel.extent("I"), conv.kernel.extent("O")
    rc = te.reduce_axis((0, inputs), name="rc")
    reduced = [rc, *window] if axes[1] == "C" else [*window, rc]

    def element(i: Indices) -> ExprLike:
        channel = rc.var if groups == 1 else i["C"] // (outputs // groups) * inputs + rc.var
        source = conv.source([i[axis] for axis in conv.spatial], window)
        value = padded.at(N=i["N"], C=channel, **dict(zip(conv.spatial, source, strict=True)))
        weight = conv.kernel.at(O=i["C"], I=rc, **dict(zip(conv.spatial, window, strict=True)))
        return conv.types.dot(value, weight, reduced)

    sizes = {"N": data.shape[0], "C": outputs, **dict(zip(conv.spatial, conv.output, strict=True))}
    shown = {"N": "nn", "C": "ff", **dict(zip(conv.spatial, ("yy", "xx", "zz"), strict=False))}
    # Constant weights of these may be packed ahead of time in whatever layout is best.
    free = {LAYOUT_FREE_PLACEHOLDERS: [kernel]} if name == "conv2d_nhwc" else None
    names = {axis: shown[axis] for axis in padded.axes}
    return conv.types.finish(compute_named(name, names, sizes, element, name, free).tensor)


def _conv(axes: str) -> Conv:
    layout = axes.split()[0]
    n = len(layout) - 2
    name = f"conv{n}d_{layout.lower()}"

    def convolution(
        data: Tensor,
        kernel: Tensor,
        stride: ax.Window = 1,
        padding: Padding = 0,
        dilation: ax.Window = 1,
        groups: int = 1,
        out_dtype: str | None = None,
        pad_value: int | float | PrimExpr = 0,
    ) -> Tensor:
        options = ConvOptions(stride, padding, dilation, groups, out_dtype, pad_value)
        return _direct(data, kernel, axes, options, name if groups == 1 else f"group_{name}")

    return named(convolution, name, f"The direct convolution over {n} spatial axes, {layout}.")


conv1d_ncw = _conv("NCW OIW")
conv1d_nwc = _conv("NWC WIO")
conv2d_nchw = _conv("NCHW OIHW")
conv2d_nhwc = _conv("NHWC HWIO")
conv3d_ncdhw = _conv("NCDHW OIDHW")
conv3d_ndhwc = _conv("NDHWC DHWIO")
# With `groups`, each group of output channels sees one group of input channels.
group_conv2d_nchw, group_conv2d_nhwc = conv2d_nchw, conv2d_nhwc


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
    ax.check_extents(
        channels, conv.kernel.extent("C"), conv.what, "the channels of data and kernel"
    )
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


# --- channels in blocks (NCHWc), so that the innermost axis is a vector of channels ---------------


@convolution("NCHWb OIHWbo")
def conv2d_NCHWc(conv: ConvOperands) -> Tensor:
    """The convolution of `data[n, ic/b, h, w, b]` with `kernel[oc/c, ic/b, kh, kw, b, c]`."""
    data, kernel = conv.data.tensor, conv.kernel.tensor
    _, in_chunks, _, _, in_block = data.shape
    _check_blocks(conv, conv.kernel.extent("b"))
    padded = conv.padded("data_pad").tensor
    ic = te.reduce_axis((0, in_chunks * in_block), name="ic")
    kh, kw = conv.window("kh", "kw")

    def element(n: Var, oc_chunk: Var, oh: Var, ow: Var, oc_block: Var) -> ExprLike:
        y, x = conv.source([oh, ow], [kh, kw])
        chunk, block = ic.var // in_block, ic.var % in_block
        weight = kernel(oc_chunk, chunk, kh, kw, block, oc_block)
        return conv.types.dot(padded(n, chunk, y, x, block), weight, [ic, kh, kw])

    shape = (data.shape[0], kernel.shape[0], *conv.output, kernel.shape[-1])
    return conv.types.finish(te.compute(shape, element, name=conv.what, tag=conv.what))


@convolution("NCHWb OIHWgoe", "int32")
def conv2d_NCHWc_int8(conv: ConvOperands) -> Tensor:
    """conv2d of `data[n, ic/b, h, w, b]` with `kernel[oc/c, ic/b, kh, kw, b/e, c, e]`.

    `e` is the length of the instruction's dot products, 4 for bytes.
    """
    data, kernel = conv.data.tensor, conv.kernel.tensor
    groups, out_block, elements = kernel.shape[-3:]
    _check_blocks(conv, groups * elements)
    padded = conv.padded("data_pad").tensor if conv.is_padded else data
    kh, kw = conv.window("kh", "kw")
    ic_outer = te.reduce_axis((0, data.shape[1]), name="ic_outer")
    ic_f_inner = te.reduce_axis((0, groups), name="ic_f_inner")
    ic_s_inner = te.reduce_axis((0, elements), name="ic_s_inner")

    def element(n: Var, oc_chunk: Var, oh: Var, ow: Var, oc_block: Var) -> ExprLike:
        y, x = conv.source([oh, ow], [kh, kw])
        value = padded(n, ic_outer, y, x, ic_f_inner.var * elements + ic_s_inner.var)
        weight = kernel(oc_chunk, ic_outer, kh, kw, ic_f_inner, oc_block, ic_s_inner)
        return conv.types.dot(value, weight, [kh, kw, ic_outer, ic_f_inner, ic_s_inner])

    shape = (data.shape[0], kernel.shape[0], *conv.output, out_block)
    return conv.types.finish(te.compute(shape, element, name=conv.what, tag=conv.what))


def _check_blocks(conv: ConvOperands, block: PrimExpr) -> None:
    chunks = conv.data.extent("C"), conv.kernel.extent("I")
    ax.check_extents(*chunks, conv.what, "the channel chunks of data and kernel")
    ax.check_extents(
        conv.data.extent("b"), block, conv.what, "the channel blocks of data and kernel"
    )


# --- the implementation by the layout of the data -------------------------------------------------

_BY_LAYOUT: dict[int, dict[str, Conv]] = {
    1: {"NCW": conv1d_ncw, "NWC": conv1d_nwc},
    2: {"NCHW": conv2d_nchw, "NHWC": conv2d_nhwc},
    3: {"NCDHW": conv3d_ncdhw, "NDHWC": conv3d_ndhwc},
}


def _by_layout(n: int, layout: str) -> Conv:
    found = _BY_LAYOUT[n].get(layout)
    if found is None:
        known = ", ".join(map(repr, _BY_LAYOUT[n]))
        raise TensorExpressionError(
            f"conv{n}d: layout {layout!r} is not supported, expected one of {known}"
        )
    return found


def _conv_nd(n: int, usual_layout: str, meaning: str) -> Conv:
    def convolution(
        data: Tensor,
        kernel: Tensor,
        strides: ax.Window = 1,
        padding: Padding = 0,
        dilation: ax.Window = 1,
        groups: int = 1,
        data_layout: str = usual_layout,
        out_dtype: str | None = None,
    ) -> Tensor:
        chosen = _by_layout(n, data_layout)
        return chosen(data, kernel, strides, padding, dilation, groups, out_dtype)

    return named(convolution, f"conv{n}d", f"The convolution of {meaning}.")


conv1d = _conv_nd(1, "NCW", "NCW data (OIW kernel) or NWC data (WIO kernel)")
conv3d = _conv_nd(3, "NCDHW", "NCDHW data (OIDHW kernel) or NDHWC data (DHWIO kernel)")


def conv2d(
    data: Tensor,
    kernel: Tensor,
    strides: ax.Window = 1,
    padding: Padding = 0,
    dilation: ax.Window = 1,
    data_layout: str = "NCHW",
    out_dtype: str | None = None,
    groups: int = 1,
) -> Tensor:
    """The convolution of NCHW data (OIHW kernel), NHWC (HWIO) or NCHW<n>c (OIHW<i>i<o>o)."""
    if re.fullmatch(r"NCHW\d*c", data_layout):
        if groups != 1:
            raise TensorExpressionError(f"conv2d: layout {data_layout!r} does not support groups")
        return conv2d_NCHWc(data, kernel, strides, padding, dilation, out_dtype)
    return _by_layout(2, data_layout)(data, kernel, strides, padding, dilation, groups, out_dtype)

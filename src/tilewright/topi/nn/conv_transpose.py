"""Transposed convolutions.

With stride 1 they are convolutions of the padded data with the flipped kernel. With larger strides
`conv_phases` leaves out the zeros that such a convolution would multiply by; where extents are not
known, the data are dilated with zeros first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, IntImm, Var
from tilewright.support.names import named
from tilewright.te import Tensor
from tilewright.topi import axes as ax
from tilewright.topi.accumulate import SumTypes, sum_types
from tilewright.topi.nn.conv_phases import by_phases, phase_axes
from tilewright.topi.nn.padding import dilate, pad

_SPATIAL = {1: ("w",), 2: ("h", "w"), 3: ("d", "h", "w")}


def _conv_transpose(n: int, layout: str, kernel_name: str) -> Callable[..., Tensor]:
    name = f"conv{n}d_transpose_{layout}"
    letters = _SPATIAL[n]

    def transposed(
        data: Tensor,
        kernel: Tensor,
        strides: ax.Window,
        padding: ax.Window,
        out_dtype: str | None = None,
        output_padding: ax.Window = 0,
    ) -> Tensor:
        ax.check_ndim(data, n + 2, name)
        ax.check_ndim(kernel, n + 2, name)
        ax.check_extents(
            data.shape[1], kernel.shape[0], name, "the input channels of data and kernel"
        )
        stride = ax.positive_per_axis(strides, n, f"{name} strides")
        types = sum_types(out_dtype, data, kernel)
        extents = [ax.constant_extent(extent, name) for extent in kernel.shape[2:]]
        cut = _cut_off(extents, stride, padding, output_padding, name)
        known = all(isinstance(extent, IntImm) and extent.value > 0 for extent in data.shape[2:])
        if max(stride) > 1 and known:
            axes = phase_axes(data, extents, stride, cut)
            return types.finish(by_phases(data, kernel, axes, types, name))
        padded = _dilate_and_pad(data, extents, stride, cut)
        flipped = _flip(kernel, kernel_name, letters)
        return types.finish(_convolve(padded, flipped, types, letters, name))

    meaning = f"The transposed convolution of {layout.upper()} data over {n} axes."
    return named(transposed, name, meaning)


def _cut_off(
    extents: Sequence[int],
    stride: Sequence[int],
    padding: ax.Window,
    output_padding: ax.Window,
    what: str,
) -> list[tuple[int, int]]:
    """What is left out of the full result at the beginning and the end of each axis."""
    if 0 in extents:
        raise TensorExpressionError(f"{what}: the kernel has no elements along a spatial axis")
    before, after = ax.pad_widths(padding, extents, what)
    extra = ax.per_axis(output_padding, len(stride), f"{what} output_padding")
    for own, step in zip(extra, stride, strict=True):
        if not 0 <= own < step:
            raise TensorExpressionError(
                f"{what}: output_padding {own} must be less than the stride {step}"
            )
    cut = [(b, a - e) for b, a, e in zip(before, after, extra, strict=True)]
    if any(size - 1 < max(own) for size, own in zip(extents, cut, strict=True)):
        raise TensorExpressionError(f"{what}: padding {padding} is larger than the kernel minus 1")
    return cut


def _dilate_and_pad(
    data: Tensor, extents: Sequence[int], stride: Sequence[int], cut: Sequence[tuple[int, int]]
) -> Tensor:
    dilated = dilate(data, [1, 1, *stride], name="data_dilate")
    sides = [
        [size - 1 - own[side] for size, own in zip(extents, cut, strict=True)] for side in (0, 1)
    ]
    return pad(dilated, [0, 0, *sides[0]], [0, 0, *sides[1]], name="data_pad")


def _flip(kernel: Tensor, name: str, letters: Sequence[str]) -> Tensor:
    """The kernel with its spatial axes reversed and output channels first."""

    def element(*i: Var) -> ExprLike:
        window = [extent - 1 - index for extent, index in zip(kernel.shape[2:], i[2:], strict=True)]
        return kernel(i[1], i[0], *window)

    shape = (kernel.shape[1], kernel.shape[0], *kernel.shape[2:])
    return te.compute(shape, element, name, varargs_names=["o", "i", *letters])


def _convolve(
    padded: Tensor, kernel: Tensor, types: SumTypes, letters: Sequence[str], what: str
) -> Tensor:
    dc = te.reduce_axis((0, kernel.shape[1]), name="dc")
    window = [
        te.reduce_axis((0, extent), name=f"d{letter}")
        for extent, letter in zip(kernel.shape[2:], letters, strict=True)
    ]

    def element(*i: Var) -> ExprLike:
        position = [index + axis.var for index, axis in zip(i[2:], window, strict=True)]
        return types.dot(padded(i[0], dc, *position), kernel(i[1], dc, *window), [dc, *window])

    spatial = [
        extent - size + 1 for extent, size in zip(padded.shape[2:], kernel.shape[2:], strict=True)
    ]
    shape = (padded.shape[0], kernel.shape[0], *spatial)
    return te.compute(shape, element, tag=what, varargs_names=["b", "c", *letters])


conv1d_transpose_ncw = _conv_transpose(1, "ncw", "kernel")
conv2d_transpose_nchw = _conv_transpose(2, "nchw", "kernel_transform")
conv3d_transpose_ncdhw = _conv_transpose(3, "ncdhw", "kernel_transform")

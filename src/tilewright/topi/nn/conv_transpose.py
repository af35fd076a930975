"""Transposed convolutions: dilate and pad the data, flip the kernel, convolve with stride 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, Var
from tilewright.te import Tensor
from tilewright.topi.accumulate import sum_types
from tilewright.topi.axes import (
    Window,
    check_extents,
    check_ndim,
    constant_extent,
    pad_widths,
    per_axis,
    positive_per_axis,
)
from tilewright.topi.nn.padding import dilate, pad

_SPATIAL = {1: ("w",), 2: ("h", "w"), 3: ("d", "h", "w")}


def _conv_transpose(n: int, layout: str, kernel_name: str) -> Callable[..., Tensor]:
    name = f"conv{n}d_transpose_{layout}"
    letters = _SPATIAL[n]

    def transposed(
        data: Tensor,
        kernel: Tensor,
        strides: Window,
        padding: Window,
        out_dtype: str | None = None,
        output_padding: Window = 0,
    ) -> Tensor:
        check_ndim(data, n + 2, name)
        check_ndim(kernel, n + 2, name)
        check_extents(data.shape[1], kernel.shape[0], name, "the input channels of data and kernel")
        stride = positive_per_axis(strides, n, f"{name} strides")
        types = sum_types(out_dtype, data, kernel)
        padded = _dilate_and_pad(data, kernel, stride, padding, output_padding, name)
        flipped = _flip(kernel, kernel_name, letters)
        return types.finish(_convolve(padded, flipped, types.accumulator, letters, name))

    transposed.__name__ = transposed.__qualname__ = name
    transposed.__doc__ = f"The transposed convolution of {layout.upper()} data over {n} axes."
    return transposed


def _dilate_and_pad(
    data: Tensor,
    kernel: Tensor,
    stride: Sequence[int],
    padding: Window,
    output_padding: Window,
    what: str,
) -> Tensor:
    n = len(stride)
    extents = [constant_extent(extent, what) for extent in kernel.shape[2:]]
    if 0 in extents:
        raise TensorExpressionError(f"{what}: the kernel has no elements along a spatial axis")
    before, after = pad_widths(padding, extents, what)
    extra = per_axis(output_padding, n, f"{what} output_padding")
    for own, step in zip(extra, stride, strict=True):
        if not 0 <= own < step:
            raise TensorExpressionError(
                f"{what}: output_padding {own} must be less than the stride {step}"
            )
    dilated = dilate(data, [1, 1, *stride], name="data_dilate")
    left = [extents[d] - 1 - before[d] for d in range(n)]
    right = [extents[d] - 1 - after[d] + extra[d] for d in range(n)]
    if min(left + right) < 0:
        raise TensorExpressionError(f"{what}: padding {padding} is larger than the kernel minus 1")
    return pad(dilated, [0, 0, *left], [0, 0, *right], name="data_pad")


def _flip(kernel: Tensor, name: str, letters: Sequence[str]) -> Tensor:
    """The kernel with its spatial axes reversed and output channels first."""

    def element(*i: Var) -> ExprLike:
        window = [extent - 1 - index for extent, index in zip(kernel.shape[2:], i[2:], strict=True)]
        return kernel(i[1], i[0], *window)

    shape = (kernel.shape[1], kernel.shape[0], *kernel.shape[2:])
    return te.compute(shape, element, name, varargs_names=["o", "i", *letters])


def _convolve(
    padded: Tensor, kernel: Tensor, dtype: str, letters: Sequence[str], what: str
) -> Tensor:
    dc = te.reduce_axis((0, kernel.shape[1]), name="dc")
    window = [
        te.reduce_axis((0, extent), name=f"d{letter}")
        for extent, letter in zip(kernel.shape[2:], letters, strict=True)
    ]

    def element(*i: Var) -> ExprLike:
        position = [index + axis.var for index, axis in zip(i[2:], window, strict=True)]
        value = padded(i[0], dc, *position).astype(dtype)
        weight = kernel(i[1], dc, *window).astype(dtype)
        return te.sum(value * weight, axis=[dc, *window])

    spatial = [
        extent - size + 1 for extent, size in zip(padded.shape[2:], kernel.shape[2:], strict=True)
    ]
    shape = (padded.shape[0], kernel.shape[0], *spatial)
    return te.compute(shape, element, tag=what, varargs_names=["b", "c", *letters])


conv1d_transpose_ncw = _conv_transpose(1, "ncw", "kernel")
conv2d_transpose_nchw = _conv_transpose(2, "nchw", "kernel_transform")
conv3d_transpose_ncdhw = _conv_transpose(3, "ncdhw", "kernel_transform")

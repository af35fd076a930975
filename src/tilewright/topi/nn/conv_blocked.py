"""conv2d on channel blocks (NCHWc), so that the innermost axis is a vector of channels."""

from __future__ import annotations

from tilewright import te
from tilewright.ir import ExprLike, Var
from tilewright.te import Tensor
from tilewright.topi.axes import Window, check_extents, check_ndim
from tilewright.topi.nn.conv import ConvOptions, Geometry, Padding
from tilewright.topi.nn.padding import pad


def conv2d_NCHWc(
    data: Tensor,
    kernel: Tensor,
    stride: Window = 1,
    padding: Padding = 0,
    dilation: Window = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """The convolution of `data[n, ic/b, h, w, b]` with `kernel[oc/c, ic/b, kh, kw, b, c]`."""
    what = "conv2d_NCHWc"
    check_ndim(data, 5, what)
    check_ndim(kernel, 6, what)
    batch, in_chunks, height, width, in_block = data.shape
    out_chunks, kernel_chunks, kernel_h, kernel_w, kernel_block, out_block = kernel.shape
    check_extents(in_chunks, kernel_chunks, what, "the channel chunks of data and kernel")
    check_extents(in_block, kernel_block, what, "the channel blocks of data and kernel")
    options = ConvOptions(stride, padding, dilation)
    geometry = Geometry([height, width], [kernel_h, kernel_w], options, what)
    dtype = out_dtype or str(data.dtype)
    before, after = geometry.before, geometry.after
    padded = pad(data, [0, 0, *before, 0], [0, 0, *after, 0], name="data_pad")
    ic = te.reduce_axis((0, in_chunks * in_block), name="ic")
    kh = te.reduce_axis((0, kernel_h), name="kh")
    kw = te.reduce_axis((0, kernel_w), name="kw")

    def element(n: Var, oc_chunk: Var, oh: Var, ow: Var, oc_block: Var) -> ExprLike:
        y, x = geometry.source([oh, ow], [kh, kw])
        chunk, block = ic.var // in_block, ic.var % in_block
        value = padded(n, chunk, y, x, block).astype(dtype)
        weight = kernel(oc_chunk, chunk, kh, kw, block, oc_block).astype(dtype)
        return te.sum(value * weight, axis=[ic, kh, kw])

    shape = (batch, out_chunks, *geometry.output, out_block)
    return te.compute(shape, element, name=what, tag=what)

"""conv2d on channel blocks (NCHWc), so that the innermost axis is a vector of channels.

The form for bytes splits the input channels once more, into the few that one dot product takes.
"""

from __future__ import annotations

from tilewright import te
from tilewright.ir import ExprLike, PrimExpr, Var
from tilewright.te import Tensor
from tilewright.topi.accumulate import sum_types
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
    types = sum_types(out_dtype, data, kernel)
    before, after = geometry.before, geometry.after
    padded = pad(data, [0, 0, *before, 0], [0, 0, *after, 0], name="data_pad")
    ic = te.reduce_axis((0, in_chunks * in_block), name="ic")
    kh = te.reduce_axis((0, kernel_h), name="kh")
    kw = te.reduce_axis((0, kernel_w), name="kw")

    def element(n: Var, oc_chunk: Var, oh: Var, ow: Var, oc_block: Var) -> ExprLike:
        y, x = geometry.source([oh, ow], [kh, kw])
        chunk, block = ic.var // in_block, ic.var % in_block
        value = padded(n, chunk, y, x, block).astype(types.accumulator)
        weight = kernel(oc_chunk, chunk, kh, kw, block, oc_block).astype(types.accumulator)
        return te.sum(value * weight, axis=[ic, kh, kw])

    shape = (batch, out_chunks, *geometry.output, out_block)
    return types.finish(te.compute(shape, element, name=what, tag=what))


def conv2d_NCHWc_int8(
    data: Tensor,
    kernel: Tensor,
    stride: Window = 1,
    padding: Padding = 0,
    dilation: Window = 1,
    out_dtype: str = "int32",
    pad_value: int | PrimExpr = 0,
) -> Tensor:
    """conv2d of `data[n, ic/b, h, w, b]` with `kernel[oc/c, ic/b, kh, kw, b/e, c, e]`.

    `e` is the length of the instruction's dot products, 4 for bytes.
    """
    what = "conv2d_NCHWc_int8"
    check_ndim(data, 5, what)
    check_ndim(kernel, 7, what)
    batch, in_chunks, height, width, in_block = data.shape
    out_chunks, kernel_chunks, kernel_h, kernel_w, groups, out_block, elements = kernel.shape
    check_extents(in_chunks, kernel_chunks, what, "the channel chunks of data and kernel")
    check_extents(in_block, groups * elements, what, "the channel blocks of data and kernel")
    options = ConvOptions(stride, padding, dilation)
    geometry = Geometry([height, width], [kernel_h, kernel_w], options, what)
    types = sum_types(out_dtype, data, kernel)
    before, after = [0, 0, *geometry.before, 0], [0, 0, *geometry.after, 0]
    padded = pad(data, before, after, pad_value, "data_pad") if any(before + after) else data
    kh = te.reduce_axis((0, kernel_h), name="kh")
    kw = te.reduce_axis((0, kernel_w), name="kw")
    ic_outer = te.reduce_axis((0, in_chunks), name="ic_outer")
    ic_f_inner = te.reduce_axis((0, groups), name="ic_f_inner")
    ic_s_inner = te.reduce_axis((0, elements), name="ic_s_inner")

    def element(n: Var, oc_chunk: Var, oh: Var, ow: Var, oc_block: Var) -> ExprLike:
        y, x = geometry.source([oh, ow], [kh, kw])
        channel = ic_f_inner.var * elements + ic_s_inner.var
        value = padded(n, ic_outer, y, x, channel).astype(types.accumulator)
        weight = kernel(oc_chunk, ic_outer, kh, kw, ic_f_inner, oc_block, ic_s_inner)
        product = value * weight.astype(types.accumulator)
        return te.sum(product, axis=[kh, kw, ic_outer, ic_f_inner, ic_s_inner])

    shape = (batch, out_chunks, *geometry.output, out_block)
    return types.finish(te.compute(shape, element, name=what, tag=what))

"""conv2d on channel blocks (NCHWc), so that the innermost axis is a vector of channels.

The form for bytes splits the input channels once more, into the few that one dot product takes.
"""

from __future__ import annotations

from tilewright import te
from tilewright.ir import ExprLike, PrimExpr, Var
from tilewright.te import Tensor
from tilewright.topi.axes import check_extents
from tilewright.topi.nn.conv import ConvOperands, convolution


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
    check_extents(*chunks, conv.what, "the channel chunks of data and kernel")
    check_extents(conv.data.extent("b"), block, conv.what, "the channel blocks of data and kernel")

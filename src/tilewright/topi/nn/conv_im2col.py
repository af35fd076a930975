"""conv2d as a matrix product: the receptive fields are copied into the rows of a matrix first."""

from __future__ import annotations

from tilewright import te
from tilewright.ir import ExprLike, PrimExpr, Var
from tilewright.te import Tensor
from tilewright.topi.nn.conv import ConvOperands, convolution


@convolution("NHWC HWIO")
def conv2d_im2col_nhwc(conv: ConvOperands) -> Tensor:
    """conv2d of NHWC data with an HWIO kernel, as one product of `[N*OH*OW, KH*KW*CI]` matrices."""
    conv.check_channels()
    data, kernel = conv.data.tensor, conv.kernel.tensor
    (kernel_h, kernel_w), (out_h, out_w) = conv.extents, conv.output
    batch, channels, filters = data.shape[0], data.shape[3], kernel.shape[3]
    padded = conv.padded("pad_temp").tensor

    def window(k: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        return k // (kernel_w * channels), k // channels % kernel_w

    def field(m: Var, k: Var) -> PrimExpr:
        y, x = conv.source([m // out_w % out_h, m % out_w], window(k))
        return padded(m // (out_h * out_w), y, x, k % channels)

    rows, depth = batch * out_h * out_w, kernel_h * kernel_w * channels
    fields = te.compute((rows, depth), field, name="im2col", tag="injective")
    k = te.reduce_axis((0, depth), name="k")

    def product(m: Var, f: Var) -> ExprLike:
        return conv.types.dot(fields(m, k), kernel(*window(k.var), k.var % channels, f), k)

    gemm = te.compute((rows, filters), product, name="conv2d_gemm", tag="matmul")
    return te.compute(
        (batch, out_h, out_w, filters),
        lambda nn, yy, xx, ff: gemm((nn * out_h + yy) * out_w + xx, ff).astype(conv.types.result),
        name=conv.what,
        tag="injective",
    )


@convolution("NCHW OIHW")
def conv2d_im2col_nchw(conv: ConvOperands) -> Tensor:
    """conv2d of NCHW data with an OIHW kernel, as one `[CO, CI*KH*KW]` product for each image."""
    conv.check_channels()
    data, kernel = conv.data.tensor, conv.kernel.tensor
    (kernel_h, kernel_w), (out_h, out_w) = conv.extents, conv.output
    batch, channels, filters = *data.shape[:2], kernel.shape[0]
    padded = conv.padded("pad_temp").tensor

    def element_of(k: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
        return k // (kernel_h * kernel_w), k // kernel_w % kernel_h, k % kernel_w

    def field(n: Var, k: Var, m: Var) -> PrimExpr:
        channel, *window = element_of(k)
        return padded(n, channel, *conv.source([m // out_w, m % out_w], window))

    depth, columns = channels * kernel_h * kernel_w, out_h * out_w
    fields = te.compute((batch, depth, columns), field, name="im2col", tag="injective")
    k = te.reduce_axis((0, depth), name="k")

    def product(n: Var, f: Var, m: Var) -> ExprLike:
        return conv.types.dot(kernel(f, *element_of(k.var)), fields(n, k, m), k)

    gemm = te.compute((batch, filters, columns), product, name="conv2d_gemm", tag="matmul")
    return te.compute(
        (batch, filters, out_h, out_w),
        lambda nn, ff, yy, xx: gemm(nn, ff, yy * out_w + xx).astype(conv.types.result),
        name=conv.what,
        tag="injective",
    )

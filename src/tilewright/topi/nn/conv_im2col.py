"""conv2d as a matrix product: the receptive fields are copied into the rows of a matrix first."""

from __future__ import annotations

from tilewright import te
from tilewright.ir import ExprLike, PrimExpr, Var
from tilewright.te import Tensor
from tilewright.topi.accumulate import sum_types
from tilewright.topi.axes import Window, check_extents, check_ndim
from tilewright.topi.nn.conv import ConvOptions, Geometry, Padding
from tilewright.topi.nn.padding import pad


def conv2d_im2col_nhwc(
    data: Tensor,
    kernel: Tensor,
    stride: Window = 1,
    padding: Padding = 0,
    dilation: Window = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """conv2d of NHWC data with an HWIO kernel, as one product of `[N*OH*OW, KH*KW*CI]` matrices."""
    what = "conv2d_im2col_nhwc"
    check_ndim(data, 4, what)
    check_ndim(kernel, 4, what)
    batch, height, width, channels = data.shape
    kernel_h, kernel_w, kernel_channels, filters = kernel.shape
    check_extents(channels, kernel_channels, what, "the input channels of data and kernel")
    geometry = Geometry(
        [height, width], [kernel_h, kernel_w], ConvOptions(stride, padding, dilation), what
    )
    out_h, out_w = geometry.output
    types = sum_types(out_dtype, data, kernel)
    before, after = geometry.before, geometry.after
    padded = pad(data, [0, *before, 0], [0, *after, 0], name="pad_temp")

    def field(m: Var, k: Var) -> PrimExpr:
        ry, rx = k // (kernel_w * channels), k // channels % kernel_w
        y = m // out_w % out_h * geometry.stride[0] + ry * geometry.dilation[0]
        x = m % out_w * geometry.stride[1] + rx * geometry.dilation[1]
        return padded(m // (out_h * out_w), y, x, k % channels)

    rows, depth = batch * out_h * out_w, kernel_h * kernel_w * channels
    fields = te.compute((rows, depth), field, name="im2col", tag="injective")
    k = te.reduce_axis((0, depth), name="k")

    def product(m: Var, f: Var) -> ExprLike:
        ry, rx = k.var // (kernel_w * channels), k.var // channels % kernel_w
        weight = kernel(ry, rx, k.var % channels, f)
        wide = types.accumulator
        return te.sum(fields(m, k).astype(wide) * weight.astype(wide), axis=k)

    gemm = te.compute((rows, filters), product, name="conv2d_gemm", tag="matmul")
    return te.compute(
        (batch, out_h, out_w, filters),
        lambda nn, yy, xx, ff: gemm((nn * out_h + yy) * out_w + xx, ff).astype(types.result),
        name=what,
        tag="injective",
    )


def conv2d_im2col_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: Window = 1,
    padding: Padding = 0,
    dilation: Window = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """conv2d of NCHW data with an OIHW kernel, as one `[CO, CI*KH*KW]` product for each image."""
    what = "conv2d_im2col_nchw"
    check_ndim(data, 4, what)
    check_ndim(kernel, 4, what)
    batch, channels, height, width = data.shape
    filters, kernel_channels, kernel_h, kernel_w = kernel.shape
    check_extents(channels, kernel_channels, what, "the input channels of data and kernel")
    geometry = Geometry(
        [height, width], [kernel_h, kernel_w], ConvOptions(stride, padding, dilation), what
    )
    out_h, out_w = geometry.output
    types = sum_types(out_dtype, data, kernel)
    before, after = geometry.before, geometry.after
    padded = pad(data, [0, 0, *before], [0, 0, *after], name="pad_temp")

    def field(n: Var, k: Var, m: Var) -> PrimExpr:
        ry, rx = k // kernel_w % kernel_h, k % kernel_w
        y = m // out_w * geometry.stride[0] + ry * geometry.dilation[0]
        x = m % out_w * geometry.stride[1] + rx * geometry.dilation[1]
        return padded(n, k // (kernel_h * kernel_w), y, x)

    depth, columns = channels * kernel_h * kernel_w, out_h * out_w
    fields = te.compute((batch, depth, columns), field, name="im2col", tag="injective")
    k = te.reduce_axis((0, depth), name="k")

    def product(n: Var, f: Var, m: Var) -> ExprLike:
        ry, rx = k.var // kernel_w % kernel_h, k.var % kernel_w
        weight = kernel(f, k.var // (kernel_h * kernel_w), ry, rx)
        wide = types.accumulator
        return te.sum(weight.astype(wide) * fields(n, k, m).astype(wide), axis=k)

    gemm = te.compute((batch, filters, columns), product, name="conv2d_gemm", tag="matmul")
    return te.compute(
        (batch, filters, out_h, out_w),
        lambda nn, ff, yy, xx: gemm(nn, ff, yy * out_w + xx).astype(types.result),
        name=what,
        tag="injective",
    )

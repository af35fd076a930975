"""The convolutions among the workloads."""

from __future__ import annotations

from typing import TypeAlias

from tilewright import te, topi
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, PrimExpr, Var, logical_and
from tilewright.ir.intrinsics import if_then_else
from tilewright.target import Target
from tilewright.te import Tensor

Tensors: TypeAlias = tuple[Tensor, ...]


def _conv_extent(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _group_channel(co: Var, rc: ExprLike, co_per_group: int, ci_per_group: int) -> PrimExpr:
    """The input channel `rc` of the group that the output channel `co` belongs to."""
    return co // co_per_group * ci_per_group + rc


def conv1d_nlc(
    N: int,
    L: int,
    CI: int,
    CO: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:
    inputs = te.placeholder((N, L, CI), name="inputs", dtype=in_dtype)
    weight = te.placeholder((kernel_size, CI // groups, CO), name="weight", dtype=in_dtype)
    length = _conv_extent(L, kernel_size, stride, padding, dilation)
    rc = te.reduce_axis((0, CI // groups), name="rc")
    rl = te.reduce_axis((0, kernel_size), name="rl")
    padded = topi.nn.pad(inputs, [0, padding, 0])

    def element(n: Var, l: Var, co: Var) -> ExprLike:
        channel = _group_channel(co, rc, CO // groups, CI // groups)
        value = padded[n, l * stride + rl * dilation, channel].astype(out_dtype)
        return te.sum(value * weight[rl, rc, co].astype(out_dtype), axis=[rl, rc])

    return inputs, weight, te.compute((N, length, CO), element, name="conv1d_nlc")


def conv2d_nhwc(
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:
    inputs = te.placeholder((N, H, W, CI), name="inputs", dtype=in_dtype)
    weight = te.placeholder(
        (kernel_size, kernel_size, CI // groups, CO), name="weight", dtype=in_dtype
    )
    out_h, out_w = (_conv_extent(e, kernel_size, stride, padding, dilation) for e in (H, W))
    rh = te.reduce_axis((0, kernel_size), name="rh")
    rw = te.reduce_axis((0, kernel_size), name="rw")
    rc = te.reduce_axis((0, CI // groups), name="rc")
    padded = topi.nn.pad(inputs, [0, padding, padding, 0])

    def element(n: Var, h: Var, w: Var, co: Var) -> ExprLike:
        y, x = h * stride + rh * dilation, w * stride + rw * dilation
        channel = _group_channel(co, rc, CO // groups, CI // groups)
        value = padded[n, y, x, channel].astype(out_dtype)
        product = value * weight[rh, rw, rc, co].astype(out_dtype)
        return te.sum(product, axis=[rh, rw, rc])

    return inputs, weight, te.compute((N, out_h, out_w, CO), element, name="conv2d_nhwc")


def conv3d_ndhwc(
    N: int,
    D: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:
    inputs = te.placeholder((N, D, H, W, CI), name="inputs", dtype=in_dtype)
    weight = te.placeholder(
        (kernel_size, kernel_size, kernel_size, CI // groups, CO), name="weight", dtype=in_dtype
    )
    sizes = [_conv_extent(e, kernel_size, stride, padding, dilation) for e in (D, H, W)]
    rd, rh, rw = (te.reduce_axis((0, kernel_size), name=name) for name in ("rd", "rh", "rw"))
    rc = te.reduce_axis((0, CI // groups), name="rc")
    padded = topi.nn.pad(inputs, [0, padding, padding, padding, 0])

    def element(n: Var, d: Var, h: Var, w: Var, co: Var) -> ExprLike:
        position = [
            index * stride + axis.var * dilation
            for index, axis in zip((d, h, w), (rd, rh, rw), strict=True)
        ]
        channel = _group_channel(co, rc, CO // groups, CI // groups)
        value = padded(n, *position, channel).astype(out_dtype)
        product = value * weight[rd, rh, rw, rc, co].astype(out_dtype)
        return te.sum(product, axis=[rd, rh, rw, rc])

    return inputs, weight, te.compute((N, *sizes, CO), element, name="conv3d_ndhwc")


def depthwise_conv2d_nhwc(
    N: int,
    H: int,
    W: int,
    C: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    factor: int = 1,
    in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:
    if factor != 1:
        raise TensorExpressionError("depthwise_conv2d_nhwc: only a factor of 1 is supported")
    inputs = te.placeholder((N, H, W, C), dtype=in_dtype)
    weight = te.placeholder((factor, kernel_size, kernel_size, C), dtype=in_dtype)
    out_h, out_w = (_conv_extent(e, kernel_size, stride, padding, dilation) for e in (H, W))
    rh = te.reduce_axis((0, kernel_size), name="rh")
    rw = te.reduce_axis((0, kernel_size), name="rw")
    padded = topi.nn.pad(inputs, [0, padding, padding, 0])

    def element(n: Var, h: Var, w: Var, c: Var) -> ExprLike:
        y, x = h * stride + rh * dilation, w * stride + rw * dilation
        value = padded[n, y, x, c // factor].astype(out_dtype)
        kernel = weight[c % factor, rh, rw, c // factor].astype(out_dtype)
        return te.sum(value * kernel, axis=[rh, rw])

    shape = (N, out_h, out_w, C * factor)
    return inputs, weight, te.compute(shape, element, name="depth_conv2d_nhwc")


def conv2d_transpose_nhwc(
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:
    inputs = te.placeholder((N, H, W, CI), name="inputs", dtype=in_dtype)
    weight = te.placeholder((kernel_size, kernel_size, CI, CO), name="weight", dtype=in_dtype)
    reach = kernel_size - 1 - padding
    border = (stride - reach % stride) % stride
    width = -(-reach // stride)
    padded = topi.nn.pad(inputs, [0, width, width, 0])
    rh = te.reduce_axis((0, kernel_size), name="rh")
    rw = te.reduce_axis((0, kernel_size), name="rw")
    rc = te.reduce_axis((0, CI), name="rc")

    def element(n: Var, h: Var, w: Var, co: Var) -> ExprLike:
        y, x = h + rh + border, w + rw + border
        on_grid = logical_and((y % stride).equal(0), (x % stride).equal(0))
        value = if_then_else(on_grid, padded[n, y // stride, x // stride, rc], 0.0)
        kernel = weight[kernel_size - 1 - rh, kernel_size - 1 - rw, rc, co]
        product = value.astype(out_dtype) * kernel.astype(out_dtype)
        return te.sum(product, axis=[rh, rw, rc])

    out_h, out_w = ((e - 1) * stride - 2 * padding + kernel_size for e in (H, W))
    shape = (N, out_h, out_w, CO)
    return inputs, weight, te.compute(shape, element, name="conv2d_transpose_nhwc")


def conv2d_capsule_nhwijc(
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    capsule_size: int = 4,
    in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:
    cap = capsule_size
    inputs = te.placeholder((N, H, W, cap, cap, CI), name="inputs", dtype=in_dtype)
    weight = te.placeholder(
        (kernel_size, kernel_size, cap, cap, CI, CO), name="weight", dtype=in_dtype
    )
    out_h, out_w = (_conv_extent(e, kernel_size, stride, padding, 1) for e in (H, W))
    rh = te.reduce_axis((0, kernel_size), name="rh")
    rw = te.reduce_axis((0, kernel_size), name="rw")
    cap_k = te.reduce_axis((0, cap), name="cap_k")
    rc = te.reduce_axis((0, CI), name="rc")
    padded = topi.nn.pad(inputs, [0, padding, padding, 0, 0, 0])

    def element(n: Var, h: Var, w: Var, cap_i: Var, cap_j: Var, co: Var) -> ExprLike:
        value = padded[n, h * stride + rh, w * stride + rw, cap_i, cap_k, rc]
        kernel = weight[rh, rw, cap_k, cap_j, rc, co]
        product = value.astype(out_dtype) * kernel.astype(out_dtype)
        return te.sum(product, axis=[rh, rw, cap_k, rc])

    shape = (N, out_h, out_w, cap, cap, CO)
    return inputs, weight, te.compute(shape, element, name="conv2d_capsule_nhwijc")


def conv2d_nhwc_without_layout_rewrite(
    data: Tensor,
    kernel: Tensor,
    stride: int,
    padding: int,
    dilation: int,
    out_dtype: str = "float32",
) -> Tensor:
    batch, height, width, channels = data.shape
    kernel_h, kernel_w, _, filters = kernel.shape
    rc = te.reduce_axis((0, channels), name="rc")
    ry = te.reduce_axis((0, kernel_h), name="ry")
    rx = te.reduce_axis((0, kernel_w), name="rx")
    padded = topi.nn.pad(data, [0, padding, padding, 0], name="PaddedInput")

    def element(nn: Var, yy: Var, xx: Var, ff: Var) -> ExprLike:
        y, x = yy * stride + ry * dilation, xx * stride + rx * dilation
        value = padded[nn, y, x, rc].astype(out_dtype)
        product = value * kernel[ry, rx, rc, ff].astype(out_dtype)
        return te.sum(product, axis=[ry, rx, rc])

    out_h, out_w = (
        (extent + 2 * padding - dilation * (size - 1) - 1) // stride + 1
        for extent, size in ((height, kernel_h), (width, kernel_w))
    )
    return te.compute((batch, out_h, out_w, filters), element, name="Conv2dOutput")


def _write_cache_level() -> int:
    """The level of tiles at which the target that programs are written for caches results."""
    target = Target.current()
    return 3 if target is not None and target.kind.name == "cuda" else 2


def conv2d_winograd_nhwc(
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    tile_size: int = 4,
    write_cache_level: int | None = None,
) -> Tensors:
    """`kernel_size` is that of the transformed weight; the write-cache level follows the target."""
    data = te.placeholder((N, H, W, CI), name="data")
    weight = te.placeholder((kernel_size, kernel_size, CO, CI), name="weight")
    out = topi.nn.conv2d_winograd_nhwc(
        data,
        weight,
        stride,
        padding,
        dilation,
        pre_computed=True,
        tile_size=tile_size,
        write_cache_level=write_cache_level or _write_cache_level(),
    )
    return data, weight, out


def conv2d_winograd_nchw(
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 1,
    dilation: int = 1,
    tile_size: int = 4,
    write_cache_level: int | None = None,
) -> Tensors:
    """`kernel_size` is that of the transformed weight; the write-cache level follows the target."""
    data = te.placeholder((N, CI, H, W), name="data")
    weight = te.placeholder((kernel_size, kernel_size, CI, CO), name="weight")
    out = topi.nn.conv2d_winograd_nchw(
        data,
        weight,
        stride,
        padding,
        dilation,
        pre_computed=True,
        tile_size=tile_size,
        write_cache_level=write_cache_level or _write_cache_level(),
    )
    return data, weight, out


def conv2d_nchw(
    n: int,
    h: int,
    w: int,
    ci: int,
    co: int,
    kh: int,
    kw: int,
    stride: int,
    padding: int,
    dilation: int = 1,
    in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:
    x = te.placeholder((n, ci, h, w), name="X", dtype=in_dtype)
    weight = te.placeholder((co, ci, kh, kw), name="W", dtype=in_dtype)
    out = topi.nn.conv2d_nchw(x, weight, stride, padding, dilation, out_dtype=out_dtype)
    return x, weight, out

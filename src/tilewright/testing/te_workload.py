"""The operators that tuning is measured and tested on, under the names everybody uses.

`create_te_workload("GMM", 0)` is the first shape of the batched matrix product as a function;
`CONFIGS` maps each name to its maker and all its shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tilewright import te, topi
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, PrimExpr, PrimFunc, Var, logical_and
from tilewright.ir.intrinsics import if_then_else, sqrt
from tilewright.support.suggestions import did_you_mean
from tilewright.te import Tensor

Tensors: TypeAlias = tuple[Tensor, ...]


def _conv_extent(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _group_channel(co: Var, rc: ExprLike, co_per_group: int, ci_per_group: int) -> PrimExpr:
    """The input channel `rc` of the group that the output channel `co` belongs to."""
    return co // co_per_group * ci_per_group + rc


def batch_matmul_nkkm(
    B: int, N: int, M: int, K: int, in_dtype: str = "float32", out_dtype: str = "float32"
) -> Tensors:
    x = te.placeholder((B, N, K), name="X", dtype=in_dtype)
    y = te.placeholder((B, K, M), name="Y", dtype=in_dtype)
    k = te.reduce_axis((0, K), name="k")
    z = te.compute(
        (B, N, M),
        lambda b, i, j: te.sum(
            x[b][i][k].astype(out_dtype) * y[b][k][j].astype(out_dtype), axis=[k]
        ),
        name="Z",
    )
    return x, y, z


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


def norm_bmn(B: int, M: int, N: int) -> Tensors:
    a = te.placeholder((B, M, N), name="A")
    i = te.reduce_axis((0, M), name="i")
    j = te.reduce_axis((0, N), name="j")
    c = te.compute((B,), lambda b: te.sum(a[b, i, j] * a[b, i, j], axis=[i, j]), name="C")
    return a, te.compute((B,), lambda b: sqrt(c[b]), name="D")


def softmax_mn(m: int, n: int) -> Tensors:
    a = te.placeholder((m, n), name="A")
    return a, topi.nn.softmax(a, axis=1)


def _bn_relu(
    convolution: Tensor, bias: Tensor, scale: Tensor, offset: Tensor, channel: int
) -> Tensor:
    """bias, batch normalisation as scale and offset, then ReLU."""
    per_channel = channel == 3

    def at(parameter: Tensor, indices: Sequence[Var]) -> PrimExpr:
        own = indices[channel]
        return parameter(own) if per_channel else parameter(own, 0, 0)

    shape = convolution.shape
    biased = te.compute(
        shape, lambda i, j, k, l: convolution[i, j, k, l] + at(bias, (i, j, k, l)), name="bias_add"
    )
    scaled = te.compute(
        shape, lambda i, j, k, l: biased[i, j, k, l] * at(scale, (i, j, k, l)), name="bn_mul"
    )
    shifted = te.compute(
        shape, lambda i, j, k, l: scaled[i, j, k, l] + at(offset, (i, j, k, l)), name="bn_add"
    )
    return topi.nn.relu(shifted)


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


def conv2d_nhwc_bn_relu(
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    kernel_size: int,
    strides: int,
    padding: int,
    dilation: int = 1,
    in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:
    data = te.placeholder((N, H, W, CI), name="data", dtype=in_dtype)
    kernel = te.placeholder((kernel_size, kernel_size, CI, CO), name="kernel", dtype=in_dtype)
    bias = te.placeholder((CO,), name="bias")
    bn_scale = te.placeholder((CO,), name="bn_scale")
    bn_offset = te.placeholder((CO,), name="bn_offset")
    convolution = conv2d_nhwc_without_layout_rewrite(
        data, kernel, strides, padding, dilation, out_dtype
    )
    out = _bn_relu(convolution, bias, bn_scale, bn_offset, 3)
    return data, kernel, bias, bn_offset, bn_scale, out


def transpose_batch_matmul(
    batch: int,
    seq_len: int,
    n_head: int,
    n_dim: int,
    in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:
    query = te.placeholder((batch, seq_len, n_head, n_dim), name="query", dtype=in_dtype)
    value = te.placeholder((batch, seq_len, n_head, n_dim), name="value", dtype=in_dtype)
    query_t = te.compute(
        (batch, n_head, seq_len, n_dim), lambda b, h, l, d: query[b, l, h, d], name="query_T"
    )
    value_t = te.compute(
        (batch, n_head, n_dim, seq_len), lambda b, h, d, l: value[b, l, h, d], name="value_T"
    )
    k = te.reduce_axis((0, n_dim), name="k")
    out = te.compute(
        (batch, n_head, seq_len, seq_len),
        lambda b, h, i, j: te.sum(
            query_t[b, h, i, k].astype(out_dtype) * value_t[b, h, k, j].astype(out_dtype), axis=k
        ),
        name="C",
    )
    return query, value, out


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
    write_cache_level: int = 2,
) -> Tensors:
    """`kernel_size` is that of the transformed weight; the write-cache level is 3 on CUDA."""
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
        write_cache_level=write_cache_level,
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
    write_cache_level: int = 2,
) -> Tensors:
    """`kernel_size` is that of the transformed weight; the write-cache level is 3 on CUDA."""
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
        write_cache_level=write_cache_level,
    )
    return data, weight, out


def matmul(
    n: int, m: int, k: int, in_dtype: str = "float32", out_dtype: str = "float32"
) -> Tensors:
    a = te.placeholder((n, k), name="A", dtype=in_dtype)
    b = te.placeholder((k, m), name="B", dtype=in_dtype)
    r = te.reduce_axis((0, k), name="k")
    c = te.compute(
        (n, m),
        lambda i, j: te.sum(a[i, r].astype(out_dtype) * b[r, j].astype(out_dtype), axis=[r]),
        name="C",
    )
    return a, b, c


def matmul_relu(
    n: int, m: int, k: int, in_dtype: str = "float32", out_dtype: str = "float32"
) -> Tensors:
    a, b, c = matmul(n, m, k, in_dtype, out_dtype)
    return a, b, topi.nn.relu(c)


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


def conv2d_nchw_bias_bn_relu(
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
    x, weight, y = conv2d_nchw(
        n, h, w, ci, co, kh, kw, stride, padding, dilation, in_dtype, out_dtype
    )
    bias = te.placeholder((co, 1, 1), name="B", dtype=in_dtype)
    bn_scale = te.placeholder((co, 1, 1), name="bn_scale", dtype=in_dtype)
    bn_offset = te.placeholder((co, 1, 1), name="bn_offset", dtype=in_dtype)
    out = _bn_relu(y, bias, bn_scale, bn_offset, 1)
    return x, weight, bias, bn_scale, bn_offset, out


def max_pool2d_nchw(n: int, h: int, w: int, ci: int, padding: int) -> Tensors:
    x = te.placeholder((n, ci, h, w), name="X")
    return x, topi.nn.pool2d(x, [2, 2], [1, 1], [1, 1], [padding] * 4, "max")


Maker: TypeAlias = Callable[..., Tensors]
Arguments: TypeAlias = tuple[int, ...]

CONFIGS: dict[str, tuple[Maker, list[Arguments]]] = {
    "C1D": (
        conv1d_nlc,
        [
            (1, 256, 64, 128, 3, 2, 1),
            (1, 128, 128, 256, 1, 2, 0),
            (1, 64, 256, 256, 5, 1, 2),
            (1, 32, 512, 512, 3, 1, 1),
        ],
    ),
    "C2D": (
        conv2d_nhwc,
        [
            (1, 224, 224, 3, 64, 7, 2, 3),
            (1, 56, 56, 64, 64, 1, 1, 0),
            (1, 14, 14, 256, 256, 3, 1, 1),
            (1, 7, 7, 512, 512, 3, 1, 1),
        ],
    ),
    "C3D": (
        conv3d_ndhwc,
        [
            (1, 16, 224, 224, 3, 64, 7, 2, 3),
            (1, 16, 56, 56, 64, 64, 1, 1, 0),
            (1, 16, 14, 14, 256, 256, 3, 1, 1),
            (1, 16, 7, 7, 512, 512, 3, 1, 1),
        ],
    ),
    "GMM": (
        batch_matmul_nkkm,
        [(1, 128, 128, 128), (1, 512, 32, 512), (1, 512, 512, 512), (1, 1024, 1024, 1024)],
    ),
    "GRP": (
        conv2d_nhwc,
        [
            (1, 56, 56, 64, 128, 3, 2, 1, 1, 4),
            (1, 56, 56, 64, 64, 1, 1, 0, 1, 4),
            (1, 14, 14, 256, 256, 3, 1, 1, 1, 4),
            (1, 7, 7, 512, 512, 3, 1, 1, 1, 4),
        ],
    ),
    "DIL": (
        conv2d_nhwc,
        [
            (1, 224, 224, 3, 64, 7, 2, 3, 2),
            (1, 56, 56, 64, 64, 1, 1, 0, 2),
            (1, 14, 14, 256, 256, 3, 1, 1, 2),
            (1, 7, 7, 512, 512, 3, 1, 1, 2),
        ],
    ),
    "DEP": (
        depthwise_conv2d_nhwc,
        [
            (1, 112, 112, 32, 3, 1, 1),
            (1, 112, 112, 64, 3, 2, 1),
            (1, 14, 14, 512, 3, 2, 1),
            (1, 7, 7, 1024, 3, 1, 1),
        ],
    ),
    "T2D": (
        conv2d_transpose_nhwc,
        [
            (1, 4, 4, 512, 256, 4, 2, 1),
            (1, 8, 8, 256, 128, 4, 2, 1),
            (1, 16, 16, 128, 64, 4, 2, 1),
            (1, 32, 32, 64, 3, 4, 2, 1),
        ],
    ),
    "CAP": (
        conv2d_capsule_nhwijc,
        [
            (1, 16, 16, 32, 32, 3, 2, 1),
            (1, 8, 8, 32, 32, 3, 1, 1),
            (1, 16, 16, 8, 16, 3, 2, 1),
            (1, 8, 8, 16, 16, 3, 1, 1),
        ],
    ),
    "NRM": (norm_bmn, [(1, 256, 256), (1, 512, 512), (1, 1024, 1024), (1, 4096, 1024)]),
    "SFM": (softmax_mn, [(256, 256), (512, 512), (1024, 1024), (2048, 2048)]),
    "CBR": (
        conv2d_nhwc_bn_relu,
        [
            (1, 224, 224, 3, 64, 7, 2, 3),
            (1, 56, 56, 64, 128, 3, 2, 1),
            (1, 28, 28, 128, 256, 1, 2, 0),
            (1, 7, 7, 512, 512, 3, 1, 1),
        ],
    ),
    "TBG": (
        transpose_batch_matmul,
        [(1, 128, 12, 64), (1, 128, 16, 64), (1, 64, 12, 128), (1, 128, 12, 128)],
    ),
    "C2D_WIN_NHWC": (conv2d_winograd_nhwc, [(1, 14, 14, 128, 128, 6)]),
    "C2D_WIN_NCHW": (conv2d_winograd_nchw, [(1, 56, 56, 64, 64, 6)]),
}


def create_te_workload(name: str, idx: int) -> PrimFunc:
    """The function of one workload in one of its shapes."""
    found: tuple[Maker, list[Any]] | None = CONFIGS.get(name)
    if found is None:
        raise TensorExpressionError(f"unknown workload {name!r}{did_you_mean(name, CONFIGS)}")
    maker, shapes = found
    if not 0 <= idx < len(shapes):
        raise TensorExpressionError(
            f"workload {name} has {len(shapes)} shapes, there is no shape {idx}"
        )
    return te.create_prim_func(maker(*shapes[idx]))

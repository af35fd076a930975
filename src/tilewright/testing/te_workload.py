"""The operators that tuning is measured and tested on, under the names everybody uses.

`create_te_workload("GMM", 0)` is the first shape of the batched matrix product as a function;
`CONFIGS` maps each name to its maker and all its shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tilewright import te, topi
from tilewright.errors import TensorExpressionError
from tilewright.ir import PrimExpr, PrimFunc, Var
from tilewright.ir.intrinsics import sqrt
from tilewright.support.suggestions import did_you_mean
from tilewright.te import Tensor
from tilewright.testing.te_conv_workload import (
    Tensors as Tensors,
    conv1d_nlc as conv1d_nlc,
    conv2d_capsule_nhwijc as conv2d_capsule_nhwijc,
    conv2d_nchw as conv2d_nchw,
    conv2d_nhwc as conv2d_nhwc,
    conv2d_nhwc_without_layout_rewrite as conv2d_nhwc_without_layout_rewrite,
    conv2d_transpose_nhwc as conv2d_transpose_nhwc,
    conv2d_winograd_nchw as conv2d_winograd_nchw,
    conv2d_winograd_nhwc as conv2d_winograd_nhwc,
    conv3d_ndhwc as conv3d_ndhwc,
    depthwise_conv2d_nhwc as depthwise_conv2d_nhwc,
)


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

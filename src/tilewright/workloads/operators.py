"""Products, norms and fused operators among the workloads."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import te, topi
from tilewright.ir import PrimExpr, Var
from tilewright.ir.intrinsics import sqrt
from tilewright.te import Tensor
from tilewright.workloads.convolutions import Tensors, conv2d_nhwc_without_layout_rewrite


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


def bn_relu(
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
    out = bn_relu(convolution, bias, bn_scale, bn_offset, 3)
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

"""`tilewright.workloads` under the name that it has in TVM, and further programs of TVM's tests."""

from __future__ import annotations

from tilewright import te, topi
from tilewright.workloads.configs import (
    CONFIGS as CONFIGS,
    Arguments as Arguments,
    Maker as Maker,
    create_te_workload as create_te_workload,
)
from tilewright.workloads.convolutions import (
    Tensors as Tensors,
    conv1d_nlc as conv1d_nlc,
    conv2d_capsule_nhwijc as conv2d_capsule_nhwijc,
    conv2d_nhwc as conv2d_nhwc,
    conv2d_nhwc_without_layout_rewrite as conv2d_nhwc_without_layout_rewrite,
    conv2d_transpose_nhwc as conv2d_transpose_nhwc,
    conv2d_winograd_nchw as conv2d_winograd_nchw,
    conv2d_winograd_nhwc as conv2d_winograd_nhwc,
    conv3d_ndhwc as conv3d_ndhwc,
    depthwise_conv2d_nhwc as depthwise_conv2d_nhwc,
)
from tilewright.workloads.operators import (
    batch_matmul_nkkm as batch_matmul_nkkm,
    bn_relu,
    conv2d_nhwc_bn_relu as conv2d_nhwc_bn_relu,
    norm_bmn as norm_bmn,
    softmax_mn as softmax_mn,
    transpose_batch_matmul as transpose_batch_matmul,
)


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
    out = bn_relu(y, bias, bn_scale, bn_offset, 1)
    return x, weight, bias, bn_scale, bn_offset, out


def max_pool2d_nchw(n: int, h: int, w: int, ci: int, padding: int) -> Tensors:
    x = te.placeholder((n, ci, h, w), name="X")
    return x, topi.nn.pool2d(x, [2, 2], [1, 1], [1, 1], [padding] * 4, "max")

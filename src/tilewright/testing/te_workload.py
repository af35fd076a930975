"""`tilewright.workloads` under the name that it has in TVM."""

from __future__ import annotations

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
    conv2d_nchw as conv2d_nchw,
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
    conv2d_nchw_bias_bn_relu as conv2d_nchw_bias_bn_relu,
    conv2d_nhwc_bn_relu as conv2d_nhwc_bn_relu,
    matmul as matmul,
    matmul_relu as matmul_relu,
    max_pool2d_nchw as max_pool2d_nchw,
    norm_bmn as norm_bmn,
    softmax_mn as softmax_mn,
    transpose_batch_matmul as transpose_batch_matmul,
)

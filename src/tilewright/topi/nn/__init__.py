"""Neural-network operators on tensors."""

from __future__ import annotations

from tilewright.topi.nn.activation import gelu, leaky_relu, prelu, relu, silu
from tilewright.topi.nn.attention import attention
from tilewright.topi.nn.conv import (
    conv1d_ncw,
    conv1d_nwc,
    conv2d_nchw,
    conv2d_nhwc,
    conv3d_ncdhw,
    conv3d_ndhwc,
    group_conv2d_nchw,
    group_conv2d_nhwc,
)
from tilewright.topi.nn.conv_blocked import conv2d_NCHWc, conv2d_NCHWc_int8
from tilewright.topi.nn.conv_im2col import conv2d_im2col_nchw, conv2d_im2col_nhwc
from tilewright.topi.nn.conv_layout import conv1d, conv2d, conv3d
from tilewright.topi.nn.conv_transpose import (
    conv1d_transpose_ncw,
    conv2d_transpose_nchw,
    conv3d_transpose_ncdhw,
)
from tilewright.topi.nn.dense import batch_matmul, dense, flatten, matmul
from tilewright.topi.nn.depthwise import depthwise_conv2d_nchw, depthwise_conv2d_nhwc
from tilewright.topi.nn.embedding import embedding
from tilewright.topi.nn.group_norm import group_norm, instance_norm
from tilewright.topi.nn.normalization import (
    batch_norm,
    layer_norm,
    rms_norm,
    scale_shift_nchw,
    scale_shift_nhwc,
)
from tilewright.topi.nn.padding import dilate, pad
from tilewright.topi.nn.pooling import adaptive_pool, global_pool, pool1d, pool2d, pool3d
from tilewright.topi.nn.quantized import (
    quantized_batch_matmul,
    quantized_conv2d_NCHWc,
    quantized_conv2d_nhwc,
    quantized_dense,
    quantized_depthwise_conv2d_nhwc,
)
from tilewright.topi.nn.softmax import log_softmax, softmax
from tilewright.topi.nn.winograd import (
    conv2d_winograd_nchw,
    conv2d_winograd_nhwc,
    conv2d_winograd_weight_transform,
)

__all__ = [
    "adaptive_pool",
    "attention",
    "batch_matmul",
    "batch_norm",
    "conv1d",
    "conv1d_ncw",
    "conv1d_nwc",
    "conv1d_transpose_ncw",
    "conv2d",
    "conv2d_NCHWc",
    "conv2d_NCHWc_int8",
    "conv2d_im2col_nchw",
    "conv2d_im2col_nhwc",
    "conv2d_nchw",
    "conv2d_nhwc",
    "conv2d_transpose_nchw",
    "conv2d_winograd_nchw",
    "conv2d_winograd_nhwc",
    "conv3d",
    "conv3d_ncdhw",
    "conv3d_ndhwc",
    "conv3d_transpose_ncdhw",
    "dense",
    "depthwise_conv2d_nchw",
    "depthwise_conv2d_nhwc",
    "dilate",
    "embedding",
    "flatten",
    "gelu",
    "global_pool",
    "group_conv2d_nchw",
    "group_conv2d_nhwc",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "matmul",
    "pad",
    "pool1d",
    "pool2d",
    "pool3d",
    "prelu",
    "quantized_batch_matmul",
    "quantized_conv2d_NCHWc",
    "quantized_conv2d_nhwc",
    "quantized_dense",
    "quantized_depthwise_conv2d_nhwc",
    "relu",
    "rms_norm",
    "scale_shift_nchw",
    "scale_shift_nhwc",
    "silu",
    "softmax",
    "conv2d_winograd_weight_transform",
]

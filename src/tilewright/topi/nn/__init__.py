"""Neural-network operators on tensors."""

from tilewright.topi.indexing import embedding as embedding
from tilewright.topi.nn.activation import (
    gelu as gelu,
    leaky_relu as leaky_relu,
    prelu as prelu,
    relu as relu,
    silu as silu,
)
from tilewright.topi.nn.attention import attention as attention
from tilewright.topi.nn.conv import (
    conv1d_ncw as conv1d_ncw,
    conv1d_nwc as conv1d_nwc,
    conv2d_nchw as conv2d_nchw,
    conv2d_nhwc as conv2d_nhwc,
    conv3d_ncdhw as conv3d_ncdhw,
    conv3d_ndhwc as conv3d_ndhwc,
    depthwise_conv2d_nchw as depthwise_conv2d_nchw,
    depthwise_conv2d_nhwc as depthwise_conv2d_nhwc,
    group_conv2d_nchw as group_conv2d_nchw,
    group_conv2d_nhwc as group_conv2d_nhwc,
)
from tilewright.topi.nn.conv_blocked import (
    conv2d_NCHWc as conv2d_NCHWc,
    conv2d_NCHWc_int8 as conv2d_NCHWc_int8,
)
from tilewright.topi.nn.conv_im2col import (
    conv2d_im2col_nchw as conv2d_im2col_nchw,
    conv2d_im2col_nhwc as conv2d_im2col_nhwc,
)
from tilewright.topi.nn.conv_layout import conv1d as conv1d, conv2d as conv2d, conv3d as conv3d
from tilewright.topi.nn.conv_transpose import (
    conv1d_transpose_ncw as conv1d_transpose_ncw,
    conv2d_transpose_nchw as conv2d_transpose_nchw,
    conv3d_transpose_ncdhw as conv3d_transpose_ncdhw,
)
from tilewright.topi.nn.dense import (
    batch_matmul as batch_matmul,
    dense as dense,
    flatten as flatten,
    matmul as matmul,
)
from tilewright.topi.nn.normalization import (
    batch_norm as batch_norm,
    group_norm as group_norm,
    instance_norm as instance_norm,
    layer_norm as layer_norm,
    rms_norm as rms_norm,
    scale_shift_nchw as scale_shift_nchw,
    scale_shift_nhwc as scale_shift_nhwc,
)
from tilewright.topi.nn.padding import dilate as dilate, pad as pad
from tilewright.topi.nn.pooling import (
    adaptive_pool as adaptive_pool,
    global_pool as global_pool,
    pool1d as pool1d,
    pool2d as pool2d,
    pool3d as pool3d,
)
from tilewright.topi.nn.quantized import (
    quantized_batch_matmul as quantized_batch_matmul,
    quantized_conv2d_NCHWc as quantized_conv2d_NCHWc,
    quantized_conv2d_nhwc as quantized_conv2d_nhwc,
    quantized_dense as quantized_dense,
    quantized_depthwise_conv2d_nhwc as quantized_depthwise_conv2d_nhwc,
)
from tilewright.topi.nn.softmax import log_softmax as log_softmax, softmax as softmax
from tilewright.topi.nn.winograd import (
    conv2d_winograd_nchw as conv2d_winograd_nchw,
    conv2d_winograd_nhwc as conv2d_winograd_nhwc,
    conv2d_winograd_weight_transform as conv2d_winograd_weight_transform,
)

"""Neural-network operators on tensors."""

from tilewright.topi.indexing import embedding as embedding
from tilewright.topi.nn.activation import *  # noqa: F403 - its `__all__`
from tilewright.topi.nn.activation import log_softmax as log_softmax, softmax as softmax
from tilewright.topi.nn.attention import attention as attention
from tilewright.topi.nn.conv import *  # noqa: F403 - its `__all__`
from tilewright.topi.nn.conv_im2col import (
    conv2d_im2col_nchw as conv2d_im2col_nchw,
    conv2d_im2col_nhwc as conv2d_im2col_nhwc,
)
from tilewright.topi.nn.conv_transpose import (
    conv1d_transpose_ncw as conv1d_transpose_ncw,
    conv2d_transpose_nchw as conv2d_transpose_nchw,
    conv3d_transpose_ncdhw as conv3d_transpose_ncdhw,
)
from tilewright.topi.nn.dense import *  # noqa: F403 - its `__all__`
from tilewright.topi.nn.head_attention import (
    HeadOptions as HeadOptions,
    head_attention as head_attention,
)
from tilewright.topi.nn.normalization import *  # noqa: F403 - its `__all__`
from tilewright.topi.nn.padding import dilate as dilate, pad as pad
from tilewright.topi.nn.pooling import *  # noqa: F403 - its `__all__`
from tilewright.topi.nn.quantized import *  # noqa: F403 - its `__all__`
from tilewright.topi.nn.winograd import (
    conv2d_winograd_nchw as conv2d_winograd_nchw,
    conv2d_winograd_nhwc as conv2d_winograd_nhwc,
    conv2d_winograd_weight_transform as conv2d_winograd_weight_transform,
)
from tilewright.topi.nn.winograd_tiles import winograd_conv2d as winograd_conv2d

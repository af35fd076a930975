"""Winograd convolutions of weights that are transformed already, as TVM has them for GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import topi
from tilewright.graph.operator import operator
from tilewright.te import Tensor

TRANSFORMED_WINOGRAD = "nn.contrib_conv2d_winograd_without_weight_transform"


@operator(TRANSFORMED_WINOGRAD)
def conv2d_winograd(data: Tensor, weight: Tensor, padding: Sequence[int], tile_size: int) -> Tensor:
    """Images are NCHW, weights [alpha, alpha, channels in, channels out]."""
    return topi.nn.conv2d_winograd_nchw(
        data, weight, padding=list(padding), pre_computed=True, tile_size=tile_size
    )

"""The shapes in which each workload is tuned, tested and measured.

`create_te_workload("GMM", 0)` is the first shape of the batched matrix product as a function;
`CONFIGS` maps each name to its maker and all its shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import PrimFunc
from tilewright.support.suggestions import did_you_mean
from tilewright.workloads import convolutions, operators
from tilewright.workloads.convolutions import Tensors

Maker: TypeAlias = Callable[..., Tensors]
Arguments: TypeAlias = tuple[int, ...]

# Convolutions of ResNet: images, channels, filters, window, stride, padding.
_RESNET: list[Arguments] = [
    (1, 224, 224, 3, 64, 7, 2, 3),
    (1, 56, 56, 64, 64, 1, 1, 0),
    (1, 14, 14, 256, 256, 3, 1, 1),
    (1, 7, 7, 512, 512, 3, 1, 1),
]

CONFIGS: dict[str, tuple[Maker, list[Arguments]]] = {
    "C1D": (
        convolutions.conv1d_nlc,
        [
            (1, 256, 64, 128, 3, 2, 1),
            (1, 128, 128, 256, 1, 2, 0),
            (1, 64, 256, 256, 5, 1, 2),
            (1, 32, 512, 512, 3, 1, 1),
        ],
    ),
    "C2D": (convolutions.conv2d_nhwc, _RESNET),
    "C3D": (convolutions.conv3d_ndhwc, [(n, 16, *rest) for n, *rest in _RESNET]),
    "GMM": (
        operators.batch_matmul_nkkm,
        [(1, 128, 128, 128), (1, 512, 32, 512), (1, 512, 512, 512), (1, 1024, 1024, 1024)],
    ),
    "GRP": (
        convolutions.conv2d_nhwc,
        [(1, 56, 56, 64, 128, 3, 2, 1, 1, 4), *((*shape, 1, 4) for shape in _RESNET[1:])],
    ),
    "DIL": (convolutions.conv2d_nhwc, [(*shape, 2) for shape in _RESNET]),
    "DEP": (
        convolutions.depthwise_conv2d_nhwc,
        [
            (1, 112, 112, 32, 3, 1, 1),
            (1, 112, 112, 64, 3, 2, 1),
            (1, 14, 14, 512, 3, 2, 1),
            (1, 7, 7, 1024, 3, 1, 1),
        ],
    ),
    "T2D": (
        convolutions.conv2d_transpose_nhwc,
        [
            (1, 4, 4, 512, 256, 4, 2, 1),
            (1, 8, 8, 256, 128, 4, 2, 1),
            (1, 16, 16, 128, 64, 4, 2, 1),
            (1, 32, 32, 64, 3, 4, 2, 1),
        ],
    ),
    "CAP": (
        convolutions.conv2d_capsule_nhwijc,
        [
            (1, 16, 16, 32, 32, 3, 2, 1),
            (1, 8, 8, 32, 32, 3, 1, 1),
            (1, 16, 16, 8, 16, 3, 2, 1),
            (1, 8, 8, 16, 16, 3, 1, 1),
        ],
    ),
    "NRM": (operators.norm_bmn, [(1, 256, 256), (1, 512, 512), (1, 1024, 1024), (1, 4096, 1024)]),
    "SFM": (operators.softmax_mn, [(256, 256), (512, 512), (1024, 1024), (2048, 2048)]),
    "CBR": (
        operators.conv2d_nhwc_bn_relu,
        [
            (1, 224, 224, 3, 64, 7, 2, 3),
            (1, 56, 56, 64, 128, 3, 2, 1),
            (1, 28, 28, 128, 256, 1, 2, 0),
            (1, 7, 7, 512, 512, 3, 1, 1),
        ],
    ),
    "TBG": (
        operators.transpose_batch_matmul,
        [(1, 128, 12, 64), (1, 128, 16, 64), (1, 64, 12, 128), (1, 128, 12, 128)],
    ),
    "C2D_WIN_NHWC": (convolutions.conv2d_winograd_nhwc, [(1, 14, 14, 128, 128, 6)]),
    "C2D_WIN_NCHW": (convolutions.conv2d_winograd_nchw, [(1, 56, 56, 64, 64, 6)]),
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

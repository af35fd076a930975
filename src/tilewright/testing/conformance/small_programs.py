"""Programs small enough to be interpreted, one of each shape that rules tell apart."""

from __future__ import annotations

from tilewright import te
from tilewright.ir import IRModule, as_module
from tilewright.testing import te_workload


def small_programs() -> dict[str, IRModule]:
    """A product with a consumer, a padded convolution, reductions over rows and over everything."""
    tensors = {
        "matmul_relu": te_workload.matmul_relu(8, 12, 16),
        "padded_convolution": te_workload.conv2d_nhwc(1, 6, 6, 4, 8, 3, 1, 1),
        "softmax": te_workload.softmax_mn(6, 8),
        "norm": te_workload.norm_bmn(1, 8, 16),
    }
    return {name: as_module(te.create_prim_func(list(made))) for name, made in tensors.items()}

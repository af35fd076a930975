"""The sketches that our own CPU rules make of one operator of each kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright import te
from tilewright.ir import as_module, maximum
from tilewright.space.base import schedule_rules
from tilewright.target import Target
from tilewright.testing import te_workload
from tilewright.testing.space_generation import decisions_of, generate_design_space

RULES = ("FuseRows", "RegisterTiling", "ReduceInVectors", "SpatialPass")
TARGET = Target("llvm -mcpu=skylake-avx512 -num-cores=2")


def matmul_bias_relu(n: int, m: int, k: int) -> te_workload.Tensors:
    a, b, c = te_workload.matmul(n, m, k)
    bias = te.placeholder((m,), name="bias")
    out = te.compute((n, m), lambda i, j: maximum(c[i, j] + bias[j], 0.0), name="relu")
    return a, b, bias, out


def dense(rows: int, columns: int, depth: int) -> te_workload.Tensors:
    a, w = te.placeholder((rows, depth), name="A"), te.placeholder((columns, depth), name="W")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * w[j, k], axis=k), name="C")
    return a, w, c


PROGRAMS: dict[str, te_workload.Tensors] = {
    "product": te_workload.matmul(16, 48, 32),
    "ragged_product": te_workload.matmul(17, 31, 19),
    "packed_product": te_workload.matmul(64, 256, 256),
    "dense": dense(64, 48, 32),
    "convolution": te_workload.conv2d_nhwc(1, 14, 14, 8, 32, 3, 1, 1),
    "groups": te_workload.conv2d_nhwc(1, 7, 7, 8, 64, 3, 1, 1, groups=4),
    "depthwise": te_workload.depthwise_conv2d_nhwc(1, 14, 14, 32, 3, 1, 1),
    "transposed_convolution": te_workload.conv2d_transpose_nhwc(1, 4, 4, 8, 16, 4, 2, 1),
    "epilogue": matmul_bias_relu(16, 32, 16),
    "transposed_operand": te_workload.transpose_batch_matmul(1, 16, 2, 32),
    "softmax": te_workload.softmax_mn(64, 200),
    "norm": te_workload.norm_bmn(1, 64, 256),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_sketches(name: str, golden: Callable[[str, str], None]) -> None:
    module = as_module(te.create_prim_func(list(PROGRAMS[name])))
    rules = [schedule_rules.create(rule) for rule in RULES]
    parts = []
    for sch in generate_design_space("llvm", module, TARGET, sch_rules=rules):
        taken = [f"# {kind} took {decision}" for kind, decision in decisions_of(sch)]
        parts.append("\n".join([*taken, sch.mod.script(), ""]))
    golden(f"own_{name}.txt", "\n".join(parts))

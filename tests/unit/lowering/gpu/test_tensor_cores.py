"""Schedules that use the matrix instructions of a warp are lowered to them."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright.intrin  # noqa: F401
from tilewright import ir, te
from tilewright.intrin.cuda import shared_16x16_to_ldmatrix_32x8_layout
from tilewright.schedule import Schedule
from tilewright.space.base import schedule_rules
from tilewright.target import Target
from tilewright.testing.gpu_lowering import candidates, lower_for_gpu
from tilewright.testing.known_gpu_sketches import SINGLE
from tilewright.testing.te_workload import matmul


def mma_matmul(size: int) -> ir.PrimFunc:
    """Each warp multiplies tiles of 16x16 through `ldmatrix` and `mma`."""
    sch = Schedule(te.create_prim_func(matmul(size, size, size, "float16", "float32")))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    (i, ii), (j, jj), (k, kk) = (sch.split(loop, [None, 16]) for loop in (i, j, k))
    sch.reorder(i, j, k, ii, jj, kk)
    sch.bind(i, "blockIdx.y")
    sch.bind(j, "blockIdx.x")

    def fetch(operand: int) -> Any:
        shared = sch.cache_read(block, operand, "shared")
        sch.compute_at(shared, k)
        fused = sch.fuse(*sch.get_loops(shared)[-2:])
        _, lane, vector = sch.split(fused, [None, 32, 8])
        sch.bind(lane, "threadIdx.x")
        sch.vectorize(vector)
        return sch.cache_read(block, operand, "warp")

    def in_registers(i: Any, j: Any) -> list[Any]:
        return [i // 16, j // 16, *shared_16x16_to_ldmatrix_32x8_layout(i % 16, j % 16)]

    operands = [fetch(0), fetch(1)]
    result = sch.cache_write(block, 0, "warp")
    sch.reverse_compute_at(result, j)
    init = sch.decompose_reduction(block, k)
    for cached in operands:
        sch.transform_layout(cached, ("write", 0), in_registers)
    sch.transform_layout(result, ("read", 0), in_registers)
    for cached, name in zip(operands, "ab", strict=True):
        sch.tensorize(sch.get_loops(cached)[-2], f"mma.ldmatrix_16x16_{name}")
    sch.tensorize(sch.get_loops(init)[-2], "mma_fill_16x16_f32")
    sch.tensorize(sch.get_loops(block)[-3], "mma_f16f16f32")
    sch.tensorize(sch.get_loops(result)[-2], "mma_store_16x16_f32_global_")
    return sch.mod["main"]


def test_operands_of_a_warp_become_registers() -> None:
    kernel = str(lower_for_gpu(mma_matmul(64), "nvidia/nvidia-a100")["main_kernel"])
    assert '"warp"' not in kernel
    assert 'C_warp = T.allocate([8], "float32", "local")' in kernel
    assert kernel.count('T.ptx_ldmatrix("float16"') == 2
    assert kernel.count("T.ptx_mma") == 2
    assert kernel.count("tvm_storage_sync") == 2


@pytest.mark.parametrize("name", [name for name in SINGLE if "tensor" in name])
def test_sketches_for_tensor_cores_are_lowered(name: str) -> None:
    case = SINGLE[name]
    target, module = Target(case.target), ir.IRModule({"main": case.make()})
    rules = [schedule_rules.create(rule, **options) for rule, options in case.rules]
    drafts = list(candidates(module, target, "cuda-tensorcore", range(8), 1, sch_rules=rules))
    assert drafts
    for draft in drafts:
        assert "T.tvm_mma_sync" in str(lower_for_gpu(draft.mod, str(target)))

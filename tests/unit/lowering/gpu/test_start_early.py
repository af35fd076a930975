"""Kernels that start before the one ahead of them has ended wait before they touch memory."""

from __future__ import annotations

import pytest

from tilewright import ir, te, topi
from tilewright.codegen.cuda.launch_plan import plan_of
from tilewright.lowering.gpu.start_early import WAIT
from tilewright.target import Target
from tilewright.testing.gpu_lowering import lower_for_gpu
from tilewright.tune import default_schedule

HOPPER = "nvidia/nvidia-h200"
A = te.placeholder((64, 64), "float16", name="A")
B = te.placeholder((64, 64), "float16", name="B")
C = te.placeholder((64,), "float32", name="C")
PROGRAMS = {
    "elements": [A, B, topi.add(A, B)],
    "rows": [A, topi.nn.softmax(A)],
    "several kernels": [A, topi.nn.softmax(topi.sort(A), 0)],
    "a product": [A, B, topi.nn.dense(A, B, out_dtype="float32")],
    "statements": [C, topi.cumsum(C)],
}


def kernels(name: str, tag: str) -> list[ir.PrimFunc]:
    func = te.create_prim_func(PROGRAMS[name])
    lowered = lower_for_gpu(default_schedule(func, Target(tag)).mod, tag)
    early = [kernel["early"] for kernel in plan_of(lowered)[0]["kernels"].values()]
    assert early == [tag == HOPPER] * len(early)
    return [each for each in lowered.functions.values() if "calling_conv" in each.attrs]


def calls(body: ir.Stmt) -> list[str]:
    """Device functions and accesses of memory, in order."""
    found = []
    for node in ir.walk(body):
        match node:
            case ir.Call(args=(ir.StringImm(value=name), *_)):
                found.append(name)
            case ir.BufferLoad() | ir.BufferStore() if node.buffer.scope == "global":
                found.append("memory")
    return found


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "a product"])
def test_nothing_comes_before_the_wait(name: str) -> None:
    for kernel in kernels(name, HOPPER):
        first, second, *others = calls(kernel.body)
        assert (first, second) == (WAIT, "tw_launch_next_grid")
        assert "memory" in others


def test_tile_kernels_wait_by_themselves() -> None:
    for kernel in kernels("a product", HOPPER):
        assert calls(kernel.body).count(WAIT) == 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_older_gpus_cannot(name: str) -> None:
    for kernel in kernels(name, "nvidia/nvidia-a100"):
        assert WAIT not in calls(kernel.body)

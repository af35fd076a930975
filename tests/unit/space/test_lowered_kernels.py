"""VerifyGPUCode on kernels that are lowered already."""
# mypy: disable-error-code="valid-type, no-untyped-def, misc"

from __future__ import annotations

from typing import Any

import pytest

from tilewright.ir import PrimFunc
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.space.postprocs import VerifyGPUCode
from tilewright.target import Target
from tilewright.testing.space_generation import SpaceTask

TARGET = Target("nvidia/geforce-rtx-3080")  # 48 KiB of shared memory, 1024 threads


def kernel(threads: int = 32, shared: int = 512, local: int = 64, lanes: int = 4) -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((1 << 20,)), B: T.Buffer((1 << 20,))):
        bx = T.env_thread("blockIdx.x")
        ty = T.env_thread("threadIdx.y")
        tx = T.env_thread("threadIdx.x")
        T.launch_thread(bx, 4096)
        kept = T.decl_buffer((local,), scope="local")
        rows = T.decl_buffer((shared,), scope="shared")
        T.launch_thread(ty, 8)
        T.launch_thread(tx, threads)
        for i in T.vectorized(lanes):
            rows[tx * 4 + i] = A[bx * 256 + tx * 4 + i]
        kept[0] = rows[ty * 4 + tx]
        B[bx * 256 + ty * 32 + tx] = kept[0]

    return main


def ramps(stride: int, lanes: int) -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((1024,), "float16"), B: T.Buffer((1024,), "float16")):
        with T.launch_thread("threadIdx.x", 8) as tx:
            B[T.ramp(tx * 64, stride, lanes)] = A[T.ramp(tx * 64, stride, lanes)]

    return main


def bound(extent: int, other: int) -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((4096,)), B: T.Buffer((4096,))):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for tx in T.thread_binding(extent, thread="threadIdx.x"):
                B[tx] = A[tx]
            for tx in T.thread_binding(other, thread="threadIdx.x"):
                B[tx + bx] = A[tx]

    return main


@T.prim_func
def symbolic(a: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,))
    with T.launch_thread("threadIdx.x", n) as tx:
        A[tx] = 0.0


@T.prim_func
def two_kernels(A: T.Buffer((4096,)), B: T.Buffer((4096,))):
    with T.launch_thread("threadIdx.x", 32) as tx:
        B[tx] = A[tx]
    with T.launch_thread("threadIdx.x", 2048) as tx:
        A[tx] = B[tx]


@pytest.mark.parametrize(
    ("func", "accepted"),
    [
        (kernel(), True),
        (kernel(threads=128), True),
        (kernel(threads=129), False),  # 8 times as many in all
        (kernel(shared=12288), True),
        (kernel(shared=12289), False),
        (kernel(local=1 << 20), True),  # a GPU says only at build time how much it has
        (kernel(lanes=8), False),  # vectors of 32 bytes
        (ramps(1, 8), True),
        (ramps(1, 16), False),
        (ramps(2, 4), True),
        (ramps(2, 8), False),  # eight indices of 4 bytes
        (bound(1024, 1024), True),
        (bound(1025, 1025), False),
        (bound(32, 64), False),  # two extents of one axis
        (symbolic, False),
        (two_kernels, False),
    ],
)
def test_limits(func: Any, accepted: bool) -> None:
    step = VerifyGPUCode()
    step._initialize_with_tune_context(SpaceTask(target=TARGET))
    assert step.apply(Schedule(func)) is accepted

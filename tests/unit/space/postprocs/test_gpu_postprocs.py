# mypy: disable-error-code="valid-type, no-untyped-def"
"""RewriteCooperativeFetch and RewriteUnboundBlock."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.errors import ScheduleError, TargetError
from tilewright.ir import PrimFunc
from tilewright.ir.annotation_keys import COOPERATIVE_FETCH, WARP_EXECUTION
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.space.base import Postproc
from tilewright.space.postprocs import (
    DisallowAsyncStridedMemCopy,
    RewriteCooperativeFetch,
    RewriteUnboundBlock,
    VerifyGPUCode,
    VerifyVTCMLimit,
)
from tilewright.target import Target
from tilewright.testing.conformance import postproc
from tilewright.testing.space_generation import SpaceTask

TARGET = Target("nvidia/geforce-rtx-2080")


def initialized(step: Postproc, target: Target | None = TARGET) -> Postproc:
    step._initialize_with_tune_context(SpaceTask(target=target))
    return step


class OnAGpu:
    """Members that look at the target get that of a GPU, whatever the task says."""

    def __init__(self, make: type[Postproc]) -> None:
        self.make = make

    def __call__(self) -> Postproc:
        base = self.make

        class Member(base):  # type: ignore[misc]
            def _initialize_with_tune_context(self, context: object) -> None:
                super()._initialize_with_tune_context(SpaceTask(target=TARGET))

        member: Postproc = Member()
        return member


MEMBERS = (
    RewriteCooperativeFetch,
    RewriteUnboundBlock,
    VerifyGPUCode,
    DisallowAsyncStridedMemCopy,
    VerifyVTCMLimit,
)


@pytest.mark.parametrize("check", postproc.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.__name__)
def test_keeps_the_contract(
    member: type[Postproc], check: Callable[[postproc.MakePostproc], None]
) -> None:
    check(OnAGpu(member))


# --- RewriteCooperativeFetch --------------------------------------------------------------------


def fetched(size: int, dtype: str = "float32") -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((size,), dtype), C: T.Buffer((64, size), dtype)):
        B = T.alloc_buffer((size,), dtype, scope="shared")
        for i in range(size):
            with T.block("B"):
                vi = T.axis.spatial(size, i)
                B[vi] = A[vi]
        for j, i in T.grid(64, size):
            with T.block("C"):
                vj, vi = T.axis.remap("SS", [j, i])
                C[vj, vi] = B[vi]

    return main


def rewritten(func: PrimFunc, lanes: int, x: int | None, y: int | None) -> Schedule:
    """A copy that so many threads share, after the post-processor."""
    sch = Schedule(func)
    loop = sch.get_loops("C")[0]
    if y is not None:
        loop, rows = sch.split(loop, [None, y])
        sch.bind(rows, "threadIdx.y")
    if x is not None:
        _, columns = sch.split(loop, [None, x])
        sch.bind(columns, "threadIdx.x")
    sch.annotate(sch.get_block("B"), COOPERATIVE_FETCH, lanes)
    sch.enter_postproc()
    assert initialized(RewriteCooperativeFetch()).apply(sch)
    return sch


def loops_of_copy(sch: Schedule) -> list[str]:
    return [
        f"{loop.extent}:{'' if loop.thread_binding is None else loop.thread_binding.thread_tag}"
        f"{'vector' if loop.kind.name == 'VECTORIZED' else ''}"
        for loop in (sch.get_sref(rv).loop for rv in sch.get_loops("B"))
    ]


@pytest.mark.parametrize(
    ("lanes", "x", "y", "expected"),
    [
        (4, 8, None, ["32:", "8:threadIdx.x", "4:vector"]),
        (1, 8, None, ["128:", "8:threadIdx.x"]),
        (4, 8, 2, ["16:", "2:threadIdx.y", "8:threadIdx.x", "4:vector"]),
        (1, 8, 2, ["64:", "2:threadIdx.y", "8:threadIdx.x"]),
        (3, 8, None, ["128:", "8:threadIdx.x"]),  # 1024 is no multiple of 3
        (4, None, None, ["1024:"]),  # no threads, no sharing
    ],
)
def test_threads_and_lanes(lanes: int, x: int | None, y: int | None, expected: list[str]) -> None:
    assert loops_of_copy(rewritten(fetched(1024), lanes, x, y)) == expected


def test_wide_values_are_copied_one_by_one() -> None:
    assert loops_of_copy(rewritten(fetched(64, "float64"), 2, 8, None)) == ["8:", "8:threadIdx.x"]


@T.prim_func
def fixed_point(A: T.Buffer((64,), "int32"), C: T.Buffer((64, 64), "int32")):
    B = T.alloc_buffer((64,), "int32", scope="shared")
    for i in range(64):
        with T.block("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = T.q_multiply_shift(A[vi], 7, 31, 2)
    for j, i in T.grid(64, 64):
        with T.block("C"):
            vj, vi = T.axis.remap("SS", [j, i])
            C[vj, vi] = B[vi]


def test_fixed_point_arithmetic_is_wide() -> None:
    assert loops_of_copy(rewritten(fixed_point, 2, 8, None)) == ["8:", "8:threadIdx.x"]


def test_warps_are_as_wide_as_the_target_says() -> None:
    sch = Schedule(fetched(1024))
    sch.annotate(sch.get_block("C"), WARP_EXECUTION, 1)
    sch.annotate(sch.get_block("B"), COOPERATIVE_FETCH, 1)
    with pytest.raises(ScheduleError, match="does not say how many threads those have"):
        initialized(RewriteCooperativeFetch(), Target("llvm")).apply(sch.copy())
    assert initialized(RewriteCooperativeFetch()).apply(sch)
    assert loops_of_copy(sch) == ["32:", "32:threadIdx.x"]


# --- RewriteUnboundBlock ------------------------------------------------------------------------


@T.prim_func
def several(
    A: T.Buffer((1024, 64), "float32"),
    B: T.Buffer((1024, 64), "float32"),
    C: T.Buffer((1024, 64), "float32"),
    S: T.Buffer((1,), "float32"),
    D: T.Buffer((64, 64), "float32"),
):
    for i in range(1024):
        for j in range(64):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + 1.0
        for j in range(64):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + 1.0
    for k in range(1024):
        with T.block("S"):
            vk = T.axis.reduce(1024, k)
            with T.init():
                S[0] = 0.0
            S[0] = S[0] + A[vk, 0]
    for i, j in T.grid(16, 16):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            for a, b in T.grid(4, 4):
                with T.block("inside"):
                    va, vb = T.axis.remap("SS", [a, b])
                    D[vi * 4 + va, vj * 4 + vb] = A[vi * 4 + va, vj * 4 + vb]


def test_all_blocks_get_threads_once() -> None:
    sch = Schedule(several)
    assert initialized(RewriteUnboundBlock()).apply(sch)
    assert sch.trace is not None
    names = [i.attrs[0] for i in sch.trace.insts if i.primitive.kind == "GetBlock"]
    # C shares the loop of B; blocks inside others belong to those.
    assert names == ["B", "C", "S", "D"]
    bound = [i.attrs[0] for i in sch.trace.insts if i.primitive.kind == "Bind"]
    assert bound == ["blockIdx.x", "threadIdx.x"] * 3
    shares = [i.inputs[-1] for i in sch.trace.insts if i.primitive.kind == "Split"]
    assert shares == [1024, 1, 256]


def test_unbound_blocks_need_a_limit() -> None:
    with pytest.raises(TargetError, match="RewriteUnboundBlock needs the target attribute"):
        initialized(RewriteUnboundBlock(), Target("llvm"))

# mypy: disable-error-code="valid-type, no-untyped-def"
"""`RewriteParallelVectorizeUnroll`: which loops run in parallel, become vectors, are unrolled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilewright.ir import For, ForKind, IntImm, IRModule, PrimFunc, assert_structural_equal
from tilewright.ir.annotation_keys import PARALLEL, UNROLL_EXPLICIT, UNROLL_IMPLICIT, VECTORIZE
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.space.postprocs import RewriteParallelVectorizeUnroll
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


@T.prim_func(private=True)
def matmul(
    A: T.Buffer((64, 32), "float32"),
    B: T.Buffer((32, 48), "float32"),
    C: T.Buffer((64, 48), "float32"),
):
    for i, j, k in T.grid(64, 48, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def elementwise(A: T.Buffer((8, 4, 16), "float32"), B: T.Buffer((8, 4, 16), "float32")):
    for i, j, k in T.grid(8, 4, 16):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj, vk] + T.float32(1)


@T.prim_func
def transpose(A: T.Buffer((32, 16), "float32"), B: T.Buffer((16, 32), "float32")):
    for i, j in T.grid(16, 32):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi]


@T.prim_func
def two_stages(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    B = T.alloc_buffer((16, 16))
    for i in range(16):
        for j in range(16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for j in range(16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)


def as_it_is(sch: Schedule) -> None:
    """No change before the post-processor."""


def rewritten(
    func: PrimFunc, prepare: Callable[[Schedule], Any] = as_it_is, **notes: int
) -> Schedule:
    """The function after the post-processor, with these notes on its root block."""
    keys = {
        "parallel": PARALLEL,
        "vectorize": VECTORIZE,
        "explicit": UNROLL_EXPLICIT,
        "implicit": UNROLL_IMPLICIT,
    }
    module = IRModule({"main": func})
    sch = Schedule(module, debug_mask="all")
    prepare(sch)
    for name, value in notes.items():
        sch.annotate(sch.get_block("root"), keys[name], value)
    sch.enter_postproc()
    assert RewriteParallelVectorizeUnroll().apply(sch) is True
    verify_trace_roundtrip(sch, module)
    assert_same_result(module, sch.mod)
    return sch


def nest(sch: Schedule, block: str) -> list[tuple[str, int]]:
    """The loops around a block: how each runs, and how often."""
    return [(_kind(stmt), _extent(stmt)) for stmt in _loops(sch, block)]


def _loops(sch: Schedule, block: str) -> list[For]:
    return [sref.loop for sref in sch.get_sref(sch.get_block(block)).loops]


def _kind(loop: For) -> str:
    return {ForKind.SERIAL: "serial", ForKind.PARALLEL: "parallel"}.get(loop.kind, "vector")


def _extent(loop: For) -> int:
    assert isinstance(loop.extent, IntImm)
    return loop.extent.value


def test_without_notes_nothing_happens() -> None:
    sch = Schedule(IRModule({"main": matmul}))
    before = sch.mod
    assert RewriteParallelVectorizeUnroll().apply(sch) is True
    assert sch.mod is before
    assert str(sch.trace).endswith("pass")


def test_outer_loops_until_there_is_enough_to_do() -> None:
    sch = rewritten(matmul, parallel=64)
    assert nest(sch, "C") == [("parallel", 64 * 48), ("serial", 32)]
    sch = rewritten(matmul, parallel=63)
    assert nest(sch, "C") == [("parallel", 64), ("serial", 48), ("serial", 32)]


def test_reductions_are_no_vectors() -> None:
    sch = rewritten(matmul, parallel=8, vectorize=64)
    assert nest(sch, "C") == [("parallel", 64), ("serial", 48), ("serial", 32)]


def inner_j(sch: Schedule) -> None:
    i, j, k = sch.get_loops(sch.get_block("C"))
    outer, inner = sch.split(j, [None, 8])
    sch.reorder(i, outer, k, inner)


def test_innermost_spatial_loops_become_a_vector() -> None:
    sch = rewritten(matmul, inner_j, parallel=8, vectorize=64)
    assert nest(sch, "C") == [("parallel", 64), ("serial", 6), ("serial", 32), ("vector", 8)]


def test_loop_too_long_for_a_vector_stays() -> None:
    sch = rewritten(matmul, inner_j, vectorize=7)
    assert nest(sch, "C") == [("serial", 64), ("serial", 6), ("serial", 32), ("serial", 8)]


def test_contiguous_blocks_are_cut_anew() -> None:
    sch = rewritten(elementwise, parallel=1000, vectorize=32)
    assert nest(sch, "B") == [("parallel", 16), ("vector", 32)]


def test_without_parallel_only_whole_loops_are_vectors() -> None:
    sch = rewritten(elementwise, vectorize=64)
    assert nest(sch, "B") == [("serial", 8), ("vector", 64)]


def test_strided_loops_are_not_fused() -> None:
    sch = rewritten(transpose, parallel=8, vectorize=64)
    assert nest(sch, "B") == [("parallel", 16), ("vector", 32)]


def test_annotated_loops_are_left_alone() -> None:
    def annotate_first(sch: Schedule) -> None:
        sch.annotate(sch.get_loops(sch.get_block("B"))[0], "note", 1)

    sch = rewritten(elementwise, annotate_first, parallel=1000, vectorize=64)
    assert nest(sch, "B") == [("serial", 8), ("vector", 64)]


def test_loops_of_one_iteration_need_nothing() -> None:
    def unit_outer(sch: Schedule) -> None:
        sch.add_unit_loop(sch.get_loops(sch.get_block("B"))[0])

    sch = rewritten(transpose, unit_outer, parallel=1)
    assert nest(sch, "B") == [("parallel", 16), ("serial", 32)]


def test_parallel_stops_where_loops_branch() -> None:
    sch = rewritten(two_stages, parallel=1000, vectorize=16)
    assert nest(sch, "B") == [("parallel", 16), ("vector", 16)]
    assert nest(sch, "C") == [("parallel", 16), ("vector", 16)]


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ({"explicit": 16}, {"pragma_auto_unroll_max_step": 16, "pragma_unroll_explicit": 1}),
        ({"implicit": 64}, {"pragma_auto_unroll_max_step": 64, "pragma_unroll_explicit": 0}),
        ({"explicit": 0}, {}),
    ],
)
def test_unrolling_is_noted_on_the_outermost_loop(
    notes: dict[str, int], expected: dict[str, int]
) -> None:
    loops = _loops(rewritten(matmul, as_it_is, **notes), "C")
    assert dict(loops[0].annotations) == expected
    assert not any(loop.annotations for loop in loops[1:])


def test_blocks_without_reduction_are_not_unrolled() -> None:
    assert not _loops(rewritten(elementwise, explicit=16), "B")[0].annotations


def test_notes_are_used_up() -> None:
    sch = rewritten(matmul, parallel=8, vectorize=8, explicit=16)
    assert sch.get_sref(sch.get_block("root")).block.annotations == {}


def test_every_function_of_a_module() -> None:
    module = IRModule({"main": elementwise, "other": transpose})
    sch = Schedule(module)
    for name in module:
        sch.annotate(sch.get_block("root", name), PARALLEL, 4)
    RewriteParallelVectorizeUnroll().apply(sch)
    for name in module:
        loop = sch.get(sch.get_loops(sch.get_block("B", name))[0])
        assert isinstance(loop, For)
        assert loop.kind is ForKind.PARALLEL


def test_the_program() -> None:
    @T.prim_func(private=True)
    def expected(
        A: T.Buffer((64, 32), "float32"),
        B: T.Buffer((32, 48), "float32"),
        C: T.Buffer((64, 48), "float32"),
    ):
        for i_fused in T.parallel(
            64, annotations={"pragma_auto_unroll_max_step": 16, "pragma_unroll_explicit": 1}
        ):
            for j_0, k in T.grid(6, 32):
                for j_1_fused in T.vectorized(8):
                    with T.block("C"):
                        vi = T.axis.spatial(64, i_fused)
                        vj = T.axis.spatial(48, j_0 * 8 + j_1_fused)
                        vk = T.axis.reduce(32, k)
                        with T.init():
                            C[vi, vj] = T.float32(0)
                        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    sch = rewritten(matmul, inner_j, parallel=8, vectorize=64, explicit=16)
    assert_structural_equal(sch.mod["main"], expected)

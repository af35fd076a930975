# mypy: disable-error-code="valid-type, no-untyped-def"
"""`decompose_reduction`: where the initialization goes, and when it cannot."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, assert_structural_equal
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing.handwritten import matmul as matmul_of
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


@T.prim_func
def row_sum(A: T.Buffer((8, 6, 4), "float32"), C: T.Buffer((8,), "float32")):
    for i, j, k in T.grid(8, 6, 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SRR", [i, j, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vj, vk]


@T.prim_func
def biased(
    A: T.Buffer((8, 6), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")
):
    for i, k in T.grid(8, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = B[vi]
            C[vi] = C[vi] + A[vi, vk]


def test_only_spatial_loops_are_copied(matmul: PrimFunc) -> None:
    @T.prim_func
    def main(
        A: T.Buffer((32, 24), "float32"),
        B: T.Buffer((24, 48), "float32"),
        C: T.Buffer((32, 48), "float32"),
    ):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i in T.parallel(32):
            for j_init in T.vectorized(48):
                with T.block("C_init"):
                    vi, vj = T.axis.remap("SS", [i, j_init])
                    T.reads()
                    T.writes(C[vi, vj])
                    T.block_attr({"note": 1})
                    C[vi, vj] = T.float32(0)
            for k_0 in range(6):
                for j in T.vectorized(48):
                    for k_1 in range(4):
                        with T.block("C_update"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            vk = T.axis.reduce(24, k_0 * 4 + k_1)
                            T.reads(C[vi, vj], A[vi, vk], B[vk, vj])
                            T.writes(C[vi, vj])
                            T.block_attr({"note": 1})
                            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    sch = Schedule(matmul, debug_mask="all")
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    sch.annotate(block, "note", 1)
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i, k0, j, k1)
    sch.parallel(i)
    sch.vectorize(j)
    init = sch.decompose_reduction(block, k0)
    assert_structural_equal(sch.mod["main"], main)
    assert [sch.get(b).name_hint for b in (init, block)] == ["C_init", "C_update"]  # type: ignore[union-attr]
    assert_same_result(matmul, sch.mod)
    verify_trace_roundtrip(sch, matmul)


def test_a_loop_that_also_reduces_is_copied_too() -> None:
    sch = Schedule(row_sum, debug_mask="all")
    i, j, _k = sch.get_loops("C")
    sch.decompose_reduction("C", sch.fuse(i, j))
    text = sch.mod.script()
    assert "for i_j_fused_init in range(48):" in text
    assert "vi = T.axis.spatial(8, i_j_fused_init // 6)" in text
    assert_same_result(row_sum, sch.mod)
    verify_trace_roundtrip(sch, row_sum)


def test_guards_of_reduction_loops_do_not_reach_the_initialization() -> None:
    sch = Schedule(row_sum, debug_mask="all")
    i, _j, k = sch.get_loops("C")
    i0, _ = sch.split(i, [None, 3])
    sch.split(k, [None, 3])
    sch.decompose_reduction("C", i0)
    init, update = sch.mod.script().split('T.block("C_update")')
    assert "T.where(i_0_init * 3 + i_1_init < 8)" in init
    assert "T.where(i_0 * 3 + i_1 < 8 and k_0 * 3 + k_1 < 4)" in update
    assert_same_result(row_sum, sch.mod)
    verify_trace_roundtrip(sch, row_sum)


def test_what_the_initialization_reads_is_declared() -> None:
    sch = Schedule(biased, debug_mask="all")
    sch.decompose_reduction("C", sch.get_loops("C")[0])
    assert "T.reads(B[vi])\n            T.writes(C[vi])\n            C[vi] = B[vi]" in (
        sch.mod["main"].script()
    )
    assert_same_result(biased, sch.mod)
    verify_trace_roundtrip(sch, biased)


@settings(max_examples=15, deadline=None)
@given(
    order=st.permutations(range(6)),
    factors=st.tuples(*[st.integers(1, 5)] * 3),
    at=st.integers(0, 5),
)
def test_any_tiling(order: list[int], factors: tuple[int, int, int], at: int) -> None:
    func = matmul_of(6, 5, 4)
    sch = Schedule(func, debug_mask="all")
    loops = []
    block = sch.get_child_blocks(sch.get_block("root"))[0]
    for loop, factor in zip(sch.get_loops(block), factors, strict=True):
        loops += sch.split(loop, [None, factor])
    sch.reorder(*(loops[index] for index in order))
    refused = ""
    try:
        sch.decompose_reduction(block, sch.get_loops(block)[at])
    except ScheduleError as error:
        refused = str(error)
    assert not refused or "carries the reduction" in refused
    assert_same_result(func, sch.mod)


def test_refused(matmul: PrimFunc, chain: PrimFunc) -> None:
    sch = Schedule(matmul, error_render_level="fast")
    i, j, k = sch.get_loops("C")
    sch.reorder(k, i, j)
    before = sch.mod
    with pytest.raises(ScheduleError) as caught:
        sch.decompose_reduction("C", i)
    assert str(caught.value) == (
        "ScheduleError: decompose_reduction: loop 'k', around loop 'i', carries the reduction of "
        "block 'C'; give 'k' itself or a loop around it"
    )
    assert sch.mod is before
    sch.decompose_reduction("C", k)
    with pytest.raises(ScheduleError) as caught:
        sch.decompose_reduction("C_update", k)
    assert str(caught.value) == (
        "ScheduleError: decompose_reduction: block 'C_update' is not a reduction block: "
        "it has no init statement"
    )
    other = Schedule(chain, error_render_level="fast")
    with pytest.raises(ScheduleError) as caught:
        other.decompose_reduction("C", other.get_loops("B")[0])
    assert str(caught.value) == (
        "ScheduleError: decompose_reduction: loop 'i' is not around block 'C'; give one of the "
        "loops that get_loops returns for the block"
    )


@T.prim_func
def window_over_cache(A: T.Buffer((3, 4), "int32"), O: T.Buffer((2,), "int32")):
    S = T.alloc_buffer((3,), "int32")
    for i, k in T.grid(3, 4):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = 0
            S[vi] = S[vi] + A[vi, vk]
    for i in range(2):
        with T.block("O"):
            vi = T.axis.spatial(2, i)
            O[vi] = S[vi] + S[vi + 1]


def test_sums_that_are_computed_again_are_started_again() -> None:
    sch = Schedule(window_over_cache, debug_mask="all")
    sums = sch.get_block("S")
    (outer,) = sch.get_loops("O")
    sch.compute_at(sums, outer)
    loop, inner, _ = sch.get_loops(sums)
    with pytest.raises(ScheduleError) as error:
        sch.decompose_reduction(sums, loop)
    assert str(error.value).splitlines()[0] == (
        "ScheduleError: decompose_reduction: block 'S' runs more than once for the same iterators "
        "under loop 'i', which would add to what is there already; give a loop inside the one that "
        "repeats it"
    )
    sch.decompose_reduction(sums, inner)
    assert_same_result(window_over_cache, sch.mod)

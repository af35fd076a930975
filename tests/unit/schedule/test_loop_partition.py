# mypy: disable-error-code="valid-type, no-untyped-def"
"""`loop_partition`: ranges cut into parts that can be scheduled on their own."""

from __future__ import annotations

import pytest

from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, assert_structural_equal, verify_well_formed
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


@T.prim_func
def main(A: T.Buffer((6, 20), "int32"), C: T.Buffer((6, 20), "int32")):
    for i, j in T.grid(6, 20):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * 2


double = main


def test_spatial_loop() -> None:
    @T.prim_func
    def main(A: T.Buffer((6, 20), "int32"), C: T.Buffer((6, 20), "int32")):
        for i in range(6):
            with T.block("C_j_common"):
                vi = T.axis.spatial(6, i)
                T.reads(A[vi, 0:20])
                T.writes(C[vi, 0:20])
                with T.block("C_j0_partition"):
                    T.reads(A[vi, 0:3])
                    T.writes(C[vi, 0:3])
                    for j0 in range(3):
                        with T.block("C_j0"):
                            w = T.axis.spatial(6, vi)
                            vj = T.axis.spatial(20, j0)
                            C[w, vj] = A[w, vj] * 2
                with T.block("C_j1_partition"):
                    T.reads(A[vi, 3:20])
                    T.writes(C[vi, 3:20])
                    for j1 in range(3, 20):
                        with T.block("C_j1"):
                            w = T.axis.spatial(6, vi)
                            vj = T.axis.spatial(20, j1)
                            C[w, vj] = A[w, vj] * 2

    sch = Schedule(double, debug_mask="all")
    parts = sch.loop_partition(sch.get_loops("C")[1], [3])
    assert_structural_equal(sch.mod["main"], main)
    assert [sch.get(p).extent.value for p in parts] == [3, 17]  # type: ignore[union-attr]
    assert_same_result(double, sch.mod)
    verify_trace_roundtrip(sch, double)


@pytest.mark.parametrize(
    ("factors", "lengths"),
    [([3, 4], [3, 4, 13]), ([None, 4], [16, 4]), ([1, None, 2], [1, 17, 2]), ([19], [19, 1])],
)
def test_lengths(factors: list[int | None], lengths: list[int]) -> None:
    sch = Schedule(double, debug_mask="all")
    parts = sch.loop_partition(sch.get_loops("C")[1], factors)
    assert [sch.get(p).extent.value for p in parts] == lengths  # type: ignore[union-attr]
    assert_same_result(double, sch.mod)
    verify_trace_roundtrip(sch, double)


def test_the_parts_and_the_loops_outside_can_be_scheduled_further() -> None:
    sch = Schedule(double, debug_mask="all")
    i, j = sch.get_loops("C")
    first, _, last = sch.loop_partition(j, [4, 8])
    sch.vectorize(first)
    sch.parallel(sch.split(i, [2, 3])[0])
    sch.unroll(last)
    verify_well_formed(sch.mod)
    assert_same_result(double, sch.mod)
    verify_trace_roundtrip(sch, double)


def test_a_reduction_is_initialized_once(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, debug_mask="all")
    sch.loop_partition(sch.get_loops("C")[2], [None, 5])
    first, second = sch.get_block("C_k0"), sch.get_block("C_k1")
    assert sch.get(first).init is not None  # type: ignore[union-attr]
    assert sch.get(second).init is None  # type: ignore[union-attr]
    sch.decompose_reduction(first, sch.get_loops(first)[0])
    assert_same_result(matmul, sch.mod)
    verify_trace_roundtrip(sch, matmul)


def test_spatial_loop_of_a_reduction(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, debug_mask="all")
    sch.loop_partition(sch.get_loops("C")[0], [7, 20])
    assert_same_result(matmul, sch.mod)
    verify_trace_roundtrip(sch, matmul)


def test_refused(matmul: PrimFunc, symbolic: PrimFunc) -> None:
    sch = Schedule(matmul, error_render_level="fast")
    i, j, k = sch.get_loops("C")
    for factors, reason in (
        (
            [None, None],
            "2 factors of loop 'i' are None; at most one part can take what the others leave",
        ),
        ([4, 0], "factor 0 of loop 'i' is not positive"),
        (
            [30, 2],
            "the factors [30, 2] of loop 'i' make 32, its extent is 32; the parts must leave at "
            "least one iteration for the last one",
        ),
    ):
        with pytest.raises(ScheduleError) as caught:
            sch.loop_partition(i, factors)
        assert str(caught.value) == f"ScheduleError: loop_partition: {reason}"
    sch.reorder(k, i, j)
    with pytest.raises(ScheduleError) as caught:
        sch.loop_partition(i, [4])
    assert str(caught.value) == (
        "ScheduleError: loop_partition: loop 'k', around loop 'i', carries the reduction of block "
        "'C'; partition before the reduction loop is moved outside, or decompose the reduction"
    )
    fused = sch.fuse(k, i)
    with pytest.raises(ScheduleError) as caught:
        sch.loop_partition(fused, [4])
    assert str(caught.value) == (
        "ScheduleError: loop_partition: spatial and reduction iterators of block 'C' are both "
        "bound to loop 'k_i_fused'"
    )
    unknown = Schedule(symbolic, error_render_level="fast")
    with pytest.raises(ScheduleError) as caught:
        unknown.loop_partition(unknown.get_loops("B")[0], [4])
    assert str(caught.value) == (
        "ScheduleError: loop_partition: loop 'i' runs over a range that is not constant"
    )


def test_one_block_only(chain: PrimFunc) -> None:
    sch = Schedule(chain, error_render_level="fast")
    merged = sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[0])
    with pytest.raises(ScheduleError) as caught:
        sch.loop_partition(merged, [4])
    assert str(caught.value) == (
        "ScheduleError: loop_partition: 2 blocks are under loop 'i_m', expected one"
    )

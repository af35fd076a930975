# mypy: disable-error-code="valid-type, no-untyped-def"
"""`cache_inplace` and `cache_index`."""

from __future__ import annotations

import pytest

from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, assert_structural_equal
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


@T.prim_func
def add_one(A: T.Buffer((6, 4), "int32")):
    for i, j in T.grid(6, 4):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = A[vi, vj] + 1


@T.prim_func
def add_one_in_a_copy(A: T.Buffer((6, 4), "int32")):
    A_local = T.alloc_buffer((6, 4), "int32", scope="local")
    for i, j in T.grid(6, 4):
        for ax0, ax1 in T.grid(1, 1):
            with T.block("A_local"):
                v0 = T.axis.spatial(6, i + ax0)
                v1 = T.axis.spatial(4, j + ax1)
                A_local[v0, v1] = A[v0, v1]
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A_local[vi, vj] = A_local[vi, vj] + 1
        for ax0, ax1 in T.grid(1, 1):
            with T.block("A_local"):
                v0 = T.axis.spatial(6, i + ax0)
                v1 = T.axis.spatial(4, j + ax1)
                A[v0, v1] = A_local[v0, v1]


@T.prim_func
def running_sum(A: T.Buffer((13,), "int32")):
    for i_0, i_1 in T.grid(3, 5):
        with T.block("A"):
            vi = T.axis.spatial(12, i_0 * 5 + i_1)
            T.where(i_0 * 5 + i_1 < 12)
            A[vi + 1] = A[vi + 1] + A[vi]


@T.prim_func
def upsample(A: T.Buffer((4, 8), "float32"), B: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi // 4, vj // 2] + T.Cast("float32", vi // 4 + vj // 2)


@T.prim_func
def upsample_cached(A: T.Buffer((4, 8), "float32"), B: T.Buffer((16, 16), "float32")):
    index_var_0 = T.alloc_buffer((16,), "int32")
    index_var_1 = T.alloc_buffer((16,), "int32")
    for ax0 in range(16):
        with T.block("index_0"):
            v0 = T.axis.spatial(16, ax0)
            index_var_0[v0] = v0 // 4
    for ax0 in range(16):
        with T.block("index_1"):
            v0 = T.axis.spatial(16, ax0)
            index_var_1[v0] = v0 // 2
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi // 4, vj // 2], index_var_0[vi], index_var_1[vj])
            T.writes(B[vi, vj])
            B[vi, vj] = A[index_var_0[vi], index_var_1[vj]] + T.Cast(
                "float32", index_var_0[vi] + index_var_1[vj]
            )


@T.prim_func
def divide(A: T.Buffer((8,), "int32"), B: T.Buffer((8, 8), "int32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(vj > 0, vi // vj, A[vi])


@T.prim_func
def nested(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(2):
        with T.block("outer"):
            vi = T.axis.spatial(2, i)
            for j in range(4):
                with T.block("inner"):
                    vj = T.axis.spatial(4, j)
                    B[vi * 4 + vj] = A[vi * 4 + vj]


def _refused(func: PrimFunc, primitive: str, block: str, *arguments: object) -> str:
    sch = Schedule(func, debug_mask="all", error_render_level="fast")
    before = sch.mod
    with pytest.raises(ScheduleError) as caught:
        getattr(sch, primitive)(block, *arguments)
    assert sch.mod is before
    return str(caught.value)


def test_inplace_before_and_after() -> None:
    sch = Schedule(add_one, debug_mask="all")
    fill, store = sch.cache_inplace("A", 0, "local")
    assert_structural_equal(
        sch.mod["main"], add_one_in_a_copy.with_attr("global_symbol", "add_one")
    )
    assert len(sch.get_loops(fill)) == len(sch.get_loops(store)) == 4
    assert_same_result(add_one, sch.mod)
    verify_trace_roundtrip(sch, add_one)


def test_inplace_with_neighbours_and_a_predicate() -> None:
    sch = Schedule(running_sum, debug_mask="all")
    sch.cache_inplace("A", 0, "local")
    assert_same_result(running_sum, sch.mod)
    verify_trace_roundtrip(sch, running_sum)
    assert str(sch.mod).count("T.where(i_0 * 5 + i_1 < 12)") == 3


def test_inplace_needs_both_sides() -> None:
    assert _refused(upsample, "cache_inplace", "B", 0, "local") == (
        "ScheduleError: cache_inplace: block 'B' does not both read and write buffer 'A'; use "
        "cache_read or cache_write"
    )


def test_index_before_and_after() -> None:
    sch = Schedule(upsample, debug_mask="all")
    made = sch.cache_index("B", "global", 2)
    assert len(made) == 2
    assert_structural_equal(sch.mod["main"], upsample_cached.with_attr("global_symbol", "upsample"))
    assert_same_result(upsample, sch.mod)
    verify_trace_roundtrip(sch, upsample)


def test_index_takes_the_largest_expressions_first() -> None:
    sch = Schedule(upsample, debug_mask="all")
    first, *rest = sch.cache_index("B", "local")
    assert len(rest) == 2
    assert 'index_var_0[v0, v1] = T.Cast("float32", v0 // 4 + v1 // 2)' in str(sch.get(first))
    assert_same_result(upsample, sch.mod)
    verify_trace_roundtrip(sch, upsample)


def test_nothing_to_compute_ahead() -> None:
    sch = Schedule(add_one, debug_mask="all")
    before = sch.mod
    assert sch.cache_index("A", "global") == []
    assert sch.mod is before
    verify_trace_roundtrip(sch, add_one)


def test_a_division_is_not_moved_before_its_check() -> None:
    sch = Schedule(divide, debug_mask="all")
    made = sch.cache_index("B", "global")
    assert [str(sch.get(block)).count("//") for block in made] == [0]
    assert_same_result(divide, sch.mod)
    verify_trace_roundtrip(sch, divide)


def test_index_refuses() -> None:
    assert _refused(upsample, "cache_index", "B", "global", -1) == (
        "ScheduleError: cache_index: cse_thresh is -1, expected at least 0; it says how often an "
        "expression must occur to be computed ahead"
    )
    assert _refused(nested, "cache_index", "outer", "global", 0) == (
        "ScheduleError: cache_index: block 'outer' holds other blocks; cache the indices of the "
        "blocks inside it"
    )


@T.prim_func
def smooth(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi - 1 : vi + 1])
            T.writes(A[vi])
            A[vi] = T.if_then_else(vi > 0, A[vi - 1] + A[vi], A[vi])


def test_inplace_copies_only_what_lies_in_the_buffer() -> None:
    sch = Schedule(smooth, debug_mask="all")
    sch.cache_inplace("A", 0, "local")
    assert_same_result(smooth, sch.mod)
    verify_trace_roundtrip(sch, smooth)

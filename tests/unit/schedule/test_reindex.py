# mypy: disable-error-code="valid-type, no-untyped-def"
"""`reindex`, `reindex_cache_read` and `reindex_cache_write`: what they refuse, and edge cases."""

from __future__ import annotations

import pytest

from tilewright.arith import IndexMap
from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, assert_structural_equal
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


@T.prim_func
def transpose(A: T.Buffer((6, 4), "float32"), B: T.Buffer((4, 6), "float32")):
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi]


@T.prim_func
def transpose_reindexed(A: T.Buffer((6, 4), "float32"), B: T.Buffer((4, 6), "float32")):
    A_reindex = T.alloc_buffer((4, 6))
    for ax0, ax1 in T.grid(4, 6):
        with T.block("A_reindex_reindex"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            A_reindex[v0, v1] = A[v1, v0]
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A_reindex[vi, vj]


@T.prim_func
def stencil(A: T.Buffer((9,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + A[vi + 1]


@T.prim_func
def padding(A: T.Buffer((8,), "float32"), B: T.Buffer((10,), "float32")):
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)
            B[vi] = T.if_then_else(vi >= 1 and vi < 9, A[vi - 1], T.float32(0))


@T.prim_func
def row_in_block(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            for j in range(8):
                B[vi, j] = A[vi, j] * 2.0


@T.prim_func
def in_place(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = A[vi] + 1.0


@T.prim_func
def guarded(A: T.Buffer((13,), "float32"), B: T.Buffer((13,), "float32")):
    for i_0, i_1 in T.grid(4, 4):
        with T.block("B"):
            vi = T.axis.spatial(13, i_0 * 4 + i_1)
            T.where(i_0 * 4 + i_1 < 13)
            B[vi] = A[vi] + 1.0


@T.prim_func
def half(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(16, i * 2)
            B[vi] = A[vi] + 1.0


@T.prim_func
def from_two(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial((2, 8), i + 2)
            B[vi] = A[vi] + 1.0


@T.prim_func
def under_condition(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
    if n > 3:
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + 1.0


def _refused(func: PrimFunc, primitive: str, block: str, *arguments: object) -> str:
    sch = Schedule(func, debug_mask="all", error_render_level="fast")
    before = sch.mod
    with pytest.raises(ScheduleError) as caught:
        getattr(sch, primitive)(block, *arguments)
    assert sch.mod is before
    return str(caught.value)


def test_before_and_after() -> None:
    sch = Schedule(transpose, debug_mask="all")
    sch.reindex("B", "A")
    expected = transpose_reindexed.with_attr("global_symbol", "transpose")
    assert_structural_equal(sch.mod["main"], expected)
    assert_same_result(transpose, sch.mod)
    verify_trace_roundtrip(sch, transpose)
    assert sch.trace is not None
    assert sch.trace.as_json()[0][-1] == ["ReIndex", ["b0"], [0, 0], ["b1"]]
    assert sch.trace.as_python()[-1] == 'b1 = sch.reindex(block=b0, buffer=("read", 0))'


@pytest.mark.parametrize(
    ("func", "side", "text"),
    [
        (
            stencil,
            "read",
            "block 'B' accesses buffer 'A' with different indices; all its loads and stores must "
            "use the same indices over the block's iterators",
        ),
        (
            row_in_block,
            "read",
            "block 'B' accesses buffer 'A' with variables that only exist inside the block; all "
            "its loads and stores must use the same indices over the block's iterators",
        ),
        (
            padding,
            "read",
            "block 'B' reads 'A' at [vi - 1], which may lie outside where the condition around it "
            "does not hold; the copy is made without that condition; remove it first",
        ),
        (
            half,
            "write",
            "block 'B' may not run for every value of its iterators; what it writes can be "
            "reindexed when its bindings take each combination of values",
        ),
        (
            from_two,
            "read",
            "block iterator 'vi' starts at 2, not at 0; indices of the new buffer start at 0",
        ),
    ],
)
def test_reindex_refuses(func: PrimFunc, side: str, text: str) -> None:
    assert _refused(func, "reindex", "B", (side, 0)) == f"ScheduleError: reindex: {text}"


@pytest.mark.parametrize("side", ["read", "write"])
def test_buffers_on_both_sides(side: str) -> None:
    assert _refused(in_place, "reindex", "A", (side, 0)) == (
        "ScheduleError: reindex: block 'A' both reads and writes buffer 'A'; only buffers on one "
        "side of a block can be indexed anew"
    )


@pytest.mark.parametrize("primitive", ["reindex_cache_read", "reindex_cache_write"])
def test_cache_with_a_layout_keeps_the_predicate(primitive: str) -> None:
    sch = Schedule(guarded, debug_mask="all")
    getattr(sch, primitive)("B", 0, "local", lambda i: (i // 4, i % 4))
    assert_same_result(guarded, sch.mod)
    verify_trace_roundtrip(sch, guarded)
    assert str(sch.mod).count("T.where(i_0 * 4 + i_1 < 13)") == 2


def test_cache_with_a_layout_in_the_trace() -> None:
    sch = Schedule(transpose, debug_mask="all")
    sch.reindex_cache_read("B", 0, "shared", lambda i, j: (i * 6 + j,))
    assert_same_result(transpose, sch.mod)
    verify_trace_roundtrip(sch, transpose)
    assert sch.trace is not None
    assert sch.trace.as_python()[-1] == (
        'b1 = sch.reindex_cache_read(block=b0, read_buffer_index=0, storage_scope="shared", '
        "index_map=lambda i, j: (i * 6 + j,))"
    )


@pytest.mark.parametrize(
    ("func", "index_map", "text"),
    [
        (
            stencil,
            lambda i: (i,),
            "block 'B' accesses more than one element of 'A' at a time; only element-wise accesses "
            "can get a new layout; use the plain cache stage",
        ),
        (
            transpose,
            lambda i, j: (i,),
            "iterator 'vj' of block 'B' occurs in (vj, vi) but not in (vi); the new indices must "
            "use the iterators that the old ones use",
        ),
        (
            transpose,
            lambda i, j: (i + j,),
            "the index map to (vi + vj) may put different elements of 'A' in one place; use a map "
            "that keeps the iterators apart",
        ),
        (
            transpose,
            lambda i, j: (i, j // 2),
            "the index map to (vi, vj // 2) may put different elements of 'A' in one place; use a "
            "map that keeps the iterators apart",
        ),
        (transpose, lambda i, j: (i, j - 3), "the new index j - 3 may be negative"),
        (
            transpose,
            IndexMap.from_func(lambda i, j, k: (i, j)),
            "the index map takes 3 indices, block 'B' has 2 iterators",
        ),
        (
            under_condition,
            lambda i: (i,),
            "block 'B' stands under a condition that the copy would not obey; use the plain cache "
            "stage",
        ),
    ],
)
def test_cache_with_a_layout_refuses(func: PrimFunc, index_map: object, text: str) -> None:
    found = _refused(func, "reindex_cache_read", "B", 0, "local", index_map)
    assert found == f"ScheduleError: reindex_cache_read: {text}"


@T.prim_func
def first_part(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + 1.0


def test_a_part_of_the_iterations() -> None:
    assert _refused(first_part, "reindex", "B", ("write", 0)) == (
        "ScheduleError: reindex: block 'B' may not run for every value of its iterators; what it "
        "writes can be reindexed when its bindings take each combination of values"
    )
    sch = Schedule(first_part, debug_mask="all")
    sch.reindex("B", ("read", 0))
    sch.cache_write("B", 0, "local")
    assert_same_result(first_part, sch.mod)
    verify_trace_roundtrip(sch, first_part)


@T.prim_func
def not_the_first(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            T.where(1 <= i)  # noqa: SIM300
            B[vi] = A[vi] + 1.0


@T.prim_func
def in_tiles(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i0, i1 in T.grid(4, 5):
        with T.block("B"):
            vi = T.axis.spatial(16, i0 * 5 + i1)
            T.where(i0 * 5 + i1 < 16)
            B[vi] = A[vi] + 1.0


def test_iterations_that_a_predicate_leaves_out() -> None:
    """What they do not write is not overwritten; a predicate that only ends a tile is none."""
    assert _refused(not_the_first, "reindex", "B", ("write", 0)) == (
        "ScheduleError: reindex: block 'B' may not run for every value of its iterators; what it "
        "writes can be reindexed when its bindings take each combination of values"
    )
    sch = Schedule(not_the_first, debug_mask="all")
    sch.reindex("B", ("read", 0))
    sch.cache_write("B", 0, "local")
    assert_same_result(not_the_first, sch.mod)
    verify_trace_roundtrip(sch, not_the_first)
    sch = Schedule(in_tiles, debug_mask="all")
    sch.reindex("B", ("write", 0))
    sch.cache_write("B", 0, "local")
    assert_same_result(in_tiles, sch.mod)
    verify_trace_roundtrip(sch, in_tiles)


@T.prim_func
def unknown_rows(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n, 4), "float32")
    B = T.match_buffer(b, (4, n), "float32")
    for i, j in T.grid(n, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vj, vi] = A[vi, vj] + 1.0


def test_an_unknown_number_of_iterations() -> None:
    sch = Schedule(unknown_rows, debug_mask="all")
    sch.reindex("B", ("read", 0))
    sch.reindex("B", ("write", 0))
    assert_same_result(unknown_rows, sch.mod)
    verify_trace_roundtrip(sch, unknown_rows)

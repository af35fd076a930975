"""`compute_inline` and `reverse_compute_inline`: results and refusals."""

from __future__ import annotations

import pytest

from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc
from tilewright.schedule import Schedule
from tilewright.schedule.primitives.compute_inline import can_compute_inline
from tilewright.schedule.primitives.reverse_compute_inline import can_reverse_compute_inline
from tilewright.script import from_source
from tilewright.testing.placement_programs import (
    every_second,
    flattened,
    guarded_reader,
    last_wins,
    matmul_relu,
    not_plain,
    one_row,
    padding,
    sum_of_stage,
    through_pointer,
    two_places,
    two_stages,
    two_stores,
)
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


def schedule(func: PrimFunc) -> Schedule:
    return Schedule(func, debug_mask="all", error_render_level="fast")


def check(sch: Schedule, func: PrimFunc) -> None:
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("func", [two_stages, guarded_reader, padding, one_row, sum_of_stage])
def test_compute_inline(func: PrimFunc) -> None:
    sch = schedule(func)
    sch.compute_inline("B")
    assert "alloc_buffer" not in sch.mod.script()
    assert "B[" not in sch.mod.script()
    check(sch, func)


def test_reads_follow_the_body() -> None:
    sch = schedule(sum_of_stage)
    c = sch.get_block("C")
    sch.compute_inline("B")
    assert "T.reads(A[vi, vk])" in sch.mod.script()
    sch.parallel(sch.get_loops(c)[0])  # the handle still stands for the block
    check(sch, sum_of_stage)


@pytest.mark.parametrize("func", [two_stages, one_row, flattened])
def test_reverse_compute_inline(func: PrimFunc) -> None:
    sch = schedule(func)
    sch.reverse_compute_inline("C")
    assert "alloc_buffer" not in sch.mod.script()
    check(sch, func)


def test_only_the_row_that_is_read_is_written() -> None:
    sch = schedule(one_row)
    sch.reverse_compute_inline("C")
    assert "T.where(i == 2)" in sch.mod.script()


def test_asking_changes_nothing() -> None:
    sch = schedule(two_stages)
    b, c = sch.get_sref(sch.get_block("B")), sch.get_sref(sch.get_block("C"))
    before = sch.mod
    assert can_compute_inline(sch.state, b)
    assert not can_compute_inline(sch.state, c)
    assert can_reverse_compute_inline(sch.state, c)
    assert not can_reverse_compute_inline(sch.state, b)
    assert sch.mod is before


INLINE_ERRORS = [
    (
        matmul_relu,
        "C",
        "block 'C' has an init statement; reductions cannot be inlined; "
        "use compute_at or reverse_compute_at",
    ),
    (
        two_stages,
        "C",
        "block 'C' writes buffer 'C', which is seen outside of its scope; "
        "move other blocks to it instead",
    ),
    (
        not_plain,
        "B",
        "block 'B' stores to `7 - vi`, which is not an iterator of its own; "
        "each index must be another iterator of the block, or a constant",
    ),
    (
        two_stores,
        "B",
        "block 'B' is not a single store to one buffer; "
        "only blocks of the form `B[i, j] = value` can be inlined",
    ),
    (
        last_wins,
        "B",
        "the value of block 'B' depends on iterator 'vj', which is not an index",
    ),
    (
        through_pointer,
        "B",
        "block 'C' does not read buffer 'B' by plain loads only; "
        "reads through pointers, match_buffer or vectors cannot be replaced",
    ),
]


@pytest.mark.parametrize(("func", "block", "text"), INLINE_ERRORS)
def test_compute_inline_refuses(func: PrimFunc, block: str, text: str) -> None:
    sch = schedule(func)
    before, rv = sch.mod, sch.get_block(block)
    with pytest.raises(ScheduleError) as caught:
        sch.compute_inline(rv)
    assert str(caught.value) == f"ScheduleError: compute_inline: {text}"
    assert sch.mod is before


REVERSE_ERRORS = [
    (two_stages, "B", "block 'B' has 0 producers; it must read exactly one buffer that other "
     "blocks write, written by a single block"),
    (
        matmul_relu,
        "D",
        "the producer 'C' of block 'D' is not a complete block: it has iterators that are not "
        "spatial; inline only into blocks that compute each element once; else use "
        "reverse_compute_at",
    ),
    (
        guarded_reader,
        "C",
        "block 'C' runs only where `i < 7`; inline it before splitting its loops",
    ),
    (
        two_places,
        "C",
        "block 'C' does not read buffer 'B' at one and the same place; "
        "all its loads must have the same indices",
    ),
    (
        every_second,
        "C",
        "the indices `vi * 2` of block 'C' cannot be solved for its iterators; each element must "
        "be read by exactly one iteration, by way of sums and divisions",
    ),
    (
        padding,
        "C",
        "block 'C' runs for iterations without an element of buffer 'B'; "
        "the producer must write an element for each of its iterations",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("func", "block", "text"), REVERSE_ERRORS)
def test_reverse_compute_inline_refuses(func: PrimFunc, block: str, text: str) -> None:
    sch = schedule(func)
    before, rv = sch.mod, sch.get_block(block)
    with pytest.raises(ScheduleError) as caught:
        sch.reverse_compute_inline(rv)
    assert str(caught.value) == f"ScheduleError: reverse_compute_inline: {text}"
    assert sch.mod is before


def test_producers_that_run_in_each_parallel_iteration() -> None:
    sch = schedule(flattened)
    c = sch.get_block("C")
    i0, i1 = sch.split(sch.get_loops(c)[0], [6, 4])
    sch.reorder(i1, i0)
    sch.compute_at("B", i1)
    sch.parallel(i1)
    with pytest.raises(ScheduleError) as caught:
        sch.reverse_compute_inline(c)
    assert str(caught.value) == (
        "ScheduleError: reverse_compute_inline: all iterations of the parallel loop 'i_1' would "
        "write what block 'B' writes; make the loop parallel only where each iteration writes "
        "elements of its own"
    )
    check(sch, flattened)


TWO_STAGES = """
@T.prim_func
def main(A: T.Buffer(({made}), "float32"), C: T.Buffer(({read}), "float32")):
    B = T.alloc_buffer(({made}), "float32")
    for i, j in T.grid({made}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid({read}):
        with T.block("C"):
            wi, wj = T.axis.remap("SS", [i, j])
            C[wi, wj] = B[{place}] + T.Cast("float32", wi)
"""


@pytest.mark.parametrize(
    ("made", "read", "place", "written", "guard"),
    [
        ("6, 4", "4, 6", "wj, wi", "C[vj, vi]", ""),
        ("6, 4", "3, 8", "(wi * 8 + wj) // 4, (wi * 8 + wj) % 4",
         "C[(vj + vi * 4) // 8, (vj + vi * 4) % 8]", ""),
        ("6, 4", "6, 4", "5 - wi, wj", "C[(vi - 5) * -1, vj]", ""),
        ("6, 4", "4, 4", "wi + 1, wj", "C[vi - 1, vj]", "1 <= i and i < 5"),
        ("1, 4", "1, 4", "wi, wj", "C[vi, vj]", ""),
        ("6, 4", "1, 4", "wi, wj", "C[vi, vj]", "i < 1"),
        ("6, 4", "1, 4", "wi + 2, wj", "C[vi - 2, vj]", "2 <= i and i < 3"),
        ("1, 4", "1, 4", "wi * 3, wj", "C[0, vj]", ""),
    ],
)  # fmt: skip
def test_where_the_producer_writes_then(
    made: str, read: str, place: str, written: str, guard: str
) -> None:
    func = from_source(TWO_STAGES.format(made=made, read=read, place=place))
    assert isinstance(func, PrimFunc)
    sch = schedule(func)
    sch.reverse_compute_inline("C")
    script = sch.mod.script()
    assert f"T.writes({written})" in script
    assert (f"T.where({guard})" in script) if guard else ("T.where" not in script)
    check(sch, func)

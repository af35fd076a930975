"""`compute_at` and `reverse_compute_at`: results, refusals, and what stays valid.

That the programs are those of TVM is tested in `tests/differential`; here is what TVM gets wrong,
and every error text.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc
from tilewright.schedule import Schedule
from tilewright.schedule.primitives.compute_at import can_compute_at
from tilewright.testing.placement_programs import (
    backwards,
    conditional,
    guarded_reader,
    guarded_writer,
    half_written,
    matmul_relu,
    odd_guard,
    overwritten,
    padding,
    sum_of_stage,
    unread,
)
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


def schedule(func: PrimFunc) -> Schedule:
    return Schedule(func, debug_mask="all", error_render_level="fast")


def check(sch: Schedule, func: PrimFunc) -> None:
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


def body_of(sch: Schedule) -> str:
    """The program without its first lines."""
    lines = sch.mod.script().splitlines()
    start = next(n for n, line in enumerate(lines) if "T.block(" in line) + 1
    return "\n".join(line[8:] for line in lines[start:] if "alloc_buffer" not in line)


def refuses(sch: Schedule, act: Callable[[], object], text: str) -> None:
    """An error with that text, and nothing changed."""
    before, trace = sch.mod, str(sch.trace)
    with pytest.raises(ScheduleError) as caught:
        act()
    assert str(caught.value) == f"ScheduleError: {text}"
    assert sch.mod is before
    assert str(sch.trace) == trace


# --- results --------------------------------------------------------------------------------------


def test_compute_at_tiles() -> None:
    sch = schedule(matmul_relu)
    i, j = sch.get_loops("D")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 5])
    sch.reorder(i0, j0, i1, j1)
    sch.compute_at("C", j0)
    assert body_of(sch) == (
        """\
for i_0, j_0 in T.grid(2, 3):
    for ax0, ax1, ax2 in T.grid(4, 5, 6):
        with T.block("C"):
            vi = T.axis.spatial(8, i_0 * 4 + ax0)
            vj = T.axis.spatial(12, j_0 * 5 + ax1)
            vk = T.axis.reduce(6, ax2)
            T.where(j_0 * 5 + ax1 < 12)
            T.reads(A[vi, vk], B[vk, vj])
            T.writes(C[vi, vj])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i_1, j_1 in T.grid(4, 5):
        with T.block("D"):
            vi = T.axis.spatial(8, i_0 * 4 + i_1)
            vj = T.axis.spatial(12, j_0 * 5 + j_1)
            T.where(j_0 * 5 + j_1 < 12)
            T.reads(C[vi, vj])
            T.writes(D[vi, vj])
            D[vi, vj] = T.max(C[vi, vj], T.float32(0))"""
    )
    check(sch, matmul_relu)


def test_reverse_compute_at_keeps_unit_loops_on_request() -> None:
    sch = schedule(matmul_relu)
    _, j, _ = sch.get_loops("C")
    sch.reverse_compute_at("D", j, preserve_unit_loops=True)
    assert "for ax0, ax1 in T.grid(1, 1):" in body_of(sch)
    assert "vj = T.axis.spatial(12, j + ax1)" in body_of(sch)
    check(sch, matmul_relu)


def test_handles_stay_valid() -> None:
    sch = schedule(matmul_relu)
    d, c = sch.get_block("D"), sch.get_block("C")
    i, j, k = sch.get_loops(c)
    old = sch.get_loops(d)
    sch.reverse_compute_at(d, i)
    assert [loop.loop.loop_var.name for loop in map(sch.get_sref, sch.get_loops(d))] == ["i", "ax0"]
    sch.reverse_compute_at(d, j)
    sch.parallel(i)
    sch.unroll(k)
    with pytest.raises(ScheduleError, match="no longer exists"):
        sch.get(old[0])
    check(sch, matmul_relu)


def test_positions() -> None:
    sch = schedule(matmul_relu)
    i, _, _ = sch.get_loops("C")
    sch.reverse_compute_at("D", i, index=-2)
    check(sch, matmul_relu)
    sch = schedule(matmul_relu)
    i, _ = sch.get_loops("D")
    sch.compute_at("C", i, index=0)
    check(sch, matmul_relu)


def test_guards_of_the_moved_block_stay() -> None:
    sch = schedule(guarded_reader)
    (i,) = sch.get_loops("B")
    sch.reverse_compute_at("C", i)
    assert "T.where(i < 7)" in body_of(sch)
    check(sch, guarded_reader)


def test_guards_of_the_producer_count() -> None:
    sch = schedule(guarded_writer)
    (i,) = sch.get_loops("B")
    sch.reverse_compute_at("C", i)
    check(sch, guarded_writer)
    sch = schedule(guarded_writer)
    sch.compute_at("B", sch.get_loops("C")[0])
    check(sch, guarded_writer)


def test_reduction_follows_its_producer() -> None:
    sch = schedule(sum_of_stage)
    _, j = sch.get_loops("B")
    sch.reverse_compute_at("C", j)
    check(sch, sum_of_stage)


@pytest.mark.parametrize("factors", [None, [None, 4], [4, None]])
def test_reductions_across_threads(factors: list[int | None] | None) -> None:
    """Threads of a block may reduce together, as after `bind`."""
    sch = schedule(sum_of_stage)
    i, j = sch.get_loops("B")
    loop = j if factors is None else sch.split(j, factors)[1]
    sch.bind(i, "blockIdx.x")
    sch.bind(loop, "threadIdx.x")
    sch.reverse_compute_at("C", loop)
    check(sch, sum_of_stage)


def test_asking_changes_nothing() -> None:
    sch = schedule(matmul_relu)
    state = sch.state
    c, d = sch.get_sref(sch.get_block("C")), sch.get_sref(sch.get_block("D"))
    i_of_c, i_of_d = (sch.get_sref(sch.get_loops(name)[0]) for name in ("C", "D"))
    before = sch.mod
    assert can_compute_at(state, c, i_of_d)
    assert not can_compute_at(state, d, i_of_c)
    assert sch.mod is before


# --- refusals -------------------------------------------------------------------------------------


def test_conditions_on_block_and_loop() -> None:
    sch = schedule(matmul_relu)
    c, d = sch.get_block("C"), sch.get_block("D")
    i, _, _ = sch.get_loops(c)
    di, _ = sch.get_loops(d)
    refuses(
        sch,
        lambda: sch.compute_at(c, i),
        "compute_at: loop 'i' is already around block 'C'; "
        "choose a loop of one of the blocks it exchanges data with",
    )
    refuses(
        sch,
        lambda: sch.compute_at(d, i),
        "compute_at: block 'D' writes buffer 'D', which is seen outside of its scope; "
        "move other blocks to it instead",
    )
    refuses(
        sch,
        lambda: sch.reverse_compute_at(c, di, index=2),
        "reverse_compute_at: index 2 is not among the possible positions 0 to 0 in loop 'i'; "
        "use -1 for the last and -2 for the first of them",
    )
    refuses(
        sch,
        lambda: sch.compute_at(c, di, index=1),
        "compute_at: index 1 is not among the possible positions 0 to 0 in loop 'i'; "
        "use -1 for the last and -2 for the first of them",
    )


def test_consumers_outside_the_loop() -> None:
    sch = schedule(matmul_relu)
    copy = sch.cache_write("D", 0, "global")
    i, _ = sch.get_loops(copy)
    c = sch.get_block("C")
    refuses(
        sch,
        lambda: sch.compute_at(c, i),
        "compute_at: consumers 'D' of block 'C' are not under loop 'ax0'; "
        "choose a loop around all consumers, or move those first",
    )


def test_blocks_nobody_reads() -> None:
    sch = schedule(unread)
    b = sch.get_block("B")
    (i,) = sch.get_loops("C")
    refuses(
        sch,
        lambda: sch.compute_at(b, i),
        "compute_at: block 'B' has no consumers; there is nothing to compute it for; "
        "only blocks whose results are read can be moved",
    )


def test_not_a_pipeline() -> None:
    sch = schedule(half_written)
    b = sch.get_block("B")
    (i,) = sch.get_loops("C")
    refuses(
        sch,
        lambda: sch.compute_at(b, i),
        "compute_at: the blocks under 'root' are not stages of a pipeline: block 'C' reads what "
        "may not have been written before; each block must read only what earlier blocks wrote "
        "completely, and overwrite nothing",
    )
    sch = schedule(overwritten)
    b = sch.get_block("B")
    (i,) = sch.get_loops("C")
    refuses(
        sch,
        lambda: sch.reverse_compute_at(b, i),
        "reverse_compute_at: the blocks under 'root' are not stages of a pipeline: block 'B' "
        "overwrites what block 'C' reads; each block must read only what earlier blocks wrote "
        "completely, and overwrite nothing",
    )


def test_padding_does_not_follow_what_it_pads() -> None:
    """TVM does it, and loses the border."""
    sch = schedule(padding)
    c = sch.get_block("C")
    (i,) = sch.get_loops("B")
    refuses(
        sch,
        lambda: sch.reverse_compute_at(c, i),
        "reverse_compute_at: block 'C' would not run for all its iterations under loop 'i'; it "
        "does more than its producers, for example padding; choose another block to move",
    )


def test_guards_that_leave_gaps() -> None:
    sch = schedule(odd_guard)
    c = sch.get_block("C")
    (i,) = sch.get_loops("B")
    refuses(
        sch,
        lambda: sch.reverse_compute_at(c, i),
        "reverse_compute_at: the predicate `i % 2 == 0` of block 'C' does not leave a box of "
        "iterations; its loops could not be made anew",
    )


def test_gaps_in_what_is_produced() -> None:
    sch = schedule(matmul_relu)
    d = sch.get_block("D")
    i, j, _ = sch.get_loops("C")
    i0, i1 = sch.split(i, [2, 4])
    sch.reorder(i1, i0, j)
    refuses(
        sch,
        lambda: sch.reverse_compute_at(d, i1),
        "reverse_compute_at: block 'C' does not write a contiguous region of 'C' in one iteration "
        "of loop 'i_1'; choose a loop around all loops that the gaps come from",
    )


def test_reductions_run_once_and_in_order() -> None:
    sch = schedule(backwards)
    c = sch.get_block("C")
    (i,) = sch.get_loops("B")
    refuses(
        sch,
        lambda: sch.reverse_compute_at(c, i),
        "reverse_compute_at: the reduction of block 'C' would run more than once or out of order "
        "under loop 'i'; choose a loop around the reduction",
    )


@pytest.mark.parametrize("kind", ["parallel", "vectorize", "blockIdx.x", "vthread.x"])
def test_reductions_do_not_run_in_parallel(kind: str) -> None:
    sch = schedule(sum_of_stage)
    c = sch.get_block("C")
    _, j = sch.get_loops("B")
    if "." in kind:
        sch.bind(j, kind)
    else:
        getattr(sch, kind)(j)
    refuses(
        sch,
        lambda: sch.reverse_compute_at(c, j),
        "reverse_compute_at: the reduction of block 'C' would run in parallel under loop 'j'; "
        "choose a loop around the reduction",
    )


def test_parallel_loops_that_write_the_same() -> None:
    sch = schedule(matmul_relu)
    i, _ = sch.get_loops("D")
    outer, _ = sch.split(i, [2, 4])
    sch.compute_at("C", outer)
    sch.parallel(outer)  # each iteration has a part of C of its own
    check(sch, matmul_relu)


def test_statements_that_would_be_lost() -> None:
    sch = schedule(conditional)
    b = sch.get_block("B")
    (i,) = sch.get_loops("C")
    refuses(
        sch,
        lambda: sch.compute_at(b, i),
        "compute_at: block 'B' is inside a IfThenElse statement, which would be lost; "
        "only blocks directly inside loops can be taken away",
    )

"""Random moves of blocks: whatever is not refused computes the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc
from tilewright.schedule import Schedule
from tilewright.testing import placement_programs
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip

PROGRAMS = [
    value
    for name, value in vars(placement_programs).items()
    if isinstance(value, PrimFunc) and name != "conditional"
]
STEPS = ["split", "reorder", "fuse", "compute_at", "reverse", "inline", "reverse_inline", "sample"]


def step(sch: Schedule, kind: str, numbers: list[int]) -> None:
    """One primitive on blocks and loops that the numbers choose."""
    a, b, c, d = numbers
    blocks = sch.get_child_blocks(sch.get_block("root"))
    block, other = blocks[a % len(blocks)], blocks[b % len(blocks)]
    loops = sch.get_loops(other)
    if kind == "inline":
        sch.compute_inline(block)
    elif kind == "reverse_inline":
        sch.reverse_compute_inline(block)
    elif kind == "sample":
        sch.compute_at(block, sch.sample_compute_location(block))
    elif not loops:
        return
    elif kind == "split":
        sch.split(loops[c % len(loops)], [None, 1 + d % 5])
    elif kind == "reorder":
        first, second = loops[c % len(loops)], loops[d % len(loops)]
        if first is not second:
            sch.reorder(first, second)
    elif kind == "fuse":
        start = c % len(loops)
        sch.fuse(*loops[start : start + 2])
    else:
        move: Any = sch.compute_at if kind == "compute_at" else sch.reverse_compute_at
        move(block, loops[c % len(loops)], bool(d & 1), -1 - (d >> 1) % 2)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(PROGRAMS),
    st.lists(
        st.tuples(st.sampled_from(STEPS), st.lists(st.integers(0, 11), min_size=4, max_size=4)),
        min_size=1,
        max_size=7,
    ),
)
def test_moves_keep_the_meaning(func: PrimFunc, steps: list[tuple[str, list[int]]]) -> None:
    sch = Schedule(func, seed=3, debug_mask="all", error_render_level="fast")
    for kind, numbers in steps:
        before = sch.mod
        try:
            step(sch, kind, numbers)
        except ScheduleError:
            assert sch.mod is before
    if func is not placement_programs.half_written:  # it reads what nobody wrote
        assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


def test_there_are_programs() -> None:
    assert len(PROGRAMS) > 15
    with pytest.raises(ScheduleError):
        step(Schedule(PROGRAMS[0]), "inline", [1, 0, 0, 0])

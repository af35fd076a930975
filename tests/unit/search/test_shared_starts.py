"""Replays that go on from the first decision give what whole replays give."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.ir import structural_equal
from tilewright.schedule import LoopRV, Schedule, Trace, register_primitive
from tilewright.schedule.primitives.annotate import annotate
from tilewright.schedule.trace.instruction import Primitive, given
from tilewright.search.shared_starts import SharedStarts
from tilewright.testing.small_search import MODULE


@register_primitive
class MadeUpNote(Primitive[None]):
    """Notes a random number without recording it."""

    loop: LoopRV = given()

    def run(self, sch: Schedule) -> None:
        note = str(sch.random.integer(0, 1000))
        annotate(sch.state, sch.get_sref(self.loop), "note", note)


def reindexed(sch: Schedule) -> None:
    """Steps before the first decision, and after it."""
    block = sch.get_block("matmul")
    sch.reindex(block, ("read", 1))
    i, j, _ = sch.get_loops(block)
    sch.split(i, sch.sample_perfect_tile(i, n=2))
    sch.split(j, sch.sample_perfect_tile(j, n=2))


def decided_at_once(sch: Schedule) -> None:
    """No step before the first decision."""
    tile = sch.sample_categorical([2, 4, 8], [0.3, 0.3, 0.4])
    i, *_ = sch.get_loops(sch.get_block("matmul"))
    sch.split(i, [None, tile])


def undecided(sch: Schedule) -> None:
    """No decision."""
    sch.cache_write(sch.get_block("matmul"), 0, "global")


def _trace_of(space: Callable[[Schedule], None]) -> Trace:
    sch = Schedule(MODULE, seed=1)
    space(sch)
    assert sch.trace is not None
    return Trace(sch.trace.insts)  # all decisions are open


def _replayed(trace: Trace, seed: int) -> Schedule:
    sch = Schedule(MODULE, seed=seed)
    trace.apply_to_schedule(sch, remove_postproc=True, is_final=True)
    return sch


def _assert_same(mine: Schedule, wanted: Schedule) -> None:
    assert structural_equal(mine.mod, wanted.mod)
    assert str(mine.trace) == str(wanted.trace)


@pytest.mark.parametrize("space", [reindexed, decided_at_once, undecided])
def test_they_give_the_same(space: Callable[[Schedule], None]) -> None:
    trace, starts = _trace_of(space), SharedStarts(MODULE)
    for seed in range(1, 7):
        drawn = starts.replay(trace, seed)
        _assert_same(drawn, _replayed(trace, seed))
        assert drawn.trace is not None
        again = starts.replay(drawn.trace, seed=99)  # all decisions are taken
        _assert_same(again, drawn)
        again.cache_read(again.get_block("matmul"), 0, "global")  # changes neither start nor others
        _assert_same(starts.replay(drawn.trace, seed=1), drawn)


def test_what_replays_record_has_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    trace, starts = _trace_of(reindexed), SharedStarts(MODULE)
    first = starts.replay(trace, 1)
    assert first.trace is not None
    ran = []
    original = Schedule.run

    def run(sch: Schedule, step: Primitive[object], decision: object = None) -> object:
        ran.append(step.kind)
        return original(sch, step, decision)

    monkeypatch.setattr(Schedule, "run", run)
    starts.replay(first.trace, 2)
    assert "ReIndex" not in ran
    assert ran.count("Split") == 2


def test_steps_that_draw_without_recording_are_not_shared() -> None:
    def space(sch: Schedule) -> None:
        i, *_ = sch.get_loops(sch.get_block("matmul"))
        sch.run(MadeUpNote(i))

    trace, starts = _trace_of(space), SharedStarts(MODULE)
    for seed in range(1, 7):
        _assert_same(starts.replay(trace, seed), _replayed(trace, seed))

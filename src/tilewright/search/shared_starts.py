"""Schedules at the first decision of traces, from which replays go on.

All candidates of a sketch begin with the same steps: reindexing, layouts, padding. These are
carried out once, and each replay continues a copy. What a replay records begins with the steps of
that copy, so that the traces of mutated candidates are continued from it, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir import IRModule
from tilewright.schedule import Schedule, Trace
from tilewright.schedule.trace.instruction import Instruction

_MOST = 32  # starts that are kept


@dataclass(frozen=True, eq=False)
class _Start:
    """A schedule with some steps behind it, and what those gave."""

    sch: Schedule
    results: dict[Instruction, object]


class SharedStarts:
    """Replays traces on one program."""

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self._starts: dict[tuple[Instruction, ...], _Start] = {}

    def replay(self, trace: Trace, seed: int) -> Schedule:
        """The schedule that a trace leads to; open decisions are drawn with the seed."""
        start = self._start(trace)
        sch = start.sch.copy()
        sch.seed(seed)
        trace.apply_to_schedule(sch, remove_postproc=True, is_final=True, done=start.results)
        return sch

    def _start(self, trace: Trace) -> _Start:
        steps = trace.fixed_steps()
        known = self._starts.get(steps)
        if known is None:
            known = self._started(steps)
            self._keep(steps, known)
            own = _recorded(known.sch)
            if own:
                self._keep(own, _Start(known.sch, _results(own, own)))
        return known

    def _started(self, steps: tuple[Instruction, ...]) -> _Start:
        # Nobody reads most of the errors; the first of each kind is rendered when it is logged.
        sch = Schedule(self._mod, error_render_level="fast")
        before = sch.random.state
        Trace(steps).apply_to_schedule(sch, remove_postproc=False)
        if sch.random.state != before:  # a primitive of the user's own drew a number
            return _Start(Schedule(self._mod, error_render_level="fast"), {})
        return _Start(sch, _results(steps, _recorded(sch)))

    def _keep(self, steps: tuple[Instruction, ...], start: _Start) -> None:
        self._starts[steps] = start
        while len(self._starts) > _MOST:
            del self._starts[next(iter(self._starts))]


def _recorded(sch: Schedule) -> tuple[Instruction, ...]:
    assert sch.trace is not None
    return tuple(sch.trace.insts)


def _results(
    steps: tuple[Instruction, ...], recorded: tuple[Instruction, ...]
) -> dict[Instruction, object]:
    return {step: list(own.outputs) for step, own in zip(steps, recorded, strict=True)}

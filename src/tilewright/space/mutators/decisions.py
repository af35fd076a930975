"""Decisions in traces: numbers that were drawn, their purposes, and other draws."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from tilewright.schedule import ExprRV, Instruction, Trace
from tilewright.schedule.primitives.annotate import Annotate
from tilewright.schedule.primitives.sample_categorical import SampleCategorical
from tilewright.schedule.trace.instruction import is_step
from tilewright.schedule.trace.random import RandomEngine
from tilewright.space.base import Mutator

Draw: TypeAlias = Instruction[SampleCategorical]


def main_part(trace: Trace) -> Iterator[Instruction]:
    """The steps before post-processing: what mutators may change."""
    for inst in trace.insts:
        if inst.step.is_postproc:
            return
        yield inst


def notes(trace: Trace, keys: Sequence[str]) -> list[Instruction[Annotate]]:
    """The steps that annotate something under one of these keys."""
    marks = (inst for inst in main_part(trace) if is_step(inst, Annotate))
    return [mark for mark in marks if mark.step.ann_key in keys]


def categorical_draws(trace: Trace) -> dict[ExprRV, Draw]:
    """The steps that drew one of several numbers, by what they drew."""
    return {
        inst.outputs[0]: inst  # type: ignore[misc]
        for inst in main_part(trace)
        if is_step(inst, SampleCategorical) and trace.get_decision(inst) is not None
    }


def draws_behind(trace: Trace, keys: Sequence[str]) -> list[Draw]:
    """The categorical draws with a choice whose result is annotated under one of these keys."""
    draws = categorical_draws(trace)
    values = (note.step.ann_val for note in notes(trace, keys))
    return [draws[value] for value in values if value in draws and has_choice(draws[value])]


def has_choice(draw: Draw) -> bool:
    """True when a categorical draw has more than one candidate."""
    return len(draw.step.candidates) > 1


def another_category(engine: RandomEngine, draw: Draw, current: int) -> int:
    """One of the other candidates of a categorical draw, with the chances they have."""
    chances = [float(chance) for chance in draw.step.probs]
    del chances[current]
    chosen = engine.multinomial(chances)()
    return chosen + 1 if chosen >= current else chosen


class RedrawMutator(Mutator):
    """Draws one of some categorical numbers again."""

    @abstractmethod
    def draws(self, trace: Trace) -> Sequence[Draw]:
        """The draws, each with a choice, of which one is changed."""

    def apply(self, trace: Trace, seed: int) -> Trace | None:
        engine, draws = RandomEngine(seed), self.draws(trace)
        if not draws:
            return None
        return with_another_category(trace, engine, draws[engine.integer(0, len(draws))])


def with_another_category(trace: Trace, engine: RandomEngine, draw: Draw) -> Trace:
    """The trace with another candidate chosen in a categorical draw."""
    chosen = another_category(engine, draw, int(trace.get_decision(draw)))
    return trace.with_decision(draw, chosen, remove_postproc=True)

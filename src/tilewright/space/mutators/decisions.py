"""Decisions in traces: numbers that were drawn, their purposes, and other draws."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

from tilewright.schedule import ExprRV, Instruction, Trace
from tilewright.schedule.trace.random import RandomEngine
from tilewright.space.base import Mutator


def main_part(trace: Trace) -> Iterator[Instruction]:
    """The steps before post-processing: what mutators may change."""
    for inst in trace.insts:
        if inst.primitive.is_postproc:
            return
        yield inst


def notes(trace: Trace, keys: Sequence[str]) -> list[Instruction]:
    """The steps that annotate something under one of these keys."""
    return [
        inst
        for inst in main_part(trace)
        if inst.primitive.kind == "Annotate" and inst.attrs[0] in keys
    ]


def categorical_draws(trace: Trace) -> dict[ExprRV, Instruction]:
    """The steps that drew one of several numbers, by what they drew."""
    return {
        inst.outputs[0]: inst  # type: ignore[misc]
        for inst in main_part(trace)
        if inst.primitive.kind == "SampleCategorical" and trace.get_decision(inst) is not None
    }


def draws_behind(trace: Trace, keys: Sequence[str]) -> list[Instruction]:
    """The categorical draws with a choice whose result is annotated under one of these keys."""
    draws = categorical_draws(trace)
    found = [draws[note.inputs[1]] for note in notes(trace, keys) if note.inputs[1] in draws]
    return [draw for draw in found if has_choice(draw)]


def has_choice(draw: Instruction) -> bool:
    """True when a categorical draw has more than one candidate."""
    return len(draw.attrs[0]) > 1


def another_category(engine: RandomEngine, draw: Instruction, current: int) -> int:
    """One of the other candidates of a categorical draw, with the chances they have."""
    chances = [float(chance) for chance in draw.attrs[1]]
    del chances[current]
    chosen = engine.multinomial(chances)()
    return chosen + 1 if chosen >= current else chosen


class RedrawMutator(Mutator):
    """Draws one of some categorical numbers again."""

    @abstractmethod
    def draws(self, trace: Trace) -> Sequence[Instruction]:
        """The draws, each with a choice, of which one is changed."""

    def apply(self, trace: Trace, seed: int) -> Trace | None:
        engine, draws = RandomEngine(seed), self.draws(trace)
        if not draws:
            return None
        return with_another_category(trace, engine, draws[engine.integer(0, len(draws))])


def with_another_category(trace: Trace, engine: RandomEngine, draw: Instruction) -> Trace:
    """The trace with another candidate chosen in a categorical draw."""
    chosen = another_category(engine, draw, int(trace.get_decision(draw)))
    return trace.with_decision(draw, chosen, remove_postproc=True)

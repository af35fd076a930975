"""Sketches: steps with open decisions. The decisions tell the drafts of a sketch apart.

That costs microseconds where making a draft costs milliseconds, so drafts that were made before
need not be made again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING

from tilewright.errors import TuneError
from tilewright.schedule import Schedule, Trace
from tilewright.schedule.primitives.sample_categorical import SampleCategorical
from tilewright.schedule.trace.instruction import is_step
from tilewright.schedule.trace.random import RandomEngine

if TYPE_CHECKING:
    from tilewright.search.replayer import Draft

Origin = tuple[int, tuple[Hashable, ...]]  # the number of a sketch, and all its decisions


class Sketch:
    """A sketch of the search space."""

    def __init__(self, number: int, space: Schedule) -> None:
        if space.trace is None:
            raise TuneError("a sketch of the search space records no trace")
        whole = space.trace.simplified(remove_postproc=True)
        self.number = number
        self.trace = Trace(whole.insts)  # with all decisions open
        self.places = [i for i, inst in enumerate(whole.insts) if inst in whole.decisions]
        sampled = [whole.insts[place] for place in self.places]
        # Chances that do not depend on the program, or None.
        self.chances: list[list[float]] | None = None
        draws = [inst.step for inst in sampled if is_step(inst, SampleCategorical)]
        if len(draws) == len(sampled):
            self.chances = [[float(chance) for chance in draw.probs] for draw in draws]

    def drawn(self, seed: int) -> Origin | None:
        """The decisions that a replay with this seed draws, if they can be known without it."""
        if self.chances is None:
            return None
        engine = RandomEngine(seed)
        return self.number, tuple(engine.discrete(chances) for chances in self.chances)

    def origin(self, trace: Trace) -> Origin | None:
        """The decisions of a trace that consists of the steps of this sketch; None: one is open."""
        decisions = [trace.decisions.get(trace.insts[place]) for place in self.places]
        if any(decision is None for decision in decisions):
            return None
        return self.number, tuple(_frozen(decision) for decision in decisions)


def _frozen(decision: object) -> Hashable:
    return tuple(decision) if isinstance(decision, list) else decision


def same_steps(one: Trace, other: Trace) -> bool:
    """True when `other` has the very steps of `one`, as far as it goes before post-processing."""
    length = len(other.insts)
    if length > len(one.insts) or not all(map(_is, one.insts, other.insts)):
        return False
    return length == len(one.insts) or one.insts[length].step.is_postproc


def _is(one: object, other: object) -> bool:
    return one is other


class DraftCache:
    """The drafts that were made or asked for last."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._drafts: OrderedDict[Origin, Draft] = OrderedDict()

    def get(self, origin: Origin | None) -> Draft | None:
        """The draft with these decisions."""
        if origin is None or origin not in self._drafts:
            return None
        self._drafts.move_to_end(origin)
        return self._drafts[origin]

    def put(self, origin: Origin | None, draft: Draft) -> None:
        """Keep a draft; the one that was not asked for longest goes."""
        if origin is None:
            return
        self._drafts[origin] = draft
        self._drafts.move_to_end(origin)
        while len(self._drafts) > self.capacity:
            self._drafts.popitem(last=False)

"""Makes drafts of traces: replayed, post-processed, hashed. Failures are counted, never fatal.

A draft is known by the decisions that its sketch left open. Comparing those costs microseconds
where making a draft costs milliseconds, so drafts that were made before need not be made again.
"""

from __future__ import annotations

import logging
import operator
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from tilewright.errors import ScheduleError, TuneError
from tilewright.ir import IRModule, structural_hash
from tilewright.records import MeasureCandidate, TensorInfo
from tilewright.schedule import PrimitiveError, Schedule, Trace
from tilewright.schedule.primitives.sample_categorical import SampleCategorical
from tilewright.schedule.trace.instruction import is_step
from tilewright.schedule.trace.random import RandomEngine
from tilewright.search.shared_starts import SharedStarts
from tilewright.space.base import Postproc
from tilewright.support.member_failures import SKIPPED, MemberFailures


@dataclass
class SearchStatistics:
    """Counts over the whole search; the difference of two is what happened in between."""

    proposed: int = 0  # drafts that the search thought of
    legal: int = 0  # drafts that every post-processor accepted
    sent: int = 0  # drafts sent to be measured
    duplicates: int = 0  # legal drafts that equal one known or measured already
    replay_failures: Counter[str] = field(default_factory=Counter)  # by cause
    rejected: Counter[str] = field(default_factory=Counter)  # by post-processor
    postproc_failures: Counter[str] = field(default_factory=Counter)  # by post-processor and cause
    mutator_refusals: Counter[str] = field(default_factory=Counter)  # nothing to change, by mutator
    mutator_failures: Counter[str] = field(default_factory=Counter)  # by mutator and cause
    other_failures: Counter[str] = field(default_factory=Counter)  # generator, cost model, database

    def copy(self) -> SearchStatistics:
        """The counts as they are now."""
        return SearchStatistics.from_json(self.as_json())

    def since(self, before: SearchStatistics) -> SearchStatistics:
        """What was counted since `before`."""
        result = SearchStatistics()
        for item in fields(self):
            now, then = getattr(self, item.name), getattr(before, item.name)
            setattr(result, item.name, now - then)
        return result

    def reasons(self) -> dict[str, int]:
        """Why drafts were not sent, the commonest reason first."""
        causes: Counter[str] = Counter()
        causes.update({f"replay: {cause}": n for cause, n in self.replay_failures.items()})
        causes.update({f"rejected by {name}": n for name, n in self.rejected.items()})
        causes.update({f"post-processor {why}": n for why, n in self.postproc_failures.items()})
        causes.update({"duplicate": self.duplicates} if self.duplicates else {})
        return dict(causes.most_common())

    def summary(self, postprocs: Sequence[Postproc]) -> str:
        """A line a post-processor, and one a cause of other failures."""
        lines = []
        for number, postproc in enumerate(postprocs):
            name = type(postproc).__name__
            causes = self.postproc_failures.items()  # each begins with its member
            total = self.rejected[name] + sum(n for why, n in causes if why.split(":")[0] == name)
            lines.append(f"Postproc #{number} [{name}]: {total} failure(s)")
        for cause, count in self.replay_failures.most_common():
            lines.append(f"Replay [{cause}]: {count} failure(s)")
        for cause, count in self.mutator_failures.most_common():
            lines.append(f"Mutator [{cause}]: {count} failure(s)")
        return "\n".join(lines)

    def as_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            item.name: dict(value) if isinstance(value, Counter) else value
            for item in fields(self)
            for value in (getattr(self, item.name),)
        }

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> SearchStatistics:
        """Read back what `as_json` wrote."""
        result = SearchStatistics()
        for item in fields(result):
            value = values.get(item.name, 0)
            is_counter = isinstance(getattr(result, item.name), Counter)
            setattr(result, item.name, Counter(value or {}) if is_counter else int(value))
        return result


Origin = tuple[int, tuple[Hashable, ...]]  # the number of a sketch, and all its decisions


class Sketch:
    """A sketch of the search space."""

    def __init__(self, number: int, space: Schedule) -> None:
        if space.trace is None:
            raise TuneError("a sketch of the search space records no trace")
        whole = space.trace.simplified(remove_postproc=True)
        self.number = number
        self.space = space
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
        frozen = (tuple(each) if isinstance(each, list) else each for each in decisions)
        return self.number, tuple(frozen)


def same_steps(one: Trace, other: Trace) -> bool:
    """True when `other` has the very steps of `one`, as far as it goes before post-processing."""
    length = len(other.insts)
    if length > len(one.insts) or not all(map(operator.is_, one.insts, other.insts)):
        return False
    return length == len(one.insts) or one.insts[length].step.is_postproc


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


_CACHED_DRAFTS = 512


class Draft:
    """A finished program that might be measured."""

    __slots__ = ("candidate", "score", "shash", "sketch")

    def __init__(self, sch: Schedule, args_info: tuple[TensorInfo, ...]) -> None:
        self.shash = structural_hash(sch.mod)
        self.candidate = MeasureCandidate(sch, args_info, self.shash)
        self.score: float | None = None  # None: no model has seen it
        self.sketch: Sketch | None = None  # None: unknown

    @property
    def trace(self) -> Trace:
        """The steps that made the program."""
        trace = self.candidate.sch.trace
        assert trace is not None
        return trace


@dataclass(eq=False)
class Replayer:
    """Makes drafts of one program."""

    mod: IRModule
    args_info: tuple[TensorInfo, ...]
    postprocs: Sequence[Postproc]
    statistics: SearchStatistics
    logger: logging.Logger
    failures: MemberFailures = field(default_factory=MemberFailures)

    def __post_init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()  # who and why, once logged
        self._cache = DraftCache(_CACHED_DRAFTS)
        self._starts = SharedStarts(self.mod)

    def draw(self, sketch: Sketch, seed: int) -> Draft | None:
        """A random draft of a sketch."""
        origin = sketch.drawn(seed)
        known = self._cached(origin)
        return known or self._kept(self.replay(sketch.trace, seed), sketch, origin)

    def mutate(self, parent: Draft, trace: Trace, seed: int) -> Draft | None:
        """The draft of a trace that a mutator made of another draft's."""
        sketch = parent.sketch
        if sketch is None or not same_steps(parent.trace, trace):
            return self.replay(trace, seed)
        origin = sketch.origin(trace)
        known = self._cached(origin)
        return known or self._kept(self.replay(trace, seed), sketch, origin)

    def _cached(self, origin: Origin | None) -> Draft | None:
        draft = self._cache.get(origin)
        if draft is not None:
            self.statistics.proposed += 1
            self.statistics.legal += 1
        return draft

    def _kept(self, draft: Draft | None, sketch: Sketch, origin: Origin | None) -> Draft | None:
        if draft is not None:
            draft.sketch = sketch
            self._cache.put(origin, draft)
            # Decisions that did not fit were repaired on the way.
            self._cache.put(sketch.origin(draft.trace), draft)
        return draft

    def replay(self, trace: Trace, seed: int) -> Draft | None:
        """The draft that a trace leads to; open decisions are drawn with the seed."""
        return self._applied(lambda: self._starts.replay(trace, seed))

    def replay_json(self, trace: object) -> Draft | None:
        """The draft of a trace in JSON form whose decisions are all taken."""

        def make() -> Schedule:
            sch = Schedule(self.mod, seed=1, error_render_level="fast")
            Trace.apply_json_to_schedule(trace, sch)
            return sch

        return self._applied(make)

    def _applied(self, make: Callable[[], Schedule]) -> Draft | None:
        try:
            sch = make()
        except Exception as error:
            self.statistics.proposed += 1
            self.failed(self.statistics.replay_failures, error)
            return None
        return self.finish(sch)

    def finish(self, sch: Schedule) -> Draft | None:
        """The draft that a schedule becomes, which is changed."""
        self.statistics.proposed += 1
        sch.enter_postproc()
        for postproc in self.postprocs:
            if not self._accepts(postproc, sch):
                return None
        self.statistics.legal += 1
        return Draft(sch, self.args_info)

    def _accepts(self, postproc: Postproc, sch: Schedule) -> bool:
        try:
            accepted = bool(postproc.apply(sch))
        except Exception as error:
            self.failed(self.statistics.postproc_failures, error, "post-processor", postproc)
            return False
        if not accepted:
            self.statistics.rejected[type(postproc).__name__] += 1
        return accepted

    def failed(
        self, counter: Counter[str], error: Exception, what: str = "", member: object = None
    ) -> None:
        """Count an exception under its cause; the first of each cause is logged.

        That a primitive cannot be applied says something about a candidate. Everything else that
        comes from code of the user's own is a bug there.
        """
        who = "" if member is None else type(member).__name__
        if not isinstance(error, ScheduleError):
            self.failures.take(f"{what} {who}" if who else "a replay", error, member)
        cause = cause_of(error)
        key = f"{who}: {cause}" if who else cause
        counter[key] += 1
        if (who, cause) not in self._seen:
            self._seen.add((who, cause))
            self.logger.warning(
                f"%s failed with %s: %s; {SKIPPED}",
                who or "a replay",
                type(error).__name__,
                error,
            )


def cause_of(error: Exception) -> str:
    """A short name for why something failed: primitives add which of them it was."""
    name = type(error).__name__
    if isinstance(error, PrimitiveError) and error.primitive:
        return f"{error.primitive}: {name}"
    return name

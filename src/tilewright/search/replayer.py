"""Makes drafts of traces: replayed, post-processed, hashed. Failures are counted, never fatal."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from tilewright.errors import ScheduleError
from tilewright.ir import IRModule, structural_hash
from tilewright.records import MeasureCandidate, TensorInfo
from tilewright.schedule import PrimitiveError, Schedule, Trace
from tilewright.search.sketch import DraftCache, Origin, Sketch, same_steps
from tilewright.search.statistics import SearchStatistics
from tilewright.space.base import Postproc
from tilewright.support.member_failures import MemberFailures

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


class Replayer:
    """Makes drafts of one program."""

    def __init__(
        self,
        mod: IRModule,
        args_info: tuple[TensorInfo, ...],
        postprocs: Sequence[Postproc],
        statistics: SearchStatistics,
        logger: logging.Logger,
        failures: MemberFailures | None = None,
    ) -> None:
        self.failures = failures or MemberFailures()
        self.mod = mod
        self.args_info = args_info
        self.postprocs = postprocs
        self.statistics = statistics
        self.logger = logger
        self._seen: set[tuple[str, str]] = set()  # who and why, once logged
        self._cache = DraftCache(_CACHED_DRAFTS)

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
        apply = partial(trace.apply_to_schedule, remove_postproc=True, is_final=True)
        return self._applied(apply, seed)

    def replay_json(self, trace: object) -> Draft | None:
        """The draft of a trace in JSON form whose decisions are all taken."""
        return self._applied(partial(Trace.apply_json_to_schedule, trace), seed=1)

    def _applied(self, apply: Callable[[Schedule], object], seed: int) -> Draft | None:
        # Nobody reads most of the errors; the first of each kind is rendered when it is logged.
        sch = Schedule(self.mod, seed=seed, error_render_level="fast")
        try:
            apply(sch)
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
                "%s failed with %s: %s; it is skipped, and others like it without a word",
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

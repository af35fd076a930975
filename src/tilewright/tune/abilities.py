"""Abilities that members of a run may have; the tuner asks for them with `isinstance`.

Every member can do without: a runner that cannot measure again has no finals, a strategy that does
not count its drafts has a shorter funnel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Protocol, TypeVar, runtime_checkable

from tilewright.cost_model.quality import RankingQuality
from tilewright.measure.node_work import NodeWork
from tilewright.records import BuilderFuture, BuilderInput, RunnerInput, RunnerResults
from tilewright.search.base import MeasuredRecords
from tilewright.search.replayer import SearchStatistics
from tilewright.support.plugins import Family

MemberT = TypeVar("MemberT")


@runtime_checkable
class Warmable(Protocol):
    """A builder or runner that can start its workers while something else is being done."""

    def warm_up(self) -> None: ...


@runtime_checkable
class Closable(Protocol):
    """A builder or runner that holds workers or files until it is closed."""

    def close(self) -> None: ...


@runtime_checkable
class BuildsAhead(Protocol):
    """A builder that can begin with candidates while the search chooses others."""

    def begin(self, build_input: BuilderInput) -> BuilderFuture | None: ...


@runtime_checkable
class Distributed(Protocol):
    """A builder or runner whose work is done on several machines."""

    def node_work(self) -> Sequence[NodeWork]: ...


@runtime_checkable
class Rematchable(Protocol):
    """A runner that can measure contenders against each other, in turns."""

    def measure_again(self, runner_inputs: Sequence[RunnerInput], rounds: int) -> RunnerResults: ...


@runtime_checkable
class Forewarned(Protocol):
    """A runner that need not time what is clearly slower than the best of earlier runs."""

    def notify_best(self, reference_path: str, secs: float) -> None: ...


@runtime_checkable
class Predicting(Protocol):
    """A strategy that knows what the model said of the candidates that it proposed last."""

    @property
    def predictions(self) -> Sequence[float | None]: ...


@runtime_checkable
class Counting(Protocol):
    """A strategy that counts what becomes of its drafts."""

    statistics: SearchStatistics


@runtime_checkable
class TakesRecords(Protocol):
    """A strategy that need not read the records of its task again."""

    def take_records(self, records: MeasuredRecords) -> None: ...


@runtime_checkable
class Configured(Protocol):
    """A strategy that tells the settings that make it another search."""

    def settings(self) -> Mapping[str, object]: ...


@runtime_checkable
class SelfRating(Protocol):
    """A cost model that says how well it had ranked the candidates of the last round."""

    @property
    def last_quality(self) -> RankingQuality | None: ...


def make_member(
    given: MemberT | str, family: Family[MemberT], closing: ExitStack, **options: object
) -> MemberT:
    """A builder or a runner by name, closed at the end; one that was given stays open."""
    if not isinstance(given, str):
        return given
    made = family.create(given, **options)
    if isinstance(made, Closable):
        closing.callback(made.close)
    return made

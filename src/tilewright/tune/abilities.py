"""Abilities that members of a run may have, and what the tuner does with those that have them.

Every member can do without: a runner that cannot measure again has no finals, a strategy that does
not count its drafts has a shorter funnel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Protocol, TypeVar, runtime_checkable

from tilewright.cost_model.quality import RankingQuality
from tilewright.records import RunnerInput, RunnerResult
from tilewright.search.base import MeasuredRecords
from tilewright.search.statistics import SearchStatistics
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
class Rematchable(Protocol):
    """A runner that can measure contenders against each other, in turns."""

    def measure_again(
        self, runner_inputs: Sequence[RunnerInput], rounds: int
    ) -> Sequence[RunnerResult]: ...


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


def warm_up(*members: object) -> None:
    """Let workers start."""
    for member in members:
        if isinstance(member, Warmable):
            member.warm_up()


def as_rematchable(runner: object) -> Rematchable | None:
    """The runner, if it can measure again."""
    return runner if isinstance(runner, Rematchable) else None


def notify_best(runner: object, reference_path: str, secs: float | None) -> None:
    """Tell a runner how fast the best candidate of earlier runs is."""
    if secs is not None and isinstance(runner, Forewarned):
        runner.notify_best(reference_path, secs)


def predictions_of(strategy: object) -> Sequence[float | None] | None:
    """The predictions for the candidates proposed last; None if one is missing."""
    scored = strategy.predictions if isinstance(strategy, Predicting) else [None]
    return None if any(score is None for score in scored) else list(scored)


def statistics_of(strategy: object) -> SearchStatistics | None:
    """The counts of a strategy."""
    found = strategy.statistics if isinstance(strategy, Counting) else None
    return found if isinstance(found, SearchStatistics) else None


def hand_records(strategy: object, records: MeasuredRecords | None) -> None:
    """Give a strategy the records of its task that were read already."""
    if records is not None and isinstance(strategy, TakesRecords):
        strategy.take_records(records)


def settings_of(strategy: object) -> Mapping[str, object] | None:
    """The settings of a strategy."""
    return strategy.settings() if isinstance(strategy, Configured) else None


def quality_of(model: object) -> RankingQuality | None:
    """The quality of a model's last ranking."""
    return model.last_quality if isinstance(model, SelfRating) else None

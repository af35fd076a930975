"""Events of a tuning run, for observers that show it: tables, reports, tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tilewright.support.member_failures import to_stderr

if TYPE_CHECKING:
    from tilewright.cost_model.quality import RankingQuality
    from tilewright.tune.task import Funnel, TaskRecord


@dataclass(frozen=True)
class TuningStarted:
    """All tasks have a space, but for those that need none; nothing is measured yet.

    `trials` and `reused` of a task that goes on from an earlier run are not 0.
    """

    tasks: Sequence[TaskRecord]
    max_trials: int
    budget_secs: float | None


@dataclass(frozen=True)
class PhaseChanged:
    """A task is being searched, its candidates built or run, or its best compared again.

    "zero-search" comes after Ctrl-C, for tasks that have no result yet.
    """

    task_id: int
    phase: str  # "search", "build", "run", "final" or "zero-search"
    candidates: int


@dataclass(frozen=True)
class RoundMeasured:
    """A round of a task is done, its records are committed."""

    task_id: int
    trials: int
    elapsed_secs: float
    quality: RankingQuality | None = None  # how well the cost model had ranked the candidates
    funnel: Funnel | None = None  # how far they got; None: the round was cut short


@dataclass(frozen=True)
class NodeSeen:
    """A machine of a cluster and its work so far; told after each round."""

    node: str
    phase: str  # "build" or "run"
    devices: int
    done: int  # tasks
    busy_secs: float  # of all its devices


@dataclass(frozen=True)
class MemberFailed:
    """A member of the user's own raised an exception, and the run goes on; told once a cause."""

    message: str  # who, why, and the user's lines


@dataclass(frozen=True)
class TaskFinished:
    """A task gets no more trials, while others may; not for tasks that end with the run."""

    task_id: int
    reason: str


@dataclass(frozen=True)
class TuningFinished:
    """The end, however it came about: "done", "budget", "interrupted" or "failed"."""

    reason: str
    elapsed_secs: float


Event: TypeAlias = (
    TuningStarted
    | PhaseChanged
    | RoundMeasured
    | NodeSeen
    | MemberFailed
    | TaskFinished
    | TuningFinished
)
Observer: TypeAlias = Callable[[Event], object]


def show_failures(event: Event) -> None:
    """The observer of a run that shows nothing else: exceptions in the user's own code."""
    if isinstance(event, MemberFailed):
        to_stderr(event.message)

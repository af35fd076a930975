"""What happens while tuning, for whoever wants to show it: tables, reports, tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tilewright.tune.task import TaskRecord


@dataclass(frozen=True)
class TuningStarted:
    """All tasks have a space; nothing is measured yet."""

    tasks: Sequence[TaskRecord]
    max_trials: int
    budget_secs: float | None


@dataclass(frozen=True)
class PhaseChanged:
    """A task is being searched, built or run."""

    task_id: int
    phase: str  # "search", "build" or "run"
    candidates: int


@dataclass(frozen=True)
class RoundMeasured:
    """A round of a task is done, its records are committed."""

    task_id: int
    trials: int
    elapsed_secs: float


@dataclass(frozen=True)
class TaskFinished:
    """A task gets no more trials."""

    task_id: int
    reason: str


@dataclass(frozen=True)
class TuningFinished:
    """The end, however it came about: "done", "budget", "interrupted"."""

    reason: str
    elapsed_secs: float


Event: TypeAlias = TuningStarted | PhaseChanged | RoundMeasured | TaskFinished | TuningFinished
Observer: TypeAlias = Callable[[Event], object]

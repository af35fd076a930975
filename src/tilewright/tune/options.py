"""`TuneOptions`: the options that `tune_tir` and `tune_tasks` share, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.cost_model.base import CostModel
from tilewright.database import Database
from tilewright.errors import TuneError
from tilewright.measure import Builder, Runner
from tilewright.tune.callbacks import MeasureCallback

UNLIMITED_TRIALS = 1_000_000
# Small rounds, so that the search learns early; large ones once it knows enough.
_ROUNDS = 4
_SMALLEST_ROUND, _LARGEST_ROUND, _ROUND_OF_BUDGET = 8, 64, 16


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """The members of a run, as the caller gave them, and its limits.

    Whichever limit is reached first ends tuning, or the tuning of a task.
    """

    max_trials_global: int | None = None
    max_trials_per_task: int | None = None
    num_trials_per_iter: int | None = None
    budget_secs: float | None = None
    plateau_trials: int | None = None  # a task without a gain for so long is done
    work_dir: str | Path | None = None
    builder: Builder | str = "local"
    runner: Runner | str = "local"
    database: Database | str | Path = "sqlite"
    cost_model: CostModel | str | None = "gbdt"
    measure_callbacks: Sequence[MeasureCallback] | MeasureCallback | str = "default"
    module_equality: str = "structural"
    check: bool = True  # compare results with those of the untransformed program
    keep_going: bool = False  # after an exception in a member of the user's own
    console: bool = True

    def __post_init__(self) -> None:
        if self.max_trials_global is None and self.budget_secs is None:
            raise TuneError("say how long to tune: max_trials_global, budget_secs, or both")
        for name in _LIMITS:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise TuneError(f"{name} must be positive, got {value}")
        if isinstance(self.measure_callbacks, str) and self.measure_callbacks != "default":
            given = self.measure_callbacks
            raise TuneError(f"measure_callbacks is a list or 'default', got {given!r}")

    @property
    def trials(self) -> int:
        """The trials of all tasks together."""
        return self.max_trials_global or UNLIMITED_TRIALS

    @property
    def task_trials(self) -> int:
        """The trials of each task."""
        return self.max_trials_per_task or self.trials

    @property
    def round_trials(self) -> int:
        """The candidates of a round."""
        if self.num_trials_per_iter is not None:
            return self.num_trials_per_iter
        if self.max_trials_global is None:
            return _ROUND_OF_BUDGET
        return min(_LARGEST_ROUND, max(_SMALLEST_ROUND, self.max_trials_global // _ROUNDS))


_LIMITS = (
    "max_trials_global",
    "max_trials_per_task",
    "num_trials_per_iter",
    "budget_secs",
    "plateau_trials",
)

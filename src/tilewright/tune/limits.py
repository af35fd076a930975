"""When tuning ends."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Whichever is reached first ends tuning, or the tuning of a task."""

    max_trials_global: int
    max_trials_per_task: int
    num_trials_per_iter: int
    budget_secs: float | None = None
    plateau_trials: int | None = None  # a task without a gain for so long is done

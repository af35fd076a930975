"""Limits of `tilewright tune`: what it was asked for, and when its search ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing as closing_at_end, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.cli.arguments import DEFAULT_DATABASE
from tilewright.cli.early_interrupt import EarlyInterrupt
from tilewright.cli.models import ModelOptions
from tilewright.errors import TuneError
from tilewright.fleet.ray_builder import RayBuilder
from tilewright.fleet.ray_runner import RayRunner
from tilewright.support.suggestions import did_you_mean
from tilewright.target import Target
from tilewright.tune.budget import parse_seconds
from tilewright.tune.events import Event, TuningStarted

_LARGEST_SEED = (1 << 32) - 1  # NumPy's


@dataclass(frozen=True)
class Effort:
    """How many trials a task gets, and after how many without a gain it ends."""

    trials: int
    plateau: int | None


# Without a search there are no trials: the schedule is calculated.
EFFORTS = {
    "none": Effort(0, None),
    "fast": Effort(64, None),
    "normal": Effort(256, 128),
    "max": Effort(2048, None),
}


@dataclass(frozen=True)
class TuneCommand:
    """What the user asked for."""

    programs: Sequence[str]
    budget: str | None = None
    trials: int | None = None
    effort: str = "normal"
    db: str | None = None
    seed: int | None = None
    target: str = "llvm"
    as_json: bool = False
    profile: bool = False
    space: str = "tilewright"
    keep_going: bool = False
    bound: bool = False
    interrupt: EarlyInterrupt = field(default_factory=EarlyInterrupt)  # that came while it started
    model: ModelOptions = field(default_factory=ModelOptions)  # these two for models
    output: Path | None = None
    cost_model: Path | None = None  # one that was trained before
    on: str | None = None  # a cluster: "ray", or its address

    def deliver(self, event: Event) -> None:
        """End a search as it begins if the user has asked for that before."""
        if isinstance(event, TuningStarted):
            self.interrupt.deliver()

    def search_options(self, limits: RunLimits) -> dict[str, Any]:
        """What `tune_tir` and the tuning of models have in common."""
        return {
            "work_dir": DEFAULT_DATABASE.parent if self.db is None else None,  # where logs go
            "max_trials_global": limits.trials,
            "plateau_trials": limits.plateau,
            "space": self.space,
            "seed": self.seed,
            "console": False,
            "keep_going": self.keep_going,
        }

    @contextmanager
    def members(self, target: Target) -> Iterator[dict[str, Any]]:
        """The members of the search that the user chose, as options of `tune_tir`."""
        chosen: dict[str, Any] = {}
        if self.cost_model is not None:
            from tilewright.dataset.pretrain import load_pretrained  # with all that datasets need

            chosen["cost_model"] = load_pretrained(self.cost_model)
        with ExitStack() as closing:
            if self.on is not None:
                builder = closing.enter_context(closing_at_end(RayBuilder(self.on)))
                runner = closing.enter_context(closing_at_end(RayRunner(self.on, target=target)))
                runner.require_device()
                chosen |= {"builder": builder, "runner": runner}
            yield chosen


@dataclass(frozen=True)
class RunLimits:
    """When a run ends."""

    trials: int | None
    budget_secs: float | None
    plateau: int | None


def limits_of(options: TuneCommand, tasks: int) -> RunLimits:
    """When a run of `tasks` tasks ends."""
    if options.effort not in EFFORTS:
        hint = did_you_mean(options.effort, EFFORTS)
        raise TuneError(f"--effort {options.effort}: there is no such effort{hint}")
    if options.trials is not None and options.trials < 1:
        raise TuneError(f"--trials {options.trials}: expected at least 1")
    if options.seed is not None and not 0 <= options.seed <= _LARGEST_SEED:
        raise TuneError(f"--seed {options.seed}: expected a number from 0 to {_LARGEST_SEED}")
    if options.cost_model is not None and not options.cost_model.is_file():
        raise TuneError(f"--cost-model {options.cost_model}: there is no such file")
    budget = None if options.budget is None else parse_seconds(options.budget, "--budget")
    effort = EFFORTS[options.effort]
    if options.trials is not None:
        return RunLimits(options.trials, budget, None)
    if budget is not None:
        return RunLimits(None, budget, None)
    return RunLimits(effort.trials * tasks, None, effort.plateau)

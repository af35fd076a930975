"""The funnel of a round: how many candidates were proposed, legal, built, ran, were correct."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.database import Database
from tilewright.records import BuilderResult, FailureKind, RunnerResult

if TYPE_CHECKING:
    from tilewright.tune.task import TaskRecord

PROPOSED, LEGAL, BUILT, RAN, CORRECT = "proposed", "legal", "built", "ran", "correct"
NOT_CHOSEN = "others promised more"
NOT_CHECKED = "too slow to be checked"
_WRONG = (FailureKind.WRONG_RESULT, FailureKind.IMPOSSIBLE_SPEED)


@dataclass
class FunnelStage:
    """A stage, how many reached it, and why the others did not."""

    name: str
    count: int = 0
    losses: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        reasons = ", ".join(f"{number} {why}" for why, number in self.losses.most_common())
        return f"{self.count} {self.name}" + (f" ({reasons})" if reasons else "")


@dataclass
class Funnel:
    """The stages of a round, in order."""

    stages: list[FunnelStage]

    def __str__(self) -> str:
        return " -> ".join(map(str, self.stages))


def funnel_of(
    task: TaskRecord, built: Sequence[BuilderResult], results: Sequence[RunnerResult]
) -> Funnel:
    """The funnel of the round that was measured last."""
    drafts = task.search.new_drafts(task.ctx.search_strategy, len(results))
    proposed, legal = FunnelStage(PROPOSED, drafts.proposed), FunnelStage(LEGAL, drafts.legal)
    legal.losses.update(drafts.reasons())
    legal.losses.pop("duplicate", None)
    compiled, ran, correct = FunnelStage(BUILT), FunnelStage(RAN), FunnelStage(CORRECT)
    not_chosen = drafts.legal - drafts.duplicates - len(results)
    compiled.losses.update({"duplicate": drafts.duplicates, NOT_CHOSEN: max(0, not_chosen)})
    is_checking = any(result.checked for result in results)
    for built_one, result in zip(built, results, strict=True):
        _place(built_one, result, is_checking, (compiled, ran, correct))
    stages = [proposed, legal, compiled, ran, correct]
    for stage in stages:
        stage.losses += Counter()  # forgets those that count nothing
    return Funnel(stages)


def _place(
    built: BuilderResult,
    result: RunnerResult,
    is_checking: bool,
    stages: tuple[FunnelStage, FunnelStage, FunnelStage],
) -> None:
    """Count a candidate in the stages it reached, and in the one it did not reach."""
    compiled, ran, correct = stages
    failure = result.failure or (None if result.run_secs else FailureKind.RUN_ERROR)
    if built.error_msg is not None or failure is FailureKind.BUILD_ERROR:
        compiled.losses[(failure or FailureKind.BUILD_ERROR).value] += 1
        return
    compiled.count += 1
    if failure is not None and failure not in _WRONG:
        ran.losses[failure.value] += 1
        return
    ran.count += 1
    if failure is not None:
        correct.losses[failure.value] += 1
    elif is_checking and not result.checked:
        correct.losses[NOT_CHECKED] += 1
    else:
        correct.count += 1


def keep_funnel(funnel: Funnel, task: TaskRecord, database: Database) -> None:
    """Write the counts of a round into the history of its run."""
    if task.run is None:
        return
    for stage in funnel.stages:
        place = (task.run, task.ctx.task_name, task.round.number, stage.name)
        database.history.set_count(*place, stage.count)
        for reason, number in stage.losses.items():
            database.history.set_count(*place, number, reason)

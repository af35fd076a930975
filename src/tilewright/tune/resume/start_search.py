"""Starts the search of a task, or lets it go on where an earlier call stopped.

A cost model is then trained again, in the order in which it had learned when the search stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tilewright.cost_model.base import CostModel
from tilewright.errors import MachineError, TilewrightError
from tilewright.records import PLAIN, MeasureCandidate, RunnerResult, TuningRecord
from tilewright.tune.abilities import TakesRecords
from tilewright.tune.checks import left_alone
from tilewright.tune.logs import log_space
from tilewright.tune.session import TuningSession
from tilewright.tune.task import TaskRecord


def start_search(task: TaskRecord, session: TuningSession) -> None:
    """Make the sketches of a task and let its strategy begin, or go on."""
    task.search.sketches = task.ctx.generate_design_space()
    log_space(task)
    task.note(left_alone(task.mod), session.logger)
    _pre_tuning(task, session)
    if not task.search.saved:
        task.counts.restored = 0
        return
    strategy = task.ctx.search_strategy
    assert strategy is not None
    try:
        strategy.load_state_dict(task.search.saved)
    except MachineError:
        raise
    except Exception as error:
        if not isinstance(error, TilewrightError):
            task.ctx.failures.take("search strategy " + type(strategy).__name__, error, strategy)
        session.logger.warning("the search starts anew: %s", error)
        strategy.post_tuning()
        _pre_tuning(task, session)
        task.counts.restored = 0  # no round is incomplete


def _pre_tuning(task: TaskRecord, session: TuningSession) -> None:
    options, policy = session.options, session.policy
    strategy: object = task.ctx.search_strategy
    if task.records is not None and isinstance(strategy, TakesRecords):
        strategy.take_records(task.records)
    task.ctx.pre_tuning(
        options.task_trials,
        options.round_trials,
        task.search.sketches,
        policy.database,
        policy.cost_model,
    )
    task.search.is_running = True


Failed = Callable[[Exception], object]  # called if a model cannot learn


def retrain(model: CostModel, tasks: Sequence[TaskRecord], failed: Failed) -> None:
    """Tell a model about the complete rounds of searches that go on."""
    rounds = [(task, records) for task in tasks for records in _rounds_of(task)]
    for task, records in sorted(rounds, key=lambda pair: _elapsed(pair[1][0])):
        try:
            model.update(task.ctx, *_replayed(sorted(records, key=_trial)))
        except Exception as error:
            failed(error)
            break


def _elapsed(record: TuningRecord) -> float:
    return float(record.extra.get("elapsed", 0.0))


def _trial(record: TuningRecord) -> int:
    return int(record.extra.get("trial", 0))


def _rounds_of(task: TaskRecord) -> Iterable[list[TuningRecord]]:
    """The records that a model was told about after each round."""
    if not task.counts.rounds or task.records is None:
        return []
    rounds: dict[int, list[TuningRecord]] = {}
    for record in task.records.earlier:
        number = record.extra.get("round")
        is_own = record.extra.get("seed") == task.seed and record.baseline != PLAIN
        if not is_own or not isinstance(number, int) or not record.extra.get("built", True):
            continue
        if number < task.counts.rounds:
            rounds.setdefault(number, []).append(record)
    return rounds.values()


def _replayed(records: Sequence[TuningRecord]) -> tuple[list[MeasureCandidate], list[RunnerResult]]:
    """The candidates of records, and their results before a final corrected them."""
    candidates, results = [], []
    for record in records:
        candidate = record.as_candidate_or_none()
        if candidate is not None:
            candidates.append(candidate)
            results.append(record.as_made().as_result())
    return candidates, results

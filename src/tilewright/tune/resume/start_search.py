"""Starts the search of a task, or lets it go on where an earlier call stopped."""

from __future__ import annotations

from tilewright.errors import MachineError, TilewrightError
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

"""The beginning of a search: its space, its strategy, and where an earlier call stopped."""

from __future__ import annotations

import logging

from tilewright.cost_model.base import CostModel
from tilewright.database import Database
from tilewright.errors import MachineError, TilewrightError
from tilewright.tune.left_alone import left_alone
from tilewright.tune.limits import Limits
from tilewright.tune.task import TaskRecord
from tilewright.tune.trial_log import log_space


def begin_search(
    task: TaskRecord,
    limits: Limits,
    database: Database | None,
    cost_model: CostModel | None,
    logger: logging.Logger,
) -> None:
    """Make the sketches of a task and let its strategy begin, or go on."""
    task.sketches = task.ctx.generate_design_space()
    log_space(task)
    assert task.ctx.mod is not None
    task.note(left_alone(task.ctx.mod), logger)
    _pre_tuning(task, limits, database, cost_model)
    if not task.search_state:
        task.begun = 0
        return
    strategy = task.ctx.search_strategy
    assert strategy is not None
    try:
        strategy.load_state_dict(task.search_state)
    except MachineError:
        raise
    except Exception as error:
        if not isinstance(error, TilewrightError):
            task.ctx.failures.take("search strategy " + type(strategy).__name__, error, strategy)
        logger.warning("the search starts anew: %s", error)
        strategy.post_tuning()
        _pre_tuning(task, limits, database, cost_model)
        task.begun = 0


def _pre_tuning(
    task: TaskRecord, limits: Limits, database: Database | None, cost_model: CostModel | None
) -> None:
    task.ctx.pre_tuning(
        limits.max_trials_per_task,
        limits.num_trials_per_iter,
        task.sketches,
        database,
        cost_model,
    )
    task.is_searching = True

"""The run that a tuning call is in the history of a database; a resumed one goes on as itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.database import Database
from tilewright.tune.task import TaskRecord

FINISHED, INTERRUPTED, FAILED = "finished", "interrupted", "failed"


def begin_run(tasks: Sequence[TaskRecord], database: Database, options: Mapping[str, Any]) -> int:
    """The number of the run of these tasks."""
    earlier = {task.run for task in tasks}
    (run,) = earlier if len(earlier) == 1 else (None,)
    if run is None or not database.history.resume_run(run):
        first = tasks[0]
        run = database.history.begin_run(
            ", ".join(task.ctx.task_name for task in tasks),
            target=str(first.ctx.target),
            seed=first.seed if first.asked_seed is None else first.asked_seed,
            options=options,
        )
    for task in tasks:
        task.run = run
    return run

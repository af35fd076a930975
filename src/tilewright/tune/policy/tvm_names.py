"""Members that schedulers written for TVM call and read.

TVM measures a round while it looks for the next task; here a round is over when the next task is
asked for. So nothing is ever running that would have to be joined.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tilewright.cost_model.base import CostModel
from tilewright.database import Database
from tilewright.records import RunnerResult
from tilewright.tune.callbacks import MeasureCallback
from tilewright.tune.tables import statistics_table
from tilewright.tune.task import TaskRecord


class TVMNames:
    """The attributes of a scheduler, with the underscores that TVM gives them."""

    logger: logging.Logger
    tasks: list[TaskRecord]
    database: Database | None
    cost_model: CostModel | None
    measure_callbacks: list[MeasureCallback]

    @property
    def tasks_(self) -> list[TaskRecord]:
        """All tasks."""
        return self.tasks

    @property
    def remaining_tasks_(self) -> int:
        """How many tasks are not finished."""
        return sum(not task.is_terminated for task in self.tasks)

    @property
    def database_(self) -> Database | None:
        """Where the records go."""
        return self.database

    @property
    def cost_model_(self) -> CostModel | None:
        """What candidates are chosen by."""
        return self.cost_model

    @property
    def measure_callbacks_(self) -> list[MeasureCallback]:
        """What is called after each round."""
        return self.measure_callbacks

    def touch_task(self, task_id: int) -> None:
        """Join what is running of a task if it is done: nothing is running."""

    def join_running_task(self, task_id: int) -> Sequence[RunnerResult]:
        """The results of the last round of a task; called once after each round."""
        return self.tasks[task_id].runner_results

    def print_tuning_statistics(self) -> None:
        """Log the table of all tasks."""
        self.logger.info("\n%s", statistics_table(self.tasks))

"""`RoundRobin`: one task after the other, again and again."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.tune.policy.base import TaskScheduler, task_schedulers


@task_schedulers.register("round-robin")
@dataclass
class RoundRobin(TaskScheduler):
    """Every task that is not finished gets a round in turn."""

    _last: int = field(default=-1, init=False)

    def next_task_id(self) -> int:
        for step in range(1, len(self.tasks) + 1):
            task_id = (self._last + step) % len(self.tasks)
            if not self.tasks[task_id].is_terminated:
                self._last = task_id
                return task_id
        return -1

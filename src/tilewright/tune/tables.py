"""The table of all tasks that tuning logs after every round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.tune.text_table import text_table

if TYPE_CHECKING:
    from tilewright.tune.task import TaskRecord

COLUMNS = (
    "ID",
    "Name",
    "FLOP",
    "Weight",
    "Speed (GFLOPS)",
    "Latency (us)",
    "Weighted Latency (us)",
    "Trials",
    "Done",
)


def statistics_table(tasks: Sequence[TaskRecord]) -> str:
    """One row a task, then the totals of those that have a result."""
    rows: list[list[object]] = []
    trials, latency = 0, 0.0
    for number, task in enumerate(tasks):
        micros = None if task.best_secs is None else task.best_secs * 1e6
        speed: list[object] = ["N/A", "N/A", "N/A"]
        if micros is not None:
            speed = [task.flop / micros / 1e3, micros, micros * task.task_weight]
            trials += task.trials
            latency += micros * task.task_weight
        done = "Y" if task.is_terminated else ""
        fixed: list[object] = [number, task.ctx.task_name, int(task.flop), int(task.task_weight)]
        rows.append([*fixed, *speed, task.trials, done])
    totals = f"Total trials: {trials}\nTotal latency (us): {latency:g}"
    return f"{text_table(COLUMNS, rows)}\n{totals}"

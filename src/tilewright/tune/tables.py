"""Plain tables, in the layout that logs of MetaSchedule have, and the one of all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

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


def text_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Right-aligned cells between bars; fractions with four decimals."""
    lines = [list(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    texts = ["|".join(f" {c:>{w}} " for c, w in zip(line, widths, strict=True)) for line in lines]
    dashes = "-" * (sum(widths) + 3 * len(widths) - 1)
    return "\n".join([texts[0], dashes, *texts[1:]])


def _cell(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)

"""The best kernels of all tasks on the rooflines of their targets."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.database import Database
from tilewright.model.finals import StepComparison
from tilewright.records import args_info_of
from tilewright.report.collect import TaskSummary
from tilewright.report.model_page import roofline_figure
from tilewright.report.roofline import bytes_of, known_peaks
from tilewright.target import Target


def task_rooflines(tasks: Iterable[TaskSummary], database: Database) -> str:
    """A figure for each target that has measured kernels."""
    groups: dict[str, tuple[Target, list[TaskSummary]]] = {}
    for task in tasks:
        target = None if task.best is None else task.best.target
        if target is not None and task.best_secs is not None:
            groups.setdefault(str(target), (target, []))[1].append(task)
    return "".join(_figure(target, group, database) for target, group in groups.values())


def _figure(target: Target, tasks: list[TaskSummary], database: Database) -> str:
    mods = [task.workload.mod for task in tasks]
    dtypes = {info.dtype for mod in mods for info in args_info_of(mod)}
    steps = [_comparison(task) for task in tasks]
    shown = roofline_figure(steps, known_peaks(database, target, sorted(dtypes)))
    return shown.replace("<h3>Roofline</h3>", f"<h3>Roofline of {tasks[0].target}</h3>", 1)


def _comparison(task: TaskSummary) -> StepComparison:
    calculated, best = task.zero_search_secs or 0.0, task.best_secs or 0.0
    return StepComparison(task.title, (), task.flop, bytes_of(task.workload.mod), calculated, best)

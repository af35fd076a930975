"""A snapshot in plain values, for scripts."""

from __future__ import annotations

from tilewright.database.record_ids import record_id
from tilewright.report.collect import TaskSummary
from tilewright.serve.overview import number_of_pages, shown_tasks
from tilewright.serve.snapshot import Snapshot


def state_of(snapshot: Snapshot, number: int = 1) -> dict[str, object]:
    """Everything that the first page shows, or a later one where there are many tasks."""
    return {
        "version": snapshot.version,
        "database": snapshot.source,
        "records": snapshot.records,
        "page": number,
        "pages": number_of_pages(len(snapshot.totals)),
        "tasks": [_task(key, task) for key, task in shown_tasks(snapshot, number).items()],
        "causes": snapshot.causes,
        "nodes": list(snapshot.live.nodes.values()),
        "going_on": snapshot.live.going_on,
        "runs": snapshot.runs,
    }


def _task(key: str, task: TaskSummary) -> dict[str, object]:
    return {
        "name": key,
        "title": task.title,
        "target": task.target,
        "best_secs": task.best_secs,
        "record": None if task.best is None else record_id(task.best),
        "plain_secs": task.plain_secs,
        "share_of_roofline": task.share,
        "trials": task.records,
        "failures": {kind.value: n for kind, n in task.causes.items()},
        "best_so_far": task.course.best,  # places of trials, from 1, and seconds
    }

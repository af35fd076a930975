"""A snapshot in plain values, for scripts."""

from __future__ import annotations

from tilewright.database import best_so_far, failures_by_cause
from tilewright.database.record_ids import record_id
from tilewright.report.collect import TaskSummary
from tilewright.serve.overview import candidates_by_cause
from tilewright.serve.snapshot import Snapshot


def state_of(snapshot: Snapshot) -> dict[str, object]:
    """Everything that the first page shows."""
    return {
        "version": snapshot.version,
        "database": snapshot.source,
        "records": snapshot.records,
        "tasks": [_task(key, task) for key, task in snapshot.tasks.items()],
        "causes": candidates_by_cause(snapshot.tasks.values()),
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
        "trials": len(task.trials),
        "failures": {kind.value: n for kind, n in failures_by_cause(task.trials).items()},
        "best_so_far": best_so_far(task.trials),
    }

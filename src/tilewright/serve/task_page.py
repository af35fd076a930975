"""The page of one task: its curve, causes, predictions, and its candidates to be explored."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tilewright.database.record_ids import record_id
from tilewright.records import TuningRecord
from tilewright.report.collect import TaskSummary
from tilewright.report.html_parts import table
from tilewright.report.page import figures_of_merit, task_figures
from tilewright.report.units import percent, seconds
from tilewright.serve.layout import live, page
from tilewright.serve.snapshot import Snapshot
from tilewright.support.text import counted

_FAILED = 10
_FAST_HEADER = ("record", "time", "of the best", "found in", "checked")
_FAILED_HEADER = ("record", "cause", "message")


def task_page(name: str, snapshot: Snapshot) -> str:
    """The page."""
    task = snapshot.summary(name)
    body = (
        f"<h1>{escape(task.title)}</h1><p class=sub>{escape(task.target)} · "
        f"{task.flop:,.0f} FLOP</p>"
        f"{live('merit', figures_of_merit(task) + _explore(task))}"
        f"{live('figures', task_figures(task))}"
        f"{live('candidates', _candidates(name, task, snapshot))}"
    )
    return page(task.title, body, snapshot)


def _explore(task: TaskSummary) -> str:
    if task.best is None:
        return ""
    return f'<p><a href="/record/{record_id(task.best)}">Explore the best schedule</a></p>'


def _candidates(name: str, task: TaskSummary, snapshot: Snapshot) -> str:
    valid, failed = snapshot.tasks.fastest(name), snapshot.tasks.failed(name, _FAILED)
    parts = [
        f"<h2>Fastest candidates</h2>{_fast_table(valid)}" if valid else "",
        f"<h2>Failed candidates</h2>{_failed_table(failed)}" if failed else "",
    ]
    left = task.records - len(valid) - len(failed)
    more = f"<p class=sub>{counted(left, 'more candidate')} in the database</p>" if left else ""
    return "".join([*parts, more])


def _fast_table(records: Sequence[TuningRecord]) -> str:
    best = records[0].mean_secs
    rows = [
        (
            _link(record),
            seconds(record.mean_secs),
            percent(best / record.mean_secs) if record.mean_secs else "-",
            escape(_found_in(record)),
            "yes" if record.extra.get("checked") else "no",
        )
        for record in records
    ]
    return table(_FAST_HEADER, rows)


def _failed_table(records: Sequence[TuningRecord]) -> str:
    rows = [
        (
            _link(record),
            escape("" if record.failure is None else record.failure.value.replace("_", " ")),
            escape((record.error_msg or "-").strip().splitlines()[-1][:200]),
        )
        for record in records
    ]
    return table(_FAILED_HEADER, rows)


def _link(record: TuningRecord) -> str:
    name = record_id(record)
    return f'<a href="/record/{name}"><code>{name}</code></a>'


def _found_in(record: TuningRecord) -> str:
    if record.baseline is not None:
        return {"plain": "as it was given", "zero-search": "without a search"}[record.baseline]
    extra = record.extra
    known = [f"{key} {extra[key]}" for key in ("run", "trial") if key in extra]
    return ", ".join(known) or "-"

"""Two runs side by side: what each found for the tasks that both had, and how soon."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tilewright.database import Run, Trial
from tilewright.database.base import speed_order
from tilewright.records import TuningRecord
from tilewright.report.charts import compared_chart
from tilewright.report.collect import TaskSummary
from tilewright.report.html_parts import figure, table
from tilewright.report.units import seconds
from tilewright.serve.layout import live, page
from tilewright.serve.snapshot import Snapshot
from tilewright.sharing.intervals import ratio_of


def compare_page(snapshot: Snapshot, first: int | None, second: int | None) -> str:
    """The page; runs that are not named are the last two that have a task in common."""
    runs = snapshot.runs
    if not runs:
        return page("Compare runs", "<h1>Compare runs</h1><p>No run yet.</p>", snapshot, "/compare")
    before, last = _last_pair(snapshot)
    one, other = snapshot.run(first or 0) or before, snapshot.run(second or 0) or last
    body = (
        f"<h1>Compare runs</h1>{_form(runs, one, other)}"
        f"{live('comparison', _comparison(snapshot, one, other))}"
    )
    return page("Compare runs", body, snapshot, "/compare")


def _last_pair(snapshot: Snapshot) -> tuple[Run, Run]:
    tasks = snapshot.tasks.values()
    shared = [sorted({trial.run for trial in task.trials if trial.run}) for task in tasks]
    pairs = [(numbers[-1], numbers[-2]) for numbers in shared if len(numbers) > 1]
    known = [snapshot.run(number) for number in reversed(max(pairs, default=()))]
    last = snapshot.runs[-1]
    before, after = known or (last, last)
    return before or last, after or last


def _form(runs: Sequence[Run], one: Run, other: Run) -> str:
    return (
        '<form class="choose" action="/compare">'
        f"{_select('a', 'first', runs, one)}{_select('b', 'second', runs, other)}"
        "<button>Compare</button></form>"
    )


def _select(name: str, label: str, runs: Sequence[Run], chosen: Run) -> str:
    options = "".join(
        f'<option value="{run.id}"{" selected" if run is chosen else ""}>'
        f"{run.id}: {escape(run.name[:60])}</option>"
        for run in runs
    )
    return f'<label>The {label} run <select name="{name}">{options}</select></label>'


def _comparison(snapshot: Snapshot, one: Run, other: Run) -> str:
    rows, figures = [], []
    names = [f"run {run.id}" for run in (one, other)]
    caption = f"blue: {names[0]}, red: {names[1]}"
    for key, task in snapshot.tasks.items():
        trials = [_trials_of(task, run) for run in (one, other)]
        if not any(trials):
            continue
        best = [_best_of(task, run) for run in (one, other)]
        rows.append(
            (
                f'<a href="/task/{key}">{escape(task.title)}</a>',
                *(seconds(None if each is None else each.mean_secs) for each in best),
                *_ratio(*best),
                *(str(len(each)) for each in trials),
                *(str(sum(t.mean_secs is None for t in each)) for each in trials),
            )
        )
        figures.append(figure(compared_chart(trials, names), escape(task.title), caption))
    if not rows:
        return "<p>Neither run has trials in this database.</p>"
    shown = table(_header(one, other), rows)
    return f'{shown}<div class="figures">{"".join(figures)}</div>'


def _ratio(before: TuningRecord | None, after: TuningRecord | None) -> tuple[str, str]:
    """The ratio of two times with its interval, and what follows from it."""
    times = [(each.plain_secs or []) if each is not None else [] for each in (before, after)]
    if not all(secs and min(secs) > 0 for secs in times):
        return "-", "-"
    ratio = ratio_of(times[1], times[0])
    return str(ratio), "not known" if ratio.low is None else f"<b>{ratio.verdict}</b>"


def _header(one: Run, other: Run) -> tuple[str, ...]:
    a, b = f"run {one.id}", f"run {other.id}"
    return (
        "task", f"best, {a}", f"best, {b}", f"{b} / {a}", f"{b} is", f"trials, {a}", f"trials, {b}",
        f"failed, {a}", f"failed, {b}",
    )  # fmt: skip


def _trials_of(task: TaskSummary, run: Run) -> list[Trial]:
    return [trial for trial in task.trials if trial.run == run.id]


def _best_of(task: TaskSummary, run: Run) -> TuningRecord | None:
    own = (each for each in task.records if each.is_valid and each.extra.get("run") == run.id)
    return min(own, key=speed_order, default=None)

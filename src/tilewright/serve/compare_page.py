"""Two runs side by side: what each found for the tasks that both had, and how soon."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tilewright.database import Run, Trial, best_so_far
from tilewright.report.charts import compared_chart
from tilewright.report.collect import TaskSummary
from tilewright.report.html_parts import figure, table
from tilewright.report.units import seconds, speed_up
from tilewright.serve.layout import live, page
from tilewright.serve.snapshot import Snapshot


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
    for key, task in snapshot.tasks.items():
        trials = [_trials_of(task, run) for run in (one, other)]
        if not any(trials):
            continue
        best = [_best(each) for each in trials]
        rows.append(
            (
                f'<a href="/task/{key}">{escape(task.title)}</a>',
                seconds(best[0]),
                seconds(best[1]),
                f"<b>{speed_up(best[0], best[1])}</b>",
                *(str(len(each)) for each in trials),
                *(str(sum(t.mean_secs is None for t in each)) for each in trials),
            )
        )
        names = [f"run {run.id}" for run in (one, other)]
        caption = f"blue: {names[0]}, red: {names[1]}"
        figures.append(figure(compared_chart(trials, names), escape(task.title), caption))
    if not rows:
        return "<p>Neither run has trials in this database.</p>"
    shown = table(_header(one, other), rows)
    return f'{shown}<div class="figures">{"".join(figures)}</div>'


def _header(one: Run, other: Run) -> tuple[str, ...]:
    a, b = f"run {one.id}", f"run {other.id}"
    return (
        "task", f"best, {a}", f"best, {b}", f"speed-up of {b}", f"trials, {a}", f"trials, {b}",
        f"failed, {a}", f"failed, {b}",
    )  # fmt: skip


def _trials_of(task: TaskSummary, run: Run) -> list[Trial]:
    return [trial for trial in task.trials if trial.run == run.id]


def _best(trials: Sequence[Trial]) -> float | None:
    curve = best_so_far(trials)
    return curve[-1][1] if curve else None

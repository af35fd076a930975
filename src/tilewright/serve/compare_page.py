"""Two runs side by side: what each found for the tasks that both had, and how soon."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tilewright.database import Run
from tilewright.database.base import ALL, speed_order
from tilewright.database.task_queries import RunTask
from tilewright.records import TuningRecord
from tilewright.report.charts import compared_chart
from tilewright.report.course import Course
from tilewright.report.html_parts import figure, table
from tilewright.report.units import seconds
from tilewright.serve.layout import live, page
from tilewright.serve.snapshot import Snapshot
from tilewright.sharing.intervals import ratio_of
from tilewright.support.text import counted

_MOST_TASKS = 50  # that are shown
_CORRECTED = 16  # the fastest trials are those that finals measure again


def compare_page(snapshot: Snapshot, first: int | None, second: int | None) -> str:
    """The page; runs that are not named are the last two that have a task in common."""
    runs = snapshot.runs
    if not runs:
        return page("Compare runs", "<h1>Compare runs</h1><p>No run yet.</p>", snapshot, "/compare")
    if len(runs) == 1:
        told = f"<h1>Compare runs</h1><p>Run {runs[0].id} is the only one so far.</p>"
        return page("Compare runs", told, snapshot, "/compare")
    before, last = _last_pair(snapshot)
    one, other = snapshot.run(first or 0) or before, snapshot.run(second or 0) or last
    body = (
        f"<h1>Compare runs</h1>{_form(runs, one, other)}"
        f"{live('comparison', _comparison(snapshot, one, other))}"
    )
    return page("Compare runs", body, snapshot, "/compare")


def _last_pair(snapshot: Snapshot) -> tuple[Run, Run]:
    """The last run, and the last before it that had one of its tasks."""
    last = snapshot.runs[-1]
    for run in reversed(snapshot.runs):
        tasks = {each.task for each in snapshot.tasks.in_run(run.id)}
        earlier = (other for other in reversed(snapshot.runs) if other.id < run.id)
        for other in earlier:
            if tasks & {each.task for each in snapshot.tasks.in_run(other.id)}:
                return other, run
    return last, last


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
    tasks = _tasks_of(snapshot, one, other)
    for key, places in list(tasks.items())[:_MOST_TASKS]:
        title = escape(snapshot.summary(key).title)
        courses = [_course(snapshot, place) for place in places]
        best = [_best_of(snapshot, place) for place in places]
        rows.append(
            (
                f'<a href="/task/{key}">{title}</a>',
                *(seconds(None if each is None else each.mean_secs) for each in best),
                *_ratio(*best),
                *(str(course.trials) for course in courses),
                *(str(course.failed) for course in courses),
            )
        )
        figures.append(figure(compared_chart(courses, names), title, caption))
    if not rows:
        return "<p>Neither run has trials in this database.</p>"
    left = len(tasks) - len(rows)
    more = f"<p class=sub>{counted(left, 'more task')} of these runs</p>" if left else ""
    return f'{table(_header(one, other), rows)}{more}<div class="figures">{"".join(figures)}</div>'


def _tasks_of(
    snapshot: Snapshot, one: Run, other: Run
) -> dict[str, tuple[RunTask | None, RunTask | None]]:
    """The tasks of two runs, those that both have first."""
    first, second = ({t.task: t for t in snapshot.tasks.in_run(run.id)} for run in (one, other))
    names = [name for name in snapshot.totals if name in first or name in second]
    names.sort(key=lambda name: name not in first or name not in second)
    return {name: (first.get(name), second.get(name)) for name in names}


def _course(snapshot: Snapshot, place: RunTask | None) -> Course:
    if place is None:
        return Course(0)
    history = snapshot.tasks.database.history
    return Course.of(enumerate(history.course(place.run, place.label)))


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


def _best_of(snapshot: Snapshot, place: RunTask | None) -> TuningRecord | None:
    """The fastest record of a task in a run; what a trial took may have been corrected since."""
    if place is None:
        return None
    database = snapshot.tasks.database
    trials = database.history.best_trials(place.run, place.label, _CORRECTED)
    known = [trial.record_id for trial in trials if trial.record_id is not None]
    if known:
        found = database.tasks.numbered(known)
    else:  # this kind of database does not number its records
        found = database.tasks.fastest(snapshot.totals[place.task], ALL)
    own = (each for each in found if each.is_valid and each.extra.get("run") == place.run)
    return min(own, key=speed_order, default=None)

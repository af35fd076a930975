"""The first page: all tasks with their latency falling, causes, rooflines, nodes and runs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from html import escape

from tilewright.errors import StoredDataError
from tilewright.report.charts import falling_latency
from tilewright.report.collect import TaskSummary
from tilewright.report.html_parts import table
from tilewright.report.page import runs_table
from tilewright.report.task_rooflines import task_rooflines
from tilewright.report.units import gflops, percent, seconds, speed_up
from tilewright.serve.layout import ago, live, page, share_bar
from tilewright.serve.live_runs import PHASES, LiveRun, NodeLoad
from tilewright.serve.snapshot import MOST_RUNS, Snapshot
from tilewright.support.text import counted

_TASK_HEADER = (
    "task", "latency falling", "best", "speed-up", "GFLOPS", "of roofline", "trials", "failed",
    "state",
)  # fmt: skip


TASKS = 50  # of a page
_RUNS = 20  # the last ones


def overview(snapshot: Snapshot, number: int = 1) -> str:
    """The page; of many tasks some."""
    number = min(number, number_of_pages(len(snapshot.totals)))
    shown = shown_tasks(snapshot, number)
    about = (
        f"{escape(snapshot.source)} · {counted(snapshot.records, 'record')} · "
        f"{counted(len(snapshot.totals), 'task')} · {_number_of_runs(snapshot)}"
    )
    parts = [
        f"<h1>Tuning</h1>{live('about', about, 'p')}",
        live("now", _now(snapshot, shown)),
        live("tasks", f"<h2>Tasks</h2>{_tasks(snapshot, shown, number)}"),
        '<div class="two">',
        live("causes", f"<h2>What became of the candidates</h2>{_causes(snapshot)}"),
        live("rooflines", _rooflines(snapshot, shown)),
        "</div>",
        live("nodes", f"<h2>Nodes</h2>{_nodes(snapshot)}"),
        live("runs", f"<h2>Runs</h2>{_runs(snapshot)}"),
    ]
    return page("Tuning", "".join(parts), snapshot, "/")


def _number_of_runs(snapshot: Snapshot) -> str:
    number = counted(len(snapshot.runs), "run")
    return f"{number} and more" if len(snapshot.runs) == MOST_RUNS else number


def shown_tasks(snapshot: Snapshot, number: int) -> dict[str, TaskSummary]:
    """The tasks of a page; those whose program cannot be read are left out."""
    start = (number - 1) * TASKS
    found = {}
    for name in list(snapshot.totals)[start : start + TASKS]:
        with contextlib.suppress(StoredDataError):
            found[name] = snapshot.summary(name)
    return found


def _now(snapshot: Snapshot, shown: Mapping[str, TaskSummary]) -> str:
    best = [task.best_secs for task in snapshot.totals.values() if task.best_secs is not None]
    going = snapshot.live.going_on
    most = going[-1].max_trials if going else None
    wanted = f"{most:,} planned in this run" if most is not None and most < 10**6 else ""
    failed = percent(snapshot.failed / snapshot.records) if snapshot.records else ""
    over = "over the program as given"
    if len(shown) < len(snapshot.totals):
        over = "of the tasks shown"
    cards = [
        ("tasks with a kernel", f"{len(best):,}", f"of {len(snapshot.totals):,}"),
        ("speed-up, mean", _mean_speed_up(shown.values()), over),
        ("trials", f"{snapshot.records:,}", wanted),
        ("failed", f"{snapshot.failed:,}", failed),
    ]
    return '<dl class="cards">{}</dl>'.format(
        "".join(
            f"<div><dt>{name}</dt><dd>{value} <small>{note}</small></dd></div>"
            for name, value, note in cards
        )
    )


def _mean_speed_up(tasks: Iterable[TaskSummary]) -> str:
    """The geometric mean, of tasks whose plain program was measured."""
    pairs = [(task.plain_secs, task.best_secs) for task in tasks]
    factors = [before / after for before, after in pairs if before and after]
    product = 1.0
    for factor in factors:
        product *= factor ** (1 / len(factors))
    return speed_up(product, 1.0) if factors else "-"


# --- tasks --------------------------------------------------------------------------------------


def _tasks(snapshot: Snapshot, shown: Mapping[str, TaskSummary], number: int) -> str:
    if not shown:
        return "<p>There are no records in this database yet.</p>"
    phases = _phases(snapshot.live.going_on)
    rows = [_task_row(key, task, phases) for key, task in shown.items()]
    pages = _pages(len(snapshot.totals), number)
    return f'{pages}<div class="scroll">{table(_TASK_HEADER, rows)}</div>{pages}'


def _pages(tasks: int, number: int) -> str:
    """Links to the pages before and after; nothing where there is one page only."""
    last = number_of_pages(tasks)
    if last == 1:
        return ""
    first = (number - 1) * TASKS + 1
    where = f"tasks {first:,} to {min(tasks, first + TASKS - 1):,} of {tasks:,}"
    links = [
        f'<a href="/?page={to}">{name}</a>'
        for name, to in (("first", 1), ("before", number - 1), ("next", number + 1), ("last", last))
        if 1 <= to <= last and to != number
    ]
    return f'<p class="pages">{where} · {" ".join(links)}</p>'


def number_of_pages(tasks: int) -> int:
    """How many pages it takes to show all tasks."""
    return max(1, -(-tasks // TASKS))


def _task_row(key: str, task: TaskSummary, phases: dict[str, str]) -> tuple[str, ...]:
    labels = task.labels or ("main",)
    phase = next((phases[label] for label in labels if label in phases), "")
    return (
        f'<a href="/task/{key}">{escape(task.title)}</a><small>{escape(task.target)}</small>',
        falling_latency(task.course),
        seconds(task.best_secs),
        speed_up(task.plain_secs, task.best_secs),
        gflops(task.flop, task.best_secs),
        percent(task.share),
        f"{task.records:,}",
        f"{task.failed:,}",
        f'<span class="phase {escape(phase)}">{escape(phase)}</span>',
    )


def _phases(runs: Iterable[LiveRun]) -> dict[str, str]:
    return {
        run.tasks[number]: phase
        for run in runs
        for number, phase in run.phases.items()
        if number < len(run.tasks)
    }


# --- causes -------------------------------------------------------------------------------------


def _causes(snapshot: Snapshot) -> str:
    causes = snapshot.causes
    longest = max(causes.values(), default=0) or 1
    rows = [
        (
            escape(cause.replace("_", " ")),
            f"{number:,}",
            share_bar(number / longest, str(number), _style(cause)),
        )
        for cause, number in sorted(causes.items(), key=lambda item: (_rank(item[0]), -item[1]))
        if number
    ]
    return table(("cause", "candidates", ""), rows) if rows else "<p>No candidate yet.</p>"


_HARMLESS = ("duplicate", "others promised more", "too slow to be checked")


def _rank(cause: str) -> int:
    """Those that were measured come first, failures then, and what is no failure last."""
    return 0 if cause == "measured" else 2 if cause in _HARMLESS else 1


def _style(cause: str) -> str:
    return ("bar", "bar bad", "bar next")[_rank(cause)]


# --- rooflines, nodes, runs ---------------------------------------------------------------------


def _rooflines(snapshot: Snapshot, shown: Mapping[str, TaskSummary]) -> str:
    figures = task_rooflines(shown.values(), snapshot.tasks.database)
    return f'<h2>Kernels on the roofline</h2><div class="figures">{figures}</div>'


def _nodes(snapshot: Snapshot) -> str:
    if not snapshot.live.nodes:
        return "<p>No node has reported: no tuner has written events to this database.</p>"
    runs = snapshot.live.going_on
    doing = {
        node.name: "measures" for node in snapshot.live.nodes.values() if node.devices and runs
    }
    doing |= {run.node: run.doing or "between rounds" for run in runs}
    rows = [_node_row(node, doing) for node in snapshot.live.nodes.values()]
    return table(("node", "load", "doing", *PHASES, "trials", "heard of"), rows)


def _node_row(node: NodeLoad, doing: dict[str, str]) -> tuple[str, ...]:
    total = sum(node.seconds.values()) or 1.0
    shares = [node.seconds.get(phase, 0.0) / total for phase in PHASES]
    return (
        f"{escape(node.name)}{_devices(node)}",
        _load_bar(node),
        escape(doing.get(node.name, "idle")),
        *map(percent, shares),
        f"{node.trials:,}",
        ago(time.time() - node.last),
    )


def _devices(node: NodeLoad) -> str:
    known = [f"{number} to {phase}" for phase, number in node.devices.items()]
    return f"<small>{', '.join(known)}</small>" if known else ""


_FULL = 2.0  # processes a core: measurements suffer long before


def _load_bar(node: NodeLoad) -> str:
    load = node.load or 0.0
    told = f"{load:.2f} of its devices" if node.devices else f"{load:.2f} a core"
    bar = share_bar(load / _FULL, told, "bar bad" if load > 1.5 else "bar")
    return f"{bar}<small>{told}</small>"


def _runs(snapshot: Snapshot) -> str:
    if not snapshot.runs:
        return "<p>No run yet.</p>"
    shown = runs_table(reversed(snapshot.runs[-_RUNS:]))
    if len(snapshot.runs) < 2:
        return shown
    earlier = "" if len(snapshot.runs) <= _RUNS else ", also earlier ones"
    return f'{shown}<p><a href="/compare">Compare two runs</a>{earlier}</p>'

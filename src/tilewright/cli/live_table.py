"""Displays of a tuning run: a live table on a screen, plain lines in a pipe, JSON on demand."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text
from typing_extensions import Self

from tilewright.cli.console import may_redraw, print_json
from tilewright.cli.progress import DONE, Progress, TaskState
from tilewright.cli.tables import make_table
from tilewright.report.roofline import Peaks
from tilewright.report.units import duration, gflops, percent, seconds
from tilewright.support.text import counted
from tilewright.tune import events

HEADER = ("op", "shape", "best", "GFLOPS", "of roofline", "trials", "phase")
_MOST_ROWS = 30
_BUSY = ("search", "build", "run", "final", "zero-search")


class Display:
    """An observer of a run that is switched on for its duration."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Most displays need no end."""

    def __call__(self, event: events.Event) -> None:
        self.progress(event)
        self._show(event)

    def _show(self, event: events.Event) -> None:
        """Show what an event has changed."""
        raise NotImplementedError


class LiveTable(Display):
    """One row a task, redrawn several times a second."""

    def __init__(self, console: Console, progress: Progress) -> None:
        super().__init__(progress)
        self._live = Live(self, console=console, refresh_per_second=4, vertical_overflow="ellipsis")

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def _show(self, event: events.Event) -> None:
        if isinstance(event, events.MemberFailed):
            self._live.console.print(event.message)
        self._live.refresh()

    def __rich__(self) -> RenderableType:
        below = [self.progress.last_round, status_line(self.progress)]
        table = table_of(self.progress, self._live.console.width)
        remarks = [Text(line, "dim", overflow="fold", no_wrap=False) for line in below if line]
        return Group(table, *remarks)


def table_of(progress: Progress, width: int) -> RenderableType:
    """All tasks; of many, those that are being worked on or not finished come first."""
    if not progress.tasks:
        return Text("generating the search space ...")
    shown = progress.tasks
    if len(shown) > _MOST_ROWS:
        shown = sorted(shown, key=lambda state: state.phase == DONE)[:_MOST_ROWS]
    busy = [number for number, state in enumerate(shown) if state.phase in _BUSY]
    table = make_table(HEADER, [_cells(state) for state in shown], width, busy)
    hidden = len(progress.tasks) - len(shown)
    return Group(table, Text(f"... and {hidden} more")) if hidden else table


def _cells(state: TaskState) -> tuple[str, ...]:
    task = state.task
    known = f" ({task.counts.reused} known)" if task.counts.reused else ""
    return (
        state.name,
        state.shape,
        seconds(task.best_secs),
        gflops(task.flop, task.best_secs),
        percent(state.share),
        f"{task.trials}{known}",
        state.phase,
    )


def status_line(progress: Progress) -> str:
    """Trials, time, what is left."""
    trials = counted(progress.trials, "trial")
    if progress.max_trials is not None:
        trials = f"{progress.trials} of {counted(progress.max_trials, 'trial')}"
    left = progress.remaining()
    budget = progress.budget_secs
    elapsed = duration(progress.elapsed)
    spent = elapsed if budget is None else f"{elapsed} of {duration(budget)}"
    if progress.reason is not None:
        return f"{trials}, {spent}"
    ends = f", about {duration(left)} left" if left else ""
    return f"{trials}, {spent}{ends}; Ctrl-C is safe"


class PlainLines(Display):
    """A line for each round; nothing is redrawn, so it can be kept in a file."""

    def __init__(self, console: Console, progress: Progress) -> None:
        super().__init__(progress)
        self._console = console

    def _show(self, event: events.Event) -> None:
        for line in self._lines(event):
            self._console.print(line)

    def _lines(self, event: events.Event) -> list[str]:
        progress = self.progress
        match event:
            case events.TuningStarted():
                return [_task_line(state) for state in progress.tasks]
            case events.RoundMeasured(task_id):
                name, shape, best, speed, share, trials, _ = _cells(progress.tasks[task_id])
                figures = f"best {best}, {speed} GFLOPS, {share} of roofline after {trials}"
                return [f"{name} {shape}: {figures}; {status_line(progress)}"]
            case events.TaskFinished(task_id, reason):
                return [f"{progress.tasks[task_id].name}: finished, {reason}"]
            case events.MemberFailed(message):
                return [message]
        return []


class JsonLines(Display):
    """One JSON object for each event."""

    def _show(self, event: events.Event) -> None:
        print_json(self._as_json(event))

    def _as_json(self, event: events.Event) -> dict[str, object]:
        tasks = self.progress.tasks
        match event:
            case events.TuningStarted(_, max_trials, budget_secs):
                named = [
                    {**_task_json(s), "sketches": len(s.task.search.sketches), "flop": s.task.flop}
                    for s in tasks
                ]
                limits = {"max_trials": max_trials, "budget_secs": budget_secs}
                return {"event": "tuning_started", **limits, "tasks": named}
            case events.PhaseChanged(task_id, phase, candidates):
                facts = {"phase": phase, "candidates": candidates}
                return {"event": "phase_changed", "task": tasks[task_id].name, **facts}
            case events.RoundMeasured(task_id):
                state = tasks[task_id]
                head = {"event": "round_measured", **_task_json(state)}
                return {**head, **_figures(state), **_round(event)}
            case events.NodeSeen():
                return {"event": "node_seen", **asdict(event)}
            case events.MemberFailed(message):
                return {"event": "member_failed", "message": message}
            case events.TaskFinished(task_id, reason):
                return {"event": "task_finished", "task": tasks[task_id].name, "reason": reason}
            case events.TuningFinished(reason, elapsed):
                return {"event": "tuning_finished", "reason": reason, "elapsed_secs": elapsed}


def _task_line(state: TaskState) -> str:
    """A task before its first round; one that needs no more trials has no sketches either."""
    sketches, known = len(state.task.search.sketches), state.task.counts.reused
    parts = [
        counted(sketches, "sketch", "sketches") if sketches else "",
        f"{counted(known, 'trial')} known from earlier runs" if known else "",
    ]
    return f"task {state.name}: {', '.join([state.shape, *filter(None, parts)])}"


def _round(event: events.RoundMeasured) -> dict[str, object]:
    stages = (
        None
        if event.funnel is None
        else [
            {"stage": stage.name, "count": stage.count, "losses": dict(stage.losses)}
            for stage in event.funnel.stages
        ]
    )
    return {
        "measured": event.trials,
        "elapsed_secs": event.elapsed_secs,
        "ranking": None if event.quality is None else asdict(event.quality),
        "funnel": stages,
    }


def _task_json(state: TaskState) -> dict[str, object]:
    return {"task": state.name, "shape": state.shape}


def _figures(state: TaskState) -> dict[str, object]:
    """The results of a task so far, as plain values."""
    task = state.task
    return {
        "best_secs": task.best_secs,
        "gflops": task.gflops,
        "share_of_roofline": state.share,
        "trials": task.trials,
        "reused": task.counts.reused,
        "failures": dict(task.counts.failures),
    }


def make_display(console: Console, peaks: Peaks | None = None, *, as_json: bool) -> Display:
    """The view that suits where the output goes."""
    progress = Progress(peaks=peaks)
    if as_json:
        return JsonLines(progress)
    return LiveTable(console, progress) if may_redraw(console) else PlainLines(console, progress)

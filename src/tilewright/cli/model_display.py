"""Displays of a model that is tuned: its latency as it falls, and the share of each task in it."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.text import Text

from tilewright.cli.console import may_redraw
from tilewright.cli.live_table import Display, JsonLines, LiveTable, PlainLines, status_line
from tilewright.cli.progress import DONE, Progress, TaskState
from tilewright.cli.tables import make_table
from tilewright.report.roofline import Peaks
from tilewright.report.units import percent, seconds
from tilewright.support.text import counted
from tilewright.tune import events
from tilewright.tune.task import FAILED_MS

HEADER = ("task", "runs", "best", "share", "speed-up", "of roofline", "trials", "phase")
_MOST_ROWS = 30


class ModelProgress(Progress):
    """Follows the tuning of a model."""

    def __call__(self, event: events.Event) -> None:
        if isinstance(event, events.TuningStarted):
            self._start = self._clock()  # preparing a model's tasks is not part of the budget
        super().__call__(event)

    @property
    def secs(self) -> float | None:
        """All kernels, each as often as it runs; None until each was measured."""
        return self._total(_secs)

    @property
    def calculated_secs(self) -> float | None:
        """The same with the schedules that were calculated, with which tuning began."""
        return self._total(_calculated_secs)

    def _total(self, secs_of: Callable[[TaskState], float | None]) -> float | None:
        """The sum; of rivals the model takes the fastest."""
        best: dict[object, float] = {}
        for state in self.tasks:
            secs, what = secs_of(state), state.task.computed
            if secs is not None:
                own = state.task.task_weight * secs
                best[what] = min(own, best.get(what, own))
        return sum(best.values()) if len(best) == self.parts else None

    @property
    def parts(self) -> int:
        """Different things that the model computes."""
        return len({state.task.computed for state in self.tasks})

    def is_ahead(self, state: TaskState) -> bool:
        """True unless one of its rivals is faster."""
        own, what = _secs(state), state.task.computed
        others = [_secs(s) for s in self.tasks if s.task.computed == what]
        return own is not None and own <= min(secs for secs in others if secs is not None)

    def share_in_model(self, state: TaskState) -> float | None:
        """How much of the model's latency is one task's; of rivals only the fastest has one."""
        known = [(_secs(s) or 0.0) * s.task.task_weight for s in self.tasks if self.is_ahead(s)]
        own = _secs(state)
        if own is None or not sum(known) or not self.is_ahead(state):
            return None
        return own * state.task.task_weight / sum(known)

    @property
    def measured_tasks(self) -> int:
        """Tasks of which a time is known."""
        return sum(_secs(state) is not None for state in self.tasks)


def _secs(state: TaskState) -> float | None:
    """The best that was measured, before that what a run of the model said."""
    return state.task.best_secs or state.task.expected_secs


def _calculated_secs(state: TaskState) -> float | None:
    """The first candidate of each task is the calculated schedule, the second its plain loops."""
    known = [ms for ms in state.task.counts.latency_ms[:2] if ms < FAILED_MS]
    return known[0] / 1e3 if known else state.task.expected_secs


def latency_line(progress: ModelProgress) -> str:
    """`model 12.1 ms, 1.3x faster than calculated`."""
    now, before = progress.secs, progress.calculated_secs
    if now is None:
        total = len(progress.tasks)
        return f"measuring what is calculated: {progress.measured_tasks} of {total} tasks"
    gain = f", {before / now:.2f}x faster than calculated ({seconds(before)})" if before else ""
    return f"model {seconds(now)}{gain}"


def _cells(progress: ModelProgress, state: TaskState) -> tuple[str, ...]:
    task, before = state.task, _calculated_secs(state)
    best = task.best_secs
    return (
        state.name,
        f"{task.task_weight:g}",
        seconds(best),
        percent(progress.share_in_model(state)),
        f"{before / best:.2f}x" if best and before else "-",
        percent(state.share),
        str(task.trials),
        state.phase,
    )


class ModelTable(LiveTable):
    """One row a task, those with the largest share first."""

    progress: ModelProgress

    def __rich__(self) -> RenderableType:
        progress, width = self.progress, self._live.console.width
        if not progress.tasks:
            return Text("generating the search spaces ...")
        by_share = sorted(progress.tasks, key=lambda s: -(progress.share_in_model(s) or 2.0))
        shown = by_share[:_MOST_ROWS]
        busy = [n for n, state in enumerate(shown) if state.phase not in ("waiting", DONE)]
        table = make_table(HEADER, [_cells(progress, state) for state in shown], width, busy)
        hidden = len(by_share) - len(shown)
        rest = [Text(f"... and {counted(hidden, 'smaller task')}")] if hidden else []
        below = [latency_line(progress), status_line(progress)]
        return Group(table, *rest, *(Text(line, "bold") for line in below))


class ModelLines(PlainLines):
    """A line for each round."""

    progress: ModelProgress

    def _lines(self, event: events.Event) -> list[str]:
        progress = self.progress
        match event:
            case events.TuningStarted():
                known = sum(state.task.counts.reused for state in progress.tasks)
                earlier = f", {counted(known, 'trial')} known from earlier runs" if known else ""
                return [f"{counted(len(progress.tasks), 'task')}{earlier}"]
            case events.RoundMeasured(task_id):
                cells = _cells(progress, progress.tasks[task_id])
                name, _, best, share, gain, _, trials, _ = cells
                spent = counted(int(trials), "trial")
                own = f"{name}: {best} ({gain}), {share} of the model after {spent}"
                return [f"{latency_line(progress)}; {own}; {status_line(progress)}"]
        return super()._lines(event)


class ModelJson(JsonLines):
    """One JSON object for each event, with the latency of the model."""

    progress: ModelProgress

    def _as_json(self, event: events.Event) -> dict[str, object]:
        found = super()._as_json(event)
        if isinstance(event, events.RoundMeasured):
            state = self.progress.tasks[event.task_id]
            found["model_secs"] = self.progress.secs
            found["share_in_model"] = self.progress.share_in_model(state)
        return found


def make_model_display(console: Console, peaks: Peaks | None = None, *, as_json: bool) -> Display:
    """The view that suits where the output goes."""
    progress = ModelProgress(peaks=peaks)
    if as_json:
        return ModelJson(progress)
    if may_redraw(console):
        return ModelTable(console, progress)
    return ModelLines(console, progress)

"""The pictures of a report: best so far, predicted against measured, the funnel, failures."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tilewright.database import Trial, failures_by_cause
from tilewright.report.collect import TaskSummary
from tilewright.report.predictions import predicted_places
from tilewright.report.svg import Axis, Plot, bars, sparkline
from tilewright.report.units import seconds


def best_so_far_chart(task: TaskSummary) -> str:
    """Every trial as a dot, the best so far as a line, over the trials of all runs."""
    measured = _measured(task.trials)
    if not measured:
        return ""
    times = [trial.mean_secs for _, trial in measured if trial.mean_secs is not None]
    least = shown_roofline(task)
    values = times if least is None else [*times, least]
    x = Axis.over([1, len(task.trials)], "trial")
    plot = Plot(x, Axis.over(values, "running time", log=True, text=seconds), "best so far")
    if least is not None:
        plot.horizontal(least, f"roofline {seconds(least)}")
    for place, label in _run_starts(task.trials):
        plot.vertical(place, label)
    for place, trial in measured:
        assert trial.mean_secs is not None
        plot.dot(place, trial.mean_secs, f"trial {place}: {seconds(trial.mean_secs)}")
    plot.line(_staircase(measured, len(task.trials)))
    return plot.svg()


def falling_latency(task: TaskSummary) -> str:
    """The best so far as a line that fits into a row of a table."""
    measured = _measured(task.trials)
    return sparkline(_staircase(measured, len(task.trials)), "best so far") if measured else ""


def compared_chart(runs: Sequence[Sequence[Trial]], names: Sequence[str]) -> str:
    """The best so far of two runs of one task, over their trials."""
    known = [(_measured(trials), len(trials)) for trials in runs]
    curves = [_staircase(measured, last) for measured, last in known if measured]
    if len(curves) < len(runs):
        return ""
    points = [point for curve in curves for point in curve]
    x = Axis.over([place for place, _ in points], "trial")
    y = Axis.over([secs for _, secs in points], "running time", log=True, text=seconds)
    plot = Plot(x, y, f"best so far: {' and '.join(names)}")
    for curve, style in zip(curves, ("line", "line other"), strict=True):
        plot.line(curve, style)
    return plot.svg()


def _measured(trials: Sequence[Trial]) -> list[tuple[int, Trial]]:
    """The trials that have a running time, with their places."""
    return [(place, each) for place, each in enumerate(trials, 1) if each.mean_secs is not None]


def shown_roofline(task: TaskSummary) -> float | None:
    """The roofline, if it is near enough not to squeeze everything else together."""
    if task.roofline is None or task.best_secs is None:
        return None
    least = task.roofline.seconds
    return least if least > task.best_secs / 20 else None


def _staircase(measured: Sequence[tuple[int, Trial]], last: int) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    for place, trial in measured:
        value = trial.mean_secs
        assert value is not None
        if points and value >= points[-1][1]:
            continue
        if points:
            points.append((place, points[-1][1]))
        points.append((place, value))
    return [*points, (last, points[-1][1])]


def _run_starts(trials: Sequence[Trial]) -> list[tuple[int, str]]:
    """Where a later run took over."""
    pairs = itertools.pairwise(trials)
    return [
        (place, f"run {after.run} begins")
        for place, (before, after) in enumerate(pairs, 2)
        if after.run != before.run
    ]


# --- predictions --------------------------------------------------------------------------------


def prediction_chart(task: TaskSummary) -> str:
    """What the cost model said of each candidate, and how fast the candidate was."""
    pairs = predicted_places(task.trials)
    if len(pairs) < 2:
        return ""
    plot = Plot(
        Axis.over([0.0, 1.0], "predicted place in its round, best = 1"),
        Axis.over([0.0, 1.0], "measured speed, best = 1"),
        "predicted against measured",
    )
    for place, speed in pairs:
        plot.dot(place, speed, f"predicted place {place:.2f}, measured {speed:.2f} of the best")
    return plot.svg()


# --- bars ---------------------------------------------------------------------------------------


def funnel_chart(task: TaskSummary) -> str:
    """How many candidates got how far."""
    first = task.funnel[0].count or 1
    rows = [
        (stage.name, float(stage.count), f"{stage.count}  ({100 * stage.count / first:.0f} %)")
        for stage in task.funnel
    ]
    return bars(rows, "funnel")


def failure_chart(task: TaskSummary) -> str:
    """Failed trials by cause."""
    causes = failures_by_cause(task.trials)
    rows = [(kind.value, float(number), str(number)) for kind, number in causes.items()]
    return bars(rows, "failures by cause", "bar bad") if rows else ""

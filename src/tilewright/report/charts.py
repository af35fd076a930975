"""The pictures of a report: best so far, predicted against measured, the funnel, failures."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.report.collect import TaskSummary
from tilewright.report.course import Course
from tilewright.report.predictions import predicted_places
from tilewright.report.svg import Axis, Plot, bars, sparkline
from tilewright.report.units import seconds


def best_so_far_chart(task: TaskSummary) -> str:
    """Every trial as a dot, the best so far as a line, over the trials of all runs."""
    course = task.course
    if not course.dots:
        return ""
    times = [secs for _, secs in (*course.dots, *course.best)]
    least = shown_roofline(task)
    values = times if least is None else [*times, least]
    x = Axis.over([1, course.trials], "trial")
    plot = Plot(x, Axis.over(values, "running time", log=True, text=seconds), "best so far")
    if least is not None:
        plot.horizontal(least, f"roofline {seconds(least)}")
    for place, run in course.runs:
        plot.vertical(place, f"run {run} begins")
    for place, secs in course.dots:
        plot.dot(place, secs, f"trial {place}: {seconds(secs)}")
    plot.line(list(course.staircase()))
    return plot.svg()


def falling_latency(course: Course) -> str:
    """The best so far as a line that fits into a row of a table."""
    return sparkline(list(course.staircase()), "best so far") if course.best else ""


def compared_chart(runs: Sequence[Course], names: Sequence[str]) -> str:
    """The best so far of two runs of one task, over their trials."""
    curves = [list(course.staircase()) for course in runs if course.best]
    if len(curves) < len(runs):
        return ""
    points = [point for curve in curves for point in curve]
    x = Axis.over([place for place, _ in points], "trial")
    y = Axis.over([secs for _, secs in points], "running time", log=True, text=seconds)
    plot = Plot(x, y, f"best so far: {' and '.join(names)}")
    for curve, name, look in zip(curves, names, ("", "other"), strict=True):
        plot.line(curve, f"line {look}".rstrip())
        place, secs = curve[-1]  # a search of one trial is no line
        plot.dot(place, secs, f"{name}: {seconds(secs)}", "dot old" if look else "dot")
    return plot.svg()


def shown_roofline(task: TaskSummary) -> float | None:
    """The roofline, if it is near enough not to squeeze everything else together."""
    if task.roofline is None or task.best_secs is None:
        return None
    least = task.roofline.seconds
    return least if least > task.best_secs / 20 else None


# --- predictions --------------------------------------------------------------------------------


def prediction_chart(task: TaskSummary) -> str:
    """What the cost model said of each candidate, and how fast the candidate was."""
    pairs = predicted_places(task.predicted)
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
    rows = [(kind.value, float(number), str(number)) for kind, number in task.causes.items()]
    return bars(rows, "failures by cause", "bar bad") if rows else ""

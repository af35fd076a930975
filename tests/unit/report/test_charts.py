"""Axes, marks and the pictures of a report."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from tilewright.database import Database, MemoryDatabase, Trial
from tilewright.records import FailureKind
from tilewright.report import charts
from tilewright.report.collect import collect
from tilewright.report.course import Course
from tilewright.report.predictions import (
    mean_rank_correlation,
    predicted_places,
    rank_correlation,
)
from tilewright.report.svg import Axis, Plot, bars
from tilewright.report.units import seconds
from tilewright.testing.conformance.database import a_record, matmul

numbers = st.floats(1e-9, 1e9)


def _elements(svg: str, tag: str) -> list[ET.Element]:
    return ET.fromstring(svg).findall(f".//{tag}")


@given(st.lists(numbers, min_size=1, max_size=8), st.booleans())
def test_all_values_have_a_place(values: list[float], log: bool) -> None:
    axis = Axis.over(values, "x", log=log)
    assert all(0 <= axis.place(value) <= 1 for value in values)
    order = sorted(values)
    assert [axis.place(v) for v in order] == sorted(axis.place(v) for v in values)
    ticks = axis.ticks()
    assert 1 <= len(ticks) <= 40
    assert all(-1e-9 <= axis.place(tick) <= 1 + 1e-9 for tick in ticks)


def test_round_ticks() -> None:
    assert Axis("x", 0, 100).ticks() == [0, 20, 40, 60, 80, 100]
    assert Axis("x", 0.9, 9.6).ticks() == [2, 4, 6, 8]
    assert Axis("t", 1e-6, 1e-3, log=True).ticks() == pytest.approx([1e-6, 1e-5, 1e-4, 1e-3])
    assert Axis("t", 1.5e-6, 6e-6, log=True).ticks() == pytest.approx([2e-6, 5e-6])


def test_marks_lie_where_their_values_are() -> None:
    plot = Plot(Axis("x", 0, 10), Axis("y", 0, 1), "a <plot>")
    plot.dot(0, 0, "first & last")
    plot.dot(10, 1, "")
    plot.line([(0, 0), (10, 1)])
    svg = plot.svg()
    low, high = _elements(svg, "circle")
    assert float(low.attrib["cx"]) < float(high.attrib["cx"])
    assert float(low.attrib["cy"]) > float(high.attrib["cy"])
    (line,) = _elements(svg, "polyline")
    ends = [point.split(",") for point in line.attrib["points"].split()]
    assert ends == [[dot.attrib["cx"], dot.attrib["cy"]] for dot in (low, high)]
    assert low[0].text == "first & last"
    assert ET.fromstring(svg).attrib["aria-label"] == "a <plot>"


def test_titles_of_axes_are_clear_of_the_ticks() -> None:
    """Also in the larger type of phones, of which a digit is about 0.56 wide."""
    plot = Plot(Axis("x", 0, 10), Axis.over([3e-5, 2e-1], "y", log=True, text=seconds), "plot")
    texts = _elements(plot.svg(), "text")
    size = 19
    y_title = re.search(r"translate\((\S+) ", texts[-1].attrib["transform"])
    assert y_title is not None
    for text in texts[:-2]:
        x, y = float(text.attrib["x"]), float(text.attrib["y"])
        if text.attrib["class"] == "tick y":
            assert x - 0.56 * size * len(text.text or "") > float(y_title[1]) + size / 4
        else:
            assert y + size / 4 < float(texts[-2].attrib["y"]) - 0.75 * size


def test_bars() -> None:
    svg = bars([("all", 10, "10"), ("half", 5, "5"), ("none", 0, "0")], "funnel")
    widths = [float(bar.attrib["width"]) for bar in _elements(svg, "rect")]
    assert widths[1] == pytest.approx(widths[0] / 2)
    assert widths[2] == 0


def test_best_so_far(database: Database) -> None:
    small, *_ = collect(database)
    svg = charts.best_so_far_chart(small)
    assert len(_elements(svg, "circle")) == 6
    hints = [dot[0].text for dot in _elements(svg, "circle")]
    assert (hints[0], hints[-1]) == ("trial 1: 8.00 µs", "trial 7: 1.00 µs")
    (line,) = _elements(svg, "polyline")
    heights = [float(point.split(",")[1]) for point in line.attrib["points"].split()]
    assert heights == sorted(heights)  # down on paper means up in value: never slower again
    assert len(set(heights)) == 4  # 8, 4, 2 and 1 µs
    assert "run 2 begins" in svg


def test_failures_only() -> None:
    (task,) = collect(_failed())
    assert charts.best_so_far_chart(task) == ""
    assert charts.prediction_chart(task) == ""
    assert re.findall(r"<text[^>]*>([^<]*)<", charts.failure_chart(task)) == ["crash", "1"]


def _failed() -> Database:
    database = MemoryDatabase()
    workload = database.commit_workload(matmul(8, 8, 8))
    database.commit_tuning_record(a_record(workload, 1e10, failure=FailureKind.CRASH))
    return database


# --- predictions --------------------------------------------------------------------------------


def test_rank_correlation() -> None:
    rising = [(float(x), float(x**3)) for x in range(10)]
    assert rank_correlation(rising) == pytest.approx(1.0)
    assert rank_correlation([(x, -y) for x, y in rising]) == pytest.approx(-1.0)
    assert rank_correlation(rising[:2]) is None
    assert rank_correlation([(1.0, 2.0)] * 5) is None
    # Ranks 0 1 2.5 2.5 against 0 2 1 3: by hand from the definition of the coefficient.
    pairs = [(1.0, 1.0), (2.0, 3.0), (5.0, 2.0), (5.0, 9.0)]
    assert rank_correlation(pairs) == pytest.approx(0.6324555)


def test_order_does_not_matter() -> None:
    generator = random.Random(1)
    pairs = [(generator.random(), generator.random()) for _ in range(20)]
    shuffled = generator.sample(pairs, len(pairs))
    assert rank_correlation(pairs) == pytest.approx(rank_correlation(shuffled))


def test_places() -> None:
    trials = [
        Trial(1, "t", 0, round=0, mean_secs=2.0, prediction=0.5),
        Trial(1, "t", 1, round=0, mean_secs=None, prediction=0.9),
        Trial(1, "t", 2, round=0, mean_secs=1.0, prediction=0.7),
        Trial(1, "t", 3, round=0, mean_secs=0.1),
        Trial(1, "t", 4, round=1, mean_secs=4.0, prediction=9.0),
    ]
    assert predicted_places(trials) == [(0.0, 0.5), (1.0, 1.0), (1.0, 0.25)]


def test_scores_of_different_rounds_are_not_compared() -> None:
    """The first round was ranked by a model on another scale; each round is in order."""
    trials = [
        Trial(1, "t", 10 * number + place, round=number, mean_secs=secs, prediction=scale / secs)
        for number, scale in enumerate((1e-3, 40.0))
        for place, secs in enumerate((1.0, 2.0, 3.0 - number))
    ]
    assert _mean(trials) == pytest.approx(1.0)
    assert mean_rank_correlation(trials[:2]) is None
    upside_down = [replace(trial, prediction=trial.mean_secs) for trial in trials]
    assert _mean(upside_down) == pytest.approx(-1.0)


def _mean(trials: Sequence[Trial]) -> float:
    found = mean_rank_correlation(trials)
    assert found is not None
    return found.mean


def test_what_may_be_chance() -> None:
    generator = random.Random(1)
    trials = [Trial(1, "t", n, round=0, mean_secs=1 + generator.random()) for n in range(40)]
    noise = [replace(trial, prediction=generator.random()) for trial in trials]
    known = [replace(t, prediction=-(t.mean_secs or 0) + generator.random()) for t in trials]
    wrong = [replace(trial, prediction=trial.mean_secs) for trial in trials]
    found = [mean_rank_correlation(each) for each in (noise, known, wrong, known[:3])]
    assert [each is not None and each.may_be_chance for each in found] == [True, False, True, True]


def test_predictions_of_a_task(database: Database) -> None:
    small, *_ = collect(database)
    assert len(_elements(charts.prediction_chart(small), "circle")) == 6
    assert _mean(small.predicted) == pytest.approx(1.0)


def test_notes_do_not_cover_each_other() -> None:
    plot = Plot(Axis("x", 0, 10), Axis("y", 0, 10), "notes")
    for number in range(8):
        plot.note(5, 5, f"note {number}")
    shown = [note for note in _elements(plot.svg(), "text") if "note" in (note.text or "")]
    places = [(note.attrib["class"], float(note.attrib["y"])) for note in shown]
    assert len(places) == len(set(places)) == 6  # beside the dot, above and below; no room for more


def test_notes_do_not_cover_dots() -> None:
    plot = Plot(Axis("x", 0, 10), Axis("y", 0, 10), "notes")
    for x in (4.0, 5.0, 9.9):
        plot.dot(x, 5, "a kernel")
    plot.note(4, 5, "before it")
    plot.note(5, 5, "behind it")
    plot.note(9.9, 5, "at the right")
    styles = {note.text: note.attrib["class"] for note in _elements(plot.svg(), "text")}
    assert styles["before it"] == styles["at the right"] == "tick y"
    assert styles["behind it"] == "tick"


def test_falling_latency(database: Database) -> None:
    task = collect(database)[0]
    (line,) = _elements(charts.falling_latency(task.course), "polyline")
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    assert points[0] == (0.0, 2.0)  # the first trial is the slowest of those that were best
    assert points[-1] == (120.0, 26.0)
    assert [y for _, y in points] == sorted(y for _, y in points)
    assert charts.falling_latency(Course(3, 3)) == ""


def test_two_runs_in_one_picture() -> None:
    trials = [Course.of((n, 1e-3 / (n + run)) for n in range(4)) for run in (1, 2)]
    first, second = _elements(charts.compared_chart(trials, ("run 1", "run 2")), "polyline")
    assert (first.attrib["class"], second.attrib["class"]) == ("line", "line other")
    assert charts.compared_chart([trials[0], Course(0)], ("run 1", "run 2")) == ""

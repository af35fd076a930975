"""The part of a report on a model."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser

import pytest

from tilewright.database import MemoryDatabase
from tilewright.model.finals import ModelFinal, StepComparison
from tilewright.report.model_notes import keep_final, model_notes
from tilewright.report.model_page import model_section, roofline_chart, timeline_chart
from tilewright.report.page import render
from tilewright.report.roofline import BuiltFor
from tilewright.report.svg import WIDTH
from tilewright.target import Target

TARGET = Target("llvm -mcpu=znver4 -num-cores=2")
STEPS = [
    StepComparison("fused_conv", ("c<1>", "r1"), 2e8, 4_000_000, 4e-3, 2e-3),
    StepComparison("fused_conv", ("c2",), 2e8, 4_000_000, 4e-3, 1e-3),
    StepComparison("fused_transpose", (), 1.0, 1_000_000, 1e-4, 1e-4),
]


def _database(final: ModelFinal) -> MemoryDatabase:
    database = MemoryDatabase()
    keep_final(database, "net", TARGET, final)
    return database


def test_notes_are_kept_once_a_model() -> None:
    database = _database(ModelFinal(STEPS[:1]))
    keep_final(database, "other", TARGET, ModelFinal(STEPS))
    keep_final(database, "net", TARGET, ModelFinal(STEPS, ["fused_transpose"]))
    other, net = model_notes(database)
    assert (other.name, net.name) == ("other", "net")
    assert list(net.final.steps) == STEPS
    assert net.beaten == ["fused_transpose"]


def test_damaged_notes_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    database = MemoryDatabase()
    database.save_state("models", [{"name": 3}])
    assert model_notes(database) == []
    assert "the stored notes on models are damaged" in caplog.text


def test_the_page_shows_models_before_tasks() -> None:
    page = render(_database(ModelFinal(STEPS, ["fused_transpose"])), "x.db")
    assert "<h2>Model net</h2>" in page
    assert "<b>3.10 ms</b> · calculated 8.10 ms: <b>2.6x</b> · 3 kernels" in page
    kept = "since the calculated kernel is faster inside the model: fused_transpose"
    assert f"Not replaced, {kept}" in page
    for title in ("Timeline of operators", "Roofline", "Tasks, all their runs together"):
        assert title in page
    assert "<script" not in page
    assert not re.search(r'(src|href)="(?!#)', page)


def test_tasks_are_summed_up() -> None:
    (note,) = model_notes(_database(ModelFinal(STEPS)))
    section = model_section(note, MemoryDatabase())
    cells = re.findall(
        r'<td data-name="(?:task|runs|calculated|tuned|speed-up)">(.*?)</td>', section
    )
    assert cells[:5] == ["fused_conv", "2", "8.00 ms", "3.00 ms", "2.7x"]
    assert cells[5:7] == ["fused_transpose", "1"]


class _Bars(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.spans: list[tuple[float, float]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "rect":
            found = dict(attrs)
            self.spans.append((float(found["x"] or 0), float(found["width"] or 0)))


def test_the_timeline_is_to_scale() -> None:
    picture = timeline_chart(STEPS)
    bars = _Bars()
    bars.feed(picture)
    before, after = bars.spans[:3], bars.spans[3:]
    assert len(after) == 3
    assert after[0][1] == pytest.approx(before[0][1] / 2, abs=0.02)
    assert sum(width for _, width in before) <= WIDTH
    for (x, width), (following, _) in itertools.pairwise(before):
        assert following == pytest.approx(x + width, abs=0.02)
    assert "fused_conv (c&lt;1&gt;, r1): 4.00 ms" in picture


def test_the_roofline_has_a_dot_before_and_after() -> None:
    picture = roofline_chart(STEPS, BuiltFor(TARGET))
    assert picture.count("<circle") == 4  # a transposition computes nothing
    assert picture.count('class="dot old"') == 2
    assert "fused_conv, tuned: 200 GFLOPS" in picture
    assert roofline_chart(STEPS[2:], BuiltFor(TARGET)) == ""


def test_nothing_was_measured() -> None:
    (note,) = model_notes(_database(ModelFinal([])))
    assert model_section(note, MemoryDatabase()) == ""


def test_models_for_gpus_have_a_roofline() -> None:
    database = MemoryDatabase()
    keep_final(database, "net", Target("cuda -arch=sm_90"), ModelFinal(STEPS))
    page = render(database, "x.db")
    assert "<h2>Model net</h2>" in page
    assert 'aria-label="roofline"' in page
    assert "peak " in page


def test_wide_bars_have_names() -> None:
    chart = timeline_chart(STEPS)
    assert chart.count('<text class="inside') == 4  # the transposition is too short
    assert ">fused_conv</text>" in chart

"""The page in a real browser: live, light and dark, on a phone, by keyboard, with a token."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewright.database import SQLiteDatabase
from tilewright.testing.chromium import Chromium, find_chromium
from tilewright.testing.tuned_databases import add_run
from tilewright.tune.event_log import event_log_path

SECRET = "a-long-enough-secret"
PHONE, DESK = (390, 844), (1280, 900)
_ANSWER = "document.getElementById('answer')"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    program = find_chromium()
    if program is None:
        pytest.skip("there is no Chromium on this machine")
    with Chromium(program) as started:
        yield started


def _line(time: float, event: str, **facts: object) -> str:
    return json.dumps({"time": time, "node": "lab", "pid": 1, "load": 0.3, "event": event, **facts})


def _has_no_overflow(browser: Chromium) -> bool:
    answer: bool = browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return answer


def test_what_is_new_comes_by_itself(browser: Chromium, records: Path, visitor: Any) -> None:
    browser.look_like(*DESK)
    browser.open(f"{visitor.address}/")
    browser.evaluate(
        "window.isSame = true; window.shift = 0;"
        "new PerformanceObserver(list => list.getEntries().forEach(e => { shift += e.value }))"
        ".observe({type: 'layout-shift', buffered: false})"
    )
    assert "nothing is being tuned" in browser.evaluate("document.body.innerText")
    started = _line(1, "tuning_started", run=1, max_trials=64, tasks=["mm"])
    building = _line(2, "phase_changed", task_id=0, phase="build", candidates=16)
    event_log_path(records).write_text(f"{started}\n{building}\n", encoding="utf-8")
    browser.wait_for("document.body.innerText.includes('building 16 candidates of mm')")
    writer = SQLiteDatabase(records)
    add_run(writer, "mm", 16, (4e-7,))
    writer.close()
    browser.wait_for("document.body.innerText.includes('400 ns')")
    assert browser.evaluate("window.isSame")  # the page was not loaded again
    assert browser.evaluate("window.shift") < 0.02
    assert browser.problems == []


def test_the_explorer(browser: Chromium, visitor: Any) -> None:
    record = visitor.get("/api/state").json()["tasks"][0]["record"]
    for size, is_dark in ((DESK, False), (PHONE, True)):
        browser.look_like(*size, dark=is_dark)
        browser.open(
            f"{visitor.address}/record/{record}", f"{_ANSWER}.textContent.startsWith('Replayed')"
        )
        assert _has_no_overflow(browser)
        colour = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (colour == "rgb(21, 26, 33)") == is_dark
    current = "document.querySelector('[aria-current=step]')"
    assert ".split(" in browser.evaluate(f"{current}.textContent")
    assert browser.evaluate("document.querySelectorAll('#programs .fresh').length") > 0
    assert browser.evaluate("document.querySelectorAll('#loops .new').length") == 2
    browser.evaluate(f"{current}.focus()")
    browser.press("ArrowDown")
    assert "enter_postproc" in browser.evaluate(f"{current}.textContent")
    assert browser.evaluate("document.activeElement.textContent").startswith("sch.enter_postproc")
    _decide(browser, [2, 8])
    browser.wait_for(f"{_ANSWER}.textContent.startsWith('Legal with your decisions')")
    assert browser.evaluate("document.activeElement.closest('.decision') !== null")
    _decide(browser, [0, 8])
    browser.wait_for(f"{_ANSWER}.className === 'complaint'")
    assert browser.evaluate(f"{_ANSWER}.firstChild.textContent") == (
        "sample_perfect_tile: the decision [0, 8] is not a list of 2 positive factors"
    )
    browser.evaluate(f"{_ANSWER}.querySelector('button').click()")
    browser.wait_for(f"{_ANSWER}.textContent.startsWith('Replayed as recorded')")
    assert browser.problems == []


def _decide(browser: Chromium, factors: list[int]) -> None:
    browser.evaluate(
        "{ const form = document.querySelector('.decision'); form.noValidate = true;"
        f"form.querySelectorAll('input').forEach((e, n) => e.value = {factors}[n]);"
        "form.querySelector('button').focus();"
        "form.requestSubmit() }"
    )


def test_a_visitor_from_elsewhere(browser: Chromium, server: Any) -> None:
    with server("0.0.0.0", SECRET, frozenset()) as address:
        browser.look_like(*PHONE)
        browser.open(f"{address}/")
        assert _has_no_overflow(browser)
        browser.evaluate(f"document.getElementById('token').value = '{SECRET}'")
        browser.evaluate("document.querySelector('form').requestSubmit()")
        browser.wait_for("document.getElementById('tasks') !== null")
        assert browser.evaluate("location.pathname + location.search") == "/"
        assert browser.evaluate("document.cookie") == ""  # scripts cannot read it
        for page in ("/", "/compare", "/models"):
            browser.open(f"{address}{page}")
            assert _has_no_overflow(browser)
            assert browser.problems == []


@pytest.mark.slow
@pytest.mark.parametrize("is_dark", [False, True])
@pytest.mark.parametrize("size", [DESK, PHONE])
def test_every_page_in_every_look(
    browser: Chromium, visitor: Any, size: tuple[int, int], is_dark: bool, tmp_path: Path
) -> None:
    task = visitor.get("/api/state").json()["tasks"][0]
    browser.look_like(*size, dark=is_dark)
    for page in ("/", f"/task/{task['name']}", f"/record/{task['record']}", "/compare", "/models"):
        browser.open(f"{visitor.address}{page}")
        assert _has_no_overflow(browser)
        small = (
            "[...document.querySelectorAll('a, button, select, input')].filter(e => !e.innerText"
        )
        assert browser.evaluate(f"{small} && !e.ariaLabel && !e.labels?.length).length") == 0
        assert browser.problems == []
        browser.screenshot(tmp_path / "page.png", whole=True)
        assert (tmp_path / "page.png").stat().st_size > 5_000

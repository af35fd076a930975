"""The report: one file, complete, well formed, nothing fetched."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.database import Database, MemoryDatabase, Run, SQLiteDatabase, merge
from tilewright.database.record_ids import record_id
from tilewright.report.collect import collect
from tilewright.report.page import render, runs_table
from tilewright.schedule import Schedule
from tilewright.testing.conformance.database import a_record, matmul
from tilewright.testing.html_checker import HtmlChecker
from tilewright.testing.te_workload import create_te_workload

NOW = datetime.datetime(2026, 3, 4, 5, 6)


@pytest.fixture
def page(database: Database) -> str:
    return render(database, "some.db", now=NOW)


def test_it_is_well_formed(page: str) -> None:
    checker = HtmlChecker.of(page)
    targets = {value for name, value in checker.attributes if name == "id"}
    links = {value for name, value in checker.attributes if name == "href"}
    assert links == {f"#{target}" for target in targets} == {"#task-0", "#task-1", "#task-2"}


def test_it_needs_nothing_else(page: str) -> None:
    assert not re.search(r"https?:|src=|@import|url\(|<script|<link|<iframe", page)


def test_it_says_what_was_found(page: str, database: Database) -> None:
    text = "\n".join(HtmlChecker.of(page).texts)
    best = collect(database)[0].best
    assert best is not None
    for expected in (
        "some.db · 10 records · 3 tasks · 3 runs · 2026-03-04 05:06",
        "mm · C 16x16x16",
        "Best so far",
        "Predicted against measured",
        "rank correlation within a round: 1.00",
        "Funnel",
        "5 not legal: VerifyGPUCode",
        "Failures by cause",
        "took <10 s>",
        "Winning script",
        "Winning trace",
        "Program as it was given",
        record_id(best),
    ):
        assert expected in text
    whole = "".join(HtmlChecker.of(page).texts)
    assert "sch.enter_postproc()" in whole
    assert "for j in T.parallel(16):" in whole
    assert "no better than chance" not in text


def test_code_is_coloured_in_the_colours_of_the_page(page: str) -> None:
    assert '<span class="tok-keyword">for</span> j' in page
    kinds = set(re.findall(r'class="(tok-\w+)"', page))
    assert {"tok-keyword", "tok-namespace", "tok-number", "tok-decorator"} <= kinds
    assert all(f".{kind}{{" in page for kind in kinds)


def test_what_the_best_is_compared_with(database: Database) -> None:
    workload = database.commit_workload(matmul(8, 8, 8))
    for what, secs in (("plain", 3e-5), ("zero-search", 6e-7)):
        database.commit_tuning_record(a_record(workload, secs, seed=9, extra={"baseline": what}))
    page = render(database, "some.db", now=NOW)
    assert (
        "<p>the program as it was given takes 30.0 µs: <b>60x</b> · "
        "the schedule without a search takes 600 ns: <b>1.2x</b></p>"
    ) in page
    assert '<td data-name="plain">30.0 µs</td><td data-name="best">500 ns</td>' in page
    assert '<td data-name="speed-up">60x</td>' in page


def test_a_model_that_ranks_as_chance_does(database: Database) -> None:
    run = database.history.begin_run("chance", target="llvm", seed=1)
    workload = database.commit_workload(matmul(24, 24, 24))
    for trial, prediction in enumerate((0.5, 0.1, 0.7, 0.3, 0.6, 0.2)):
        extra = {"run": run, "task": "chance", "trial": trial, "round": 0, "prediction": prediction}
        record = a_record(workload, (1 + trial % 3) * 1e-6, seed=trial + 1, extra=extra)
        database.commit_tuning_record(record)
    text = "\n".join(HtmlChecker.of(render(database, "some.db", now=NOW)).texts)
    assert text.count("the cost model ranked these candidates no better than chance") == 1


def test_an_empty_database() -> None:
    text = "\n".join(HtmlChecker.of(render(MemoryDatabase(), "memory:", now=NOW)).texts)
    assert "0 records · 0 tasks · 0 runs" in text
    assert "There are no records in this database yet." in text


def test_a_trace_that_does_not_fit_is_no_catastrophe(database: Database) -> None:
    other = MemoryDatabase()
    (record,) = database.get_top_k(database.commit_workload(collect(database)[2].workload.mod), 1)
    foreign = Schedule(create_te_workload("SFM", 0))
    foreign.get_block("T_softmax_exp")
    assert foreign.trace is not None
    other.commit_tuning_record(replace(record, trace=foreign.trace))
    text = "\n".join(HtmlChecker.of(render(other, "memory:", now=NOW)).texts)
    assert "not available: " in text


def test_from_a_file(database: Database, tmp_path: Path) -> None:
    stored = SQLiteDatabase(tmp_path / "x.db")
    merge(stored, database)
    text = "\n".join(HtmlChecker.of(render(stored, "x.db", now=NOW)).texts)
    stored.close()
    assert "10 records · 3 tasks · 0 runs" in text
    assert "Winning script" in text


@pytest.mark.parametrize("moment", [1e18, -1e18, float("nan"), float("inf")])
def test_dates_that_no_calendar_has(moment: float) -> None:
    run = Run(1, "damaged", "running", started=moment, finished=0.0)
    text = "".join(HtmlChecker.of(runs_table([run])).texts)
    assert text.startswith("runtasksstatusstartedtookseed1damagedrunning-")

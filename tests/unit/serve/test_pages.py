"""What the pages say of a database."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import Any

import pytest

from tilewright.database import SQLiteDatabase
from tilewright.model.finals import ModelFinal, StepComparison
from tilewright.report.model_notes import keep_final
from tilewright.target import Target
from tilewright.testing.conformance.database import a_record, matmul
from tilewright.testing.html_checker import HtmlChecker
from tilewright.testing.made_up_runs import MadeUp, NoBuilder
from tilewright.testing.tuned_databases import add_run
from tilewright.tune.api import tune_tir
from tilewright.tune.event_log import event_log_path


def _text(answer: Any) -> str:
    return "\n".join(HtmlChecker.of(answer.text).texts)


def _task(visitor: Any, title: str) -> dict[str, Any]:
    tasks: list[dict[str, Any]] = visitor.get("/api/state").json()["tasks"]
    return next(task for task in tasks if task["title"] == title)


def test_pages_are_well_formed_and_fetch_nothing_from_elsewhere(visitor: Any) -> None:
    task = _task(visitor, "mm · C 16x16x16")
    addresses = (f"/task/{task['name']}", f"/record/{task['record']}", "/compare", "/models", "/")
    for address in addresses:
        answer = visitor.get(address)
        assert answer.status == 200
        checker = HtmlChecker.of(answer.text)
        links = checker.values("href") + checker.values("src") + checker.values("action")
        assert all(link.startswith(("/", "#")) for link in links)
        assert checker.values("style") == []  # which the policy would not allow
        ids = checker.values("id")
        assert len(ids) == len(set(ids))
        assert answer.text.count("<h1>") == 1


def test_the_overview(visitor: Any) -> None:
    text = _text(visitor.get("/"))
    for expected in (
        "records.db · 10 records · 3 tasks · 3 runs",
        "nothing is being tuned",
        "mm · C 16x16x16",
        "What became of the candidates",
        "VerifyGPUCode",
        "timeout",
        "Roofline of llvm ",
        "No node has reported: no tuner has written events to this database.",
        "Compare two runs",
    ):
        assert expected in text
    assert visitor.get("/").text.count('class="spark"') == 3


def test_candidates_by_cause(visitor: Any) -> None:
    assert visitor.get("/api/state").json()["causes"] == {
        "measured": 8,
        "timeout": 2,
        "VerifyGPUCode": 5,
        "DisallowDynamicLoop": 1,
    }


def test_the_state_for_scripts(visitor: Any) -> None:
    task = _task(visitor, "mm · C 16x16x16")
    assert task["best_secs"] == 1e-6
    assert (task["trials"], task["failures"]) == (7, {"timeout": 1})
    assert task["best_so_far"] == [[1, 8e-6], [3, 4e-6], [5, 2e-6], [7, 1e-6]]


def test_a_task(visitor: Any) -> None:
    task = _task(visitor, "mm · C 16x16x16")
    text = _text(visitor.get(f"/task/{task['name']}"))
    for expected in ("Best so far", "Explore the best schedule", "Fastest candidates",
                     "Failed candidates", "took <10 s>", task["record"]):  # fmt: skip
        assert expected in text


def test_two_runs(visitor: Any) -> None:
    text = _text(visitor.get("/compare"))
    for expected in ("best, run 1", "2.00 µs", "best, run 2", "1.00 µs", "0.500"):
        assert expected in text
    other = _text(visitor.get("/compare?a=2&b=1"))
    assert "2.000" in other
    assert "not known" in other  # by one time each nobody can say
    assert "best, run 1" in _text(visitor.get("/compare?a=x&b=99999999999"))


def test_ratios_have_intervals(records: Path, visitor: Any, wait_for: Any) -> None:
    database = SQLiteDatabase(records)
    workload = database.commit_workload(matmul(40, 40, 40))
    for times in ((4e-6, 4.1e-6, 3.9e-6), (2e-6, 2.1e-6, 1.9e-6)):
        run = database.history.begin_run("forty", target="llvm")
        extra = {"run": run, "task": "forty", "trial": 0, "round": 0, "seed": run}
        database.commit_tuning_record(a_record(workload, *times, extra=extra))
    database.close()
    wait_for(lambda: len(visitor.get("/api/state").json()["runs"]) == 5)
    text = _text(visitor.get("/compare"))
    assert re.search(r"0\.50\d \[0\.4\d+, 0\.5\d+\]\s+faster", text)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/task/nothing", "there is no task 'nothing' in records.db"),
        ("/record/ffffffffff", "no record in records.db starts with ffffffffff"),
        ("/record/%3Cscript%3E", "'<script>' is not the name of a record"),
    ],
)
def test_what_is_not_there(visitor: Any, address: str, said: str) -> None:
    answer = visitor.get(address)
    assert answer.status == 404
    assert said in _text(answer)
    assert "<script>" not in answer.text


def test_names_of_strangers_are_text(records: Path, visitor: Any, wait_for: Any) -> None:
    database = SQLiteDatabase(records)
    name = "<img src=x onerror=alert(1)>"
    add_run(database, name, 32, (1e-6,))
    keep_final(
        database, name, Target("llvm"), ModelFinal([StepComparison(name, (name,), 1e6, 9, 1, 1)])
    )
    database.close()
    wait_for(lambda: visitor.get("/api/state").json()["records"] == 11)
    key = _task(visitor, f"{name} · C 32x32x32")["name"]
    for address in ("/", f"/task/{key}", "/compare", "/models"):
        assert "<img" not in visitor.get(address).text
    assert name in _text(visitor.get("/models"))


def test_a_run_that_goes_on(records: Path, visitor: Any, wait_for: Any) -> None:
    lines = [
        '{"time":1,"node":"vm<1>","pid":7,"load":0.5,"event":"tuning_started","run":1,'
        '"max_trials":64,"tasks":["mm"]}',
        '{"time":2,"node":"vm<1>","pid":7,"load":0.5,"event":"phase_changed","task_id":0,'
        '"phase":"build","candidates":16}',
    ]
    event_log_path(records).write_text("\n".join(lines) + "\n", encoding="utf-8")
    wait_for(lambda: "building 16 candidates of mm" in _text(visitor.get("/")))
    text = _text(visitor.get("/"))
    assert "vm<1>" in text
    assert "64 planned in this run" in text
    assert "0.50 a core" in text
    assert re.search(r'class="phase build"', visitor.get("/").text)


def test_a_real_run(records: Path, visitor: Any, wait_for: Any) -> None:
    database = SQLiteDatabase(records)
    tune_tir(
        matmul(24, 24, 24), "llvm -num-cores=2", None, 4, database=database, builder=NoBuilder(),
        runner=MadeUp(), cost_model="random", strategy="replay-trace", check=False, console=False,
    )  # fmt: skip
    found = len(database)
    database.close()
    wait_for(lambda: visitor.get("/api/state").json()["records"] == found)
    wait_for(lambda: visitor.get("/api/state").json()["nodes"] != [])
    (node,) = visitor.get("/api/state").json()["nodes"]
    assert (node["name"], node["trials"]) == (platform.node(), found - 10)
    assert node["seconds"].keys() >= {"search", "build", "run"}
    assert "C 24x24x24" in _text(visitor.get("/"))

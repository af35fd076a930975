"""What commands say of a kernel whose weights are packed at each call, or once before all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.cli.tune import TaskResult
from tilewright.database import SQLiteDatabase
from tilewright.measure import side_by_side
from tilewright.records import TuningRecord, args_info_of
from tilewright.report.packing import packing_note
from tilewright.space.layout_free import with_bound_weights
from tilewright.target import Target
from tilewright.testing.packed_programs import dense, packing_schedule
from tilewright.tune.context import normalize_mod

PROGRAM = "from tilewright.testing.packed_programs import dense as product\n"
TARGET = ("--target", "llvm -num-cores=4")
NOTE = "not counted: packing W, which bind(W=...) does once"


@pytest.fixture
def program(command: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program, and a database that knows a schedule for it."""
    for name, value in {"ROUNDS": 2, "ROW_SECS": 1e-5, "SETTLE_SECS": 0.0, "NOISY": 1e9}.items():
        monkeypatch.setattr(side_by_side, name, value)
    Path("program.py").write_text(PROGRAM)
    Path(".tilewright").mkdir()
    database = SQLiteDatabase(Path(".tilewright/records.db"))
    bound = with_bound_weights(normalize_mod(dense))
    workload = database.commit_workload(bound)
    trace = packing_schedule().trace
    assert trace is not None
    target, infos = Target("llvm -num-cores=4"), args_info_of(workload.mod)
    database.commit_tuning_record(TuningRecord(trace, workload, (1e-6,), target, infos))
    database.close()
    return "program.py:product"


def test_bench_shows_both_ways_to_call(command: Any, program: str) -> None:
    shown = json.loads(command("bench", program, *TARGET, "--json").out)
    versions = {version["name"]: version["agrees"] for version in shown["versions"]}
    assert list(versions)[-2:] == ["tuned, bind(W=...)", "tuned, packing at each call"]
    assert all(versions.values())


def test_show_says_what_the_time_is_of(command: Any, program: str) -> None:
    assert command("show", program, *TARGET).lines[0].endswith(f"; {NOTE}")
    assert json.loads(command("show", program, *TARGET, "--json").out)["packed"] == ["W"]


def test_the_report_says_so_too(command: Any, program: str) -> None:
    command("report", "-o", "report.html")
    assert NOTE in Path("report.html").read_text()


def test_so_does_tune() -> None:
    result = TaskResult("product", "C 8x32x16", 8192, 1e-6, None, "0123456789", {}, None, ["W"])
    assert result.line().endswith(f", record 0123456789; {NOTE}")
    assert result.as_json()["packed"] == ["W"]


def test_several_weights() -> None:
    expected = "not counted: packing W and V, which bind(W=..., V=...) does once"
    assert packing_note(["W", "V"]) == expected
    assert packing_note([]) == ""

"""`tilewright compare`, `bundle` and `open`."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.records import FailureKind, RunnerResult
from tilewright.sharing import open_bundle


def test_compare(command: Any, records: Path) -> None:
    lines = command("compare", "#1", ".tilewright/records.db", "--csv", "x.csv").lines
    assert lines[:2] == ["A: .tilewright/records.db#1", "B: .tilewright/records.db"]
    assert lines[2].split() == ["name", "A", "B", "B", "/", "A", "B", "is"]
    assert lines[3].startswith("C 16x16x16 on llvm ")
    assert lines[3].split()[-6:] == ["4.00", "µs", "1.00", "µs", "0.250", "?"]
    assert lines[4].startswith("only in B: C 32x32x32 on llvm ")
    assert lines[5] == "1 row in both, geometric mean of B / A 0.250"
    (row,) = csv.DictReader(Path("x.csv").read_text(encoding="utf-8").splitlines())
    assert (float(row["first"]), float(row["second"]), row["low"]) == (4e-6, 1e-6, "")
    assert float(row["ratio"]) == pytest.approx(0.25)


def test_compare_as_json(command: Any, records: Path) -> None:
    made = json.loads(command("compare", "#1", "#2", "--json").out)
    assert [row["ratio"] for row in made["rows"]] == [pytest.approx(0.25)]
    assert (made["only_first"], made["only_second"]) == ([], [])


def test_parquet(command: Any, records: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    command("compare", "#1", "#2", "--parquet", "x.parquet")
    (row,) = parquet.read_table("x.parquet").to_pylist()
    assert row["ratio"] == pytest.approx(0.25)
    command("db", "export", "all.parquet")
    rows = parquet.read_table("all.parquet").to_pylist()
    assert [row["valid"] for row in rows] == [True, False, True, True, True]
    assert rows[0]["run_secs"] == [4e-6]


def test_without_pyarrow(command: Any, records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert command("db", "export", "all.parquet", status=2).err == (
        "error: Parquet files need the package pyarrow: pip install pyarrow, or use csv\n"
    )


def test_a_bundle_and_what_became_of_it(
    command: Any, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = json.loads(command("db", "ls", "--json").out)[0]["record"]
    (line,) = command("bundle", name).lines
    assert line.startswith(f"{name}.twb: C ")
    outcomes = {
        0: RunnerResult((2e-5, 2e-5), checked=True),
        1: RunnerResult(None, "it is wrong", FailureKind.WRONG_RESULT),
    }
    facts = json.loads(command("open", f"{name}.twb", "--no-run", "--json").out)
    assert facts["failure"] is None
    assert "here" not in facts
    opened = open_bundle(f"{name}.twb")
    # Starting a worker takes time.
    monkeypatch.setattr("tilewright.sharing.open_bundle", lambda path: opened)
    for status, result in outcomes.items():
        monkeypatch.setattr(
            "tilewright.sharing.measure_bundle", lambda opened, result=result: result
        )
        lines = command("open", f"{name}.twb", status=status).lines
        assert lines[0].endswith("made by Tilewright 0.1.0")
        assert lines[1].startswith("there: 1")
        if status:
            assert lines[2].startswith("here: wrong_result on llvm ")
            assert lines[2].endswith(": it is wrong")
        else:
            assert lines[2].startswith("here: 20.0 µs on llvm ")
            assert lines[2].endswith(", results agree")
            assert lines[3].startswith("here / there: ")
    assert "@T.prim_func" in command("open", f"{name}.twb", "--no-run", "--script").out

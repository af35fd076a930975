"""`tilewright show`: finding a record, and looking at it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tilewright.database import SQLiteDatabase
from tilewright.database.record_ids import record_id
from tilewright.testing.conformance.database import a_record, matmul

PROGRAM = """
from tilewright import te
from tilewright.testing import te_workload

def mm():
    return te_workload.matmul({}, 16, 16)
"""


@pytest.fixture
def best(records: Path) -> str:
    database = SQLiteDatabase(records, read_only=True)
    found = min(database.get_all_tuning_records(), key=lambda record: record.mean_secs)
    name = record_id(found)
    database.close()
    return name


def test_a_record_by_its_id(command: Any, best: str) -> None:
    shown = command("show", best[:6]).out
    headline, *rest = shown.splitlines()
    assert re.fullmatch(
        rf"record {best}: C 16x16x16 on llvm .*, 4 cores: 1\.00 µs, 8\.2 GFLOPS, run 2, trial 0, "
        "seed 20",
        headline,
    )
    assert "# --- trace" in rest
    assert "  sch.enter_postproc()" in rest
    assert "# --- script" in rest
    assert "            for j in T.parallel(16):" in rest


def test_machine_code(command: Any, best: str) -> None:
    shown = command("show", best, "--llvm", "--asm").out
    assert "# --- LLVM IR" in shown
    assert "define" in shown
    assert "# --- assembly" in shown
    assert "ret" in shown
    assert "# --- trace" not in shown


def test_as_json(command: Any, best: str) -> None:
    shown = json.loads(command("show", best, "--json", "--script").out)
    assert (shown["record"], shown["mean_secs"], shown["run"]) == (best, 1e-6, 2)
    assert "T.prim_func" in shown["script"]
    assert "trace" not in shown


def test_the_best_of_a_program(command: Any, best: str) -> None:
    Path("mm.py").write_text(PROGRAM.format(16))
    assert f"record {best}" in command("show", "mm.py:mm", "--target", "llvm -num-cores=4").out


def test_a_program_that_is_not_known(command: Any, records: Path) -> None:
    Path("mm.py").write_text(PROGRAM.format(8))
    assert command("show", "mm.py:mm", status=2).err == (
        "error: C 8x16x16 is not in the database: C 16x16x16 is known, 8x16x16 is asked\n"
    )


def test_no_such_record(command: Any, records: Path) -> None:
    assert command("show", "ffffffffff", status=2).err == (
        "error: no record in .tilewright/records.db starts with ffffffffff; `tilewright db ls` "
        "shows the best ones\n"
    )
    assert "there is no workload 'gmm'; did you mean 'GMM'?" in command("show", "gmm", status=2).err


def test_best_needs_a_database_of_one_task(command: Any, records: Path) -> None:
    assert command("show", "best", status=2).err == (
        "error: .tilewright/records.db has 2 tasks (mm · C 16x16x16, C 32x32x32); name a program, "
        "or a record by 4 or more characters of its id\n"
    )
    database = SQLiteDatabase("one.db")
    database.commit_tuning_record(a_record(database.commit_workload(matmul(8, 8, 8)), 1e-6))
    database.close()
    assert "C 8x8x8" in command("show", "best", "--db", "one.db").out

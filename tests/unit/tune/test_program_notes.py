# mypy: disable-error-code="valid-type, no-untyped-def"
"""What a user is told of a program itself: once, in the log, in records and in the report."""

from __future__ import annotations

import pytest

from tilewright.database import MemoryDatabase
from tilewright.records import PROGRAM_NOTES
from tilewright.report.collect import collect
from tilewright.report.page import render
from tilewright.script import tir as T
from tilewright.tune import tune_tir


@T.prim_func
def half_sums(A: T.Buffer((8, 4096), "float16"), C: T.Buffer((8,), "float16")):
    for i, k in T.grid(8, 4096):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float16(0)
            C[vi] = C[vi] + A[vi, vk]


def test_a_program_that_is_wrong_itself_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    database = MemoryDatabase()
    tune_tir(half_sums, "llvm -num-cores=1", max_trials_global=2, database=database)
    (record, *_) = database.get_all_tuning_records()
    (note,) = record.extra[PROGRAM_NOTES]
    assert note.startswith("output 'C' of the program itself is off by 3")
    assert note.endswith("accumulate in float32 instead of float16 and cast the result at the end")
    assert capsys.readouterr().out.count(f"[WARNING] half_sums: {note}\n") == 1
    (task,) = collect(database)
    assert task.notes == (note,)
    page = render(database, "memory")
    assert page.count("output &#x27;C&#x27; of the program itself is off") == 1

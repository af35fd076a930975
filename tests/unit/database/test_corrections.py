"""Records that are corrected after a final, and runs that go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.database import Database, JSONDatabase, MemoryDatabase, SQLiteDatabase
from tilewright.records import FAILED_RUN_SECS, FailureKind
from tilewright.testing.conformance.database import a_record, matmul

Make = Callable[[Path], Database]
KINDS: dict[str, Make] = {
    "memory": lambda folder: MemoryDatabase(),
    "sqlite": lambda folder: SQLiteDatabase(folder / "records.db"),
}


def filled(database: Database) -> Database:
    workload = database.commit_workload(matmul(16, 16, 16))
    for number, secs in enumerate((1.0, 2.0, 3.0), 1):
        extra = {"seed": number, "round": 0}
        database.commit_tuning_record(a_record(workload, secs, seed=number, extra=extra))
    return database


def times(database: Database) -> list[float]:
    (workload,) = database.workloads()
    return [record.mean_secs for record in database.get_top_k(workload, 9)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_is_corrected_in_its_place(kind: str, tmp_path: Path) -> None:
    database = filled(KINDS[kind](tmp_path))
    (workload,) = database.workloads()
    lucky = database.get_top_k(workload, 1)[0]
    better = replace(lucky, run_secs=(2.5,), extra={**lucky.extra, "first_run_secs": [1.0]})
    assert database.correct_record(lucky, better)
    assert times(database) == [2.0, 2.5, 3.0]
    assert len(database) == 3
    found = database.get_top_k(workload, 2)[1]
    assert found.extra["first_run_secs"] == [1.0]
    assert found.trace.as_json() == lucky.trace.as_json()


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_may_turn_out_to_be_wrong(kind: str, tmp_path: Path) -> None:
    database = filled(KINDS[kind](tmp_path))
    (workload,) = database.workloads()
    lucky = database.get_top_k(workload, 1)[0]
    wrong = replace(lucky, run_secs=(FAILED_RUN_SECS,), failure=FailureKind.WRONG_RESULT)
    assert database.correct_record(lucky, wrong)
    assert times(database) == [2.0, 3.0]
    assert len(database) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_without_a_place_in_a_search(kind: str, tmp_path: Path) -> None:
    """Its figures are part of what it is recognised by; the corrected one is recognised too."""
    database = KINDS[kind](tmp_path)
    workload = database.commit_workload(matmul(16, 16, 16))
    database.commit_tuning_record(a_record(workload, 1.0))
    (record,) = database.get_top_k(workload, 1)
    corrected = replace(record, run_secs=(1.5,))
    assert database.correct_record(record, corrected)
    assert times(database) == [1.5]
    database.commit_tuning_record(a_record(workload, 1.5))
    assert times(database) == [1.5]


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_of_another_database_is_not_corrected(kind: str, tmp_path: Path) -> None:
    database = filled(KINDS[kind](tmp_path))
    other = filled(MemoryDatabase())
    (workload,) = other.workloads()
    stranger = a_record(workload, 9.0, seed=9)
    assert not database.correct_record(stranger, replace(stranger, run_secs=(8.0,)))
    assert times(database) == [1.0, 2.0, 3.0]


def test_files_of_tvm_are_never_changed(tmp_path: Path) -> None:
    database = filled(JSONDatabase(work_dir=tmp_path))
    (workload,) = database.workloads()
    (best,) = database.get_top_k(workload, 1)
    assert not database.correct_record(best, replace(best, run_secs=(9.0,)))
    assert times(database) == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_goes_on(kind: str, tmp_path: Path) -> None:
    history = KINDS[kind](tmp_path).history
    run = history.begin_run("matmul")
    history.finish_run(run, "interrupted")
    assert history.resume_run(run)
    (found,) = history.runs()
    assert (found.id, found.status, found.finished) == (run, "running", None)
    assert not history.resume_run(run + 1)

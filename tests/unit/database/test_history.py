"""What reports read from the history."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.database import (
    FunnelCount,
    MemoryDatabase,
    SQLiteDatabase,
    Trial,
    best_so_far,
    failures_by_cause,
    funnel_totals,
)
from tilewright.database.history import trial_of
from tilewright.errors import DatabaseError
from tilewright.records import FAILED_RUN_SECS, FailureKind, Workload
from tilewright.testing.conformance.database import a_record, matmul

TIMEOUT, CRASH = FailureKind.TIMEOUT, FailureKind.CRASH


def test_summaries() -> None:
    trials = [
        Trial(1, "main", number, mean_secs=secs, failure=failure)
        for number, (secs, failure) in enumerate(
            [(None, CRASH), (3.0, None), (4.0, None), (None, TIMEOUT), (1.0, None), (None, CRASH)]
        )
    ]
    assert best_so_far(trials) == [(1, 3.0), (4, 1.0)]
    assert best_so_far([]) == []
    assert failures_by_cause(trials) == {CRASH: 2, TIMEOUT: 1}
    counts = [
        FunnelCount(1, "main", 0, "legal", "", 3),
        FunnelCount(1, "main", 1, "legal", "", 4),
        FunnelCount(1, "main", 1, "legal", "too big", 1),
    ]
    assert funnel_totals(counts) == {("legal", ""): 7, ("legal", "too big"): 1}


def test_records_that_are_no_trials() -> None:
    workload = Workload(matmul(8, 8, 8), 0)
    assert trial_of(a_record(workload, 1.0)) is None
    assert trial_of(a_record(workload, 1.0, extra={"run": 1})) is None
    failed = trial_of(a_record(workload, FAILED_RUN_SECS, extra={"run": 1, "trial": 0}))
    assert failed == Trial(1, "", 0)


def test_unknown_runs(tmp_path: Path) -> None:
    for database in (MemoryDatabase(), SQLiteDatabase(tmp_path / "a.db")):
        with pytest.raises(DatabaseError, match=r"there is no run 7; `history\.runs\(\)` lists"):
            database.history.finish_run(7)
        database.close()


def test_the_history_is_in_the_file(tmp_path: Path) -> None:
    database = SQLiteDatabase(tmp_path / "a.db")
    workload = database.commit_workload(matmul(8, 8, 8))
    run = database.history.begin_run("first")
    extra = {"run": run, "task": "t", "trial": 0, "elapsed": 1.5}
    database.commit_tuning_record(a_record(workload, 1.0, extra=extra))
    database.history.set_count(run, "t", 0, "proposed", 9)
    database.close()
    again = SQLiteDatabase(tmp_path / "a.db", read_only=True)
    (known,) = again.history.runs()
    assert (known.status, known.finished) == ("running", None)
    assert again.history.trials() == [Trial(run, "t", 0, mean_secs=1.0, elapsed=1.5, record_id=1)]
    assert again.history.funnel() == [FunnelCount(run, "t", 0, "proposed", "", 9)]
    again.close()


def test_a_record_that_is_known_is_still_a_trial_of_its_run(tmp_path: Path) -> None:
    database = SQLiteDatabase(tmp_path / "a.db")
    workload = database.commit_workload(matmul(8, 8, 8))
    place = {"seed": 1, "round": 0, "trial": 0}
    for _ in range(2):
        run = database.history.begin_run("again")
        database.commit_tuning_record(a_record(workload, 1.0, extra={**place, "run": run}))
    assert len(database) == 1
    assert [(trial.run, trial.record_id) for trial in database.history.trials()] == [(1, 1), (2, 1)]
    database.close()

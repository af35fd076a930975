"""Copies of databases: complete, and completed after a kill."""

from __future__ import annotations

import functools
import os
import signal
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import pytest

from tilewright.database import (
    Database,
    JSONDatabase,
    MemoryDatabase,
    PostgresDatabase,
    SQLiteDatabase,
    transfer,
    upgrade_database,
)
from tilewright.database.sqlite_schema import version_of
from tilewright.errors import DatabaseError
from tilewright.records import TuningRecord
from tilewright.testing.conformance.database import LLVM, a_record, assert_same_record, matmul
from tilewright.testing.postgres_server import PostgresServer
from tilewright.testing.tuned_databases import add_run


def with_history(database: Database) -> Database:
    """Two workloads, one without records, and a run of the other."""
    workload = database.commit_workload(matmul(8, 8, 8))
    database.commit_workload(matmul(8, 8, 16))
    run = database.history.begin_run("mm", target=LLVM, seed=7, options={"trials": 3})
    for trial in range(3):
        extra = {"run": run, "task": "mm", "trial": trial, "round": 0, "seed": 7 + trial}
        database.commit_tuning_record(a_record(workload, 1.0 + trial, extra=extra))
    database.history.set_count(run, "mm", 0, "proposed", 3)
    return database


def assert_copied(copied: Database, original: Database) -> None:
    assert len(copied) == len(original)
    for mine, theirs in zip(
        copied.get_all_tuning_records(), original.get_all_tuning_records(), strict=True
    ):
        assert_same_record(mine, theirs)
        assert mine.extra == theirs.extra
    assert len(copied.workloads()) == len(original.workloads())
    assert copied.history.runs() == original.history.runs()
    assert copied.history.trials() == original.history.trials()
    assert copied.history.funnel() == original.history.funnel()
    first = original.history.runs()[0].id
    assert copied.history.begin_run("next") > first


def test_a_copy_has_everything(tmp_path: Path) -> None:
    original = with_history(MemoryDatabase())
    copied = SQLiteDatabase(tmp_path / "copy.db")
    assert transfer.copy(original, copied) == 3
    assert transfer.copy(original, copied) == 0
    with_run_numbers = SQLiteDatabase(tmp_path / "again.db")
    assert transfer.copy(copied, with_run_numbers) == 3
    assert_copied(with_run_numbers, copied)
    assert [run.name for run in with_run_numbers.history.runs()] == ["mm", "next"]


def test_a_copy_to_a_server_and_back(postgres: PostgresServer, tmp_path: Path) -> None:
    original = with_history(SQLiteDatabase(tmp_path / "original.db"))
    server = PostgresDatabase(postgres.new_database())
    back = SQLiteDatabase(tmp_path / "back.db")
    assert transfer.copy(original, server) == transfer.copy(server, back) == 3
    assert_copied(back, original)
    server.close()


def test_runs_of_the_destination_stay(tmp_path: Path) -> None:
    copied = with_history(SQLiteDatabase(tmp_path / "copy.db"))
    before = copied.history.runs()
    other = MemoryDatabase()
    other.history.begin_run("other")
    transfer.copy(other, copied)
    assert copied.history.runs() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_copy_that_is_killed_is_completed_by_another(tmp_path: Path) -> None:
    original = with_history(SQLiteDatabase(tmp_path / "original.db"))
    workload = original.commit_workload(matmul(8, 8, 8))
    original.commit_tuning_records(a_record(workload, 9.0 + n) for n in range(62))
    original.close()
    kills = 0
    while True:
        child = os.fork()
        if child == 0:
            copy_and_die(tmp_path)
        if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
            break
        kills += 1
        copied = SQLiteDatabase(tmp_path / "copy.db")
        assert len(copied) == kills * 20
        assert copied.history.runs() == []  # they come last
    copied, original = (SQLiteDatabase(tmp_path / name) for name in ("copy.db", "original.db"))
    assert kills == 3
    assert_copied(copied, original)


def copy_and_die(folder: Path) -> None:
    """Copy in small batches, and be killed once 20 more records were copied."""
    source = SQLiteDatabase(folder / "original.db", read_only=True)
    copied = SQLiteDatabase(folder / "copy.db")
    most, commit = len(copied) + 20, copied.commit_tuning_records

    def commit_some(records: Iterable[TuningRecord]) -> int:
        if len(copied) == most:
            os.kill(os.getpid(), signal.SIGKILL)
        return commit(records)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "record_batches", functools.partial(source.record_batches, 5))
        patch.setattr(copied, "commit_tuning_records", commit_some)
        transfer.copy(source, copied)
    os._exit(0)


def test_trials_name_the_records_of_their_own_database(tmp_path: Path) -> None:
    source, copied = (SQLiteDatabase(tmp_path / name) for name in ("a.db", "b.db"))
    add_run(source, "mm", 16, (3e-6, 1e-6, 2e-6))
    transfer.prune(source)  # the second one is left, and will be the first
    transfer.copy(source, copied)
    assert [trial.record_id for trial in source.history.trials()] == [1, 2, 3]
    assert [trial.record_id for trial in copied.history.trials()] == [None, 1, None]
    source.close()
    copied.close()


# --- upgrades -----------------------------------------------------------------------------------


def made_old(path: Path) -> None:
    """Take back what later versions of the tables added."""
    raw = sqlite3.connect(path)
    raw.execute("DROP INDEX records_by_task")
    raw.execute("DROP INDEX records_by_program")
    raw.execute("ALTER TABLE records DROP COLUMN program")
    raw.execute("PRAGMA user_version = 1")
    raw.commit()
    raw.close()


def test_an_older_file_is_read_as_it_is_and_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    database = SQLiteDatabase(path)
    workload = database.commit_workload(matmul(8, 8, 8))
    hashes = ["00000000000000ff", None, 7]  # a hash, none, and one of a stranger
    for number, value in enumerate(hashes):
        extra = {"protocol": str(number), "candidate_hash": value}
        database.commit_tuning_record(a_record(workload, 1.0, extra=extra))
    database.close()
    made_old(path)
    reader = SQLiteDatabase(path, read_only=True)
    assert (len(reader.get_all_tuning_records()), reader.schema_version) == (3, 1)
    reader.close()
    assert upgrade_database(path) == (1, 3)
    assert upgrade_database(path) == (3, 3)
    raw = sqlite3.connect(path)
    assert version_of(raw) == 3
    assert raw.execute("SELECT program FROM records ORDER BY id").fetchall() == [
        ("00000000000000ff",), (None,), (None,),
    ]  # fmt: skip
    raw.close()


def test_damaged_rows_do_not_stop_an_upgrade(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    with_history(SQLiteDatabase(path)).close()
    raw = sqlite3.connect(path)
    raw.execute("UPDATE records SET extra = '{' WHERE id = 2")
    raw.commit()
    raw.close()
    made_old(path)
    assert upgrade_database(path) == (1, 3)
    assert len(SQLiteDatabase(path).get_all_tuning_records()) == 2


def test_what_has_no_tables(tmp_path: Path, postgres: PostgresServer) -> None:
    JSONDatabase(work_dir=tmp_path).commit_workload(matmul(8, 8, 8))
    with pytest.raises(DatabaseError, match="has no tables; SQLite's and PostgreSQL's can be upgr"):
        upgrade_database(f"json:{tmp_path}")
    with pytest.raises(DatabaseError, match="there is no database at"):
        upgrade_database(tmp_path / "x.db")
    with pytest.raises(DatabaseError, match="has no tables of Tilewright; `tilewright db init"):
        upgrade_database(postgres.new_database(is_empty=True))
    assert upgrade_database(postgres.new_database()) == (3, 3)

"""Damaged databases: every row is read as it was written or reported, and no other row is lost."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tilewright.database import Database, Problem, SQLiteDatabase, similarity
from tilewright.errors import DatabaseError
from tilewright.target import Target
from tilewright.testing.conformance.database import a_record, matmul
from tilewright.testing.corruption import damaged_texts, strange_value

SHAPES = ((4, 4, 4), (8, 8, 8), (16, 8, 4))


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with some of everything."""
    path = tmp_path_factory.mktemp("healthy") / "records.db"
    database = SQLiteDatabase(path)
    run = database.history.begin_run("tune", target="llvm", seed=1, options={"a": 1})
    for number, shape in enumerate(SHAPES):
        workload = database.commit_workload(matmul(*shape))
        for trial in range(3):
            extra = {"run": run, "task": "main", "trial": 3 * number + trial, "seed": trial}
            database.commit_tuning_record(a_record(workload, 1.0 + trial, extra=extra))
    database.history.set_count(run, "main", 0, "proposed", 3)
    database.save_state("search", {"round": 3})
    database.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = DELETE")  # one file
    connection.close()
    return path


def use(database: Database) -> None:
    """All that listings, reports, searches and builds ask."""
    target = Target("llvm")
    for workload in database.workloads():
        similarity.describe(workload.mod)
        database.get_top_k(workload, 2)
    for record in database.get_all_tuning_records():
        _ = record.is_valid, str(record.target), record.mean_secs
    for shape in (*SHAPES, (5, 5, 5)):
        mod = matmul(*shape)
        list(database.fitting_records(mod, target))
        database.query_schedule(mod, target, "main")
        database.explain_miss(mod, target)
        database.targets_of(mod)
    database.history.runs()
    database.history.trials()
    database.history.funnel()
    database.load_state("search")
    for problem in database.problems():
        str(problem)


def attack(path: Path) -> bool:
    """True if the file could be used; the only errors are ours."""
    try:
        database = SQLiteDatabase(path)
    except DatabaseError:
        return False
    try:
        use(database)
    except DatabaseError:
        return False
    finally:
        database.close()
    return True


def test_the_healthy_file_has_no_problems(healthy: Path, caplog: pytest.LogCaptureFixture) -> None:
    database = SQLiteDatabase(healthy)
    use(database)
    assert database.problems() == []
    assert len(database.get_all_tuning_records()) == 9
    assert [message for message in caplog.messages if "skipped" in message] == []


def test_changed_bytes_of_a_file(healthy: Path, tmp_path: Path, attack_seeds: list[int]) -> None:
    content = healthy.read_bytes()
    path = tmp_path / "records.db"
    used = 0
    for seed in attack_seeds:
        for number, damaged in enumerate(damaged_texts(content, random.Random(seed), 4)):
            path.with_suffix(".db-wal").unlink(missing_ok=True)
            path.with_suffix(".db-shm").unlink(missing_ok=True)
            path.write_bytes(damaged)
            try:
                used += attack(path)
            except Exception as error:
                raise AssertionError(f"seed {seed}, damage {number}") from error
    assert used  # much damage hits one row, or none


def cells(path: Path) -> list[tuple[str, str]]:
    connection = sqlite3.connect(path)
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    found = [
        (table, column[1])
        for (table,) in tables
        if not table.startswith("sqlite_")
        for column in connection.execute(f"PRAGMA table_info({table})")
    ]
    connection.close()
    return found


def spoil(path: Path, rng: random.Random) -> str:
    """Change one cell; what was done."""
    table, column = rng.choice(cells(path))
    connection = sqlite3.connect(path)
    connection.text_factory = bytes
    rows = connection.execute(f"SELECT {column} FROM {table}").fetchall()
    old = rng.choice(rows)[0]
    new = _spoiled(old, rng)
    done = f"{table}.{column} = {new!r}"
    try:
        connection.execute(
            f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {column} IS ?", (new, old)
        )
    except (sqlite3.Error, OverflowError, UnicodeEncodeError):
        done = ""  # SQLite itself keeps such values out
    connection.commit()
    connection.close()
    return done


def _spoiled(old: Any, rng: random.Random) -> Any:
    if isinstance(old, bytes) and old and rng.randrange(3):
        changed = next(damaged_texts(old, rng, 1))
        if rng.randrange(2):
            return changed
        return changed.decode(errors="replace")
    value = strange_value(rng)
    return value if isinstance(value, (int, float, str, type(None))) else b"\xff\xfe"


def test_changed_cells_of_a_file(healthy: Path, tmp_path: Path, attack_seeds: list[int]) -> None:
    path = tmp_path / "records.db"
    for seed in attack_seeds:
        rng = random.Random(seed)
        for number in range(6):
            shutil.copy(healthy, path)
            done = spoil(path, rng)
            try:
                attack(path)
            except Exception as error:
                raise AssertionError(f"seed {seed}, {number}: {done}") from error


# Statements that spoil one row, and what is said of it; everything else must still be there.
ONE_ROW = {
    "UPDATE workloads SET module = CAST(x'ff00ff' AS TEXT) WHERE id = 2": ("workloads", 2, 6),
    "UPDATE workloads SET module = '[' || module WHERE id = 2": ("workloads", 2, 6),
    "UPDATE workloads SET module = 7 WHERE id = 2": ("workloads", 2, 6),
    "UPDATE records SET run_secs = CAST(x'ff' AS TEXT) WHERE id = 4": ("records", 4, 8),
    "UPDATE records SET extra = 'null' WHERE id = 4": ("records", 4, 8),
    "UPDATE records SET extra = '{\"seed\":{}}' WHERE id = 4": ("records", 4, 8),
    "UPDATE records SET error_msg = x'ff' WHERE id = 4": ("records", 4, 8),
    "UPDATE records SET workload_id = 'two' WHERE id = 4": ("records", 4, 8),
    "UPDATE records SET trace = CAST(x'ff' AS TEXT) WHERE id = 4": ("records", 4, 8),
    "UPDATE records SET mean = 1e-9 WHERE id = 4": ("records", 4, 8),
    "INSERT INTO targets VALUES (7, '', CAST(x'ff' AS TEXT), '{}', NULL, NULL)": ("targets", 7, 9),
    "INSERT INTO targets VALUES (7, 'llvm', '{}', '{}', NULL, '3')": ("targets", 7, 9),
    "INSERT INTO targets VALUES (7, 'llvm', '{\"kind\":[]}', '[]', NULL, '[]')": ("targets", 7, 9),
}  # fmt: skip


@pytest.mark.parametrize("statement", ONE_ROW)
def test_only_the_damaged_row_is_lost(healthy: Path, tmp_path: Path, statement: str) -> None:
    table, row, left = ONE_ROW[statement]
    path = tmp_path / "records.db"
    shutil.copy(healthy, path)
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    database = SQLiteDatabase(path)
    use(database)
    assert len(database.get_all_tuning_records()) == left
    found = database.problems()
    assert (found[0].table, found[0].row) == (table, row)
    assert len(found) == (1 + 9 - left if table == "workloads" else 1)
    database.close()


def test_a_mean_that_the_running_times_do_not_give(healthy: Path, tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    shutil.copy(healthy, path)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE records SET mean = 1e-9 WHERE id = 3")
    connection.commit()
    connection.close()
    database = SQLiteDatabase(path)
    reason = "its mean is 1e-09 s, but its running times give 3 s"
    assert database.problems() == [Problem("records", 3, reason)]
    best = database.query_tuning_record(matmul(4, 4, 4), Target("llvm"), "main")
    assert best is not None
    assert best.mean_secs == 1.0


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        (
            "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END",
            "the trigger 't'",
        ),
        (
            "CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) "
            "SELECT i FROM n",
            "the view 'v'",
        ),
        ("CREATE VIRTUAL TABLE f USING fts5(a)", "the table 'f'"),
    ],
)
def test_parts_of_a_schema_that_act_by_themselves_are_refused(
    healthy: Path, tmp_path: Path, statement: str, what: str
) -> None:
    path = tmp_path / "records.db"
    shutil.copy(healthy, path)
    connection = sqlite3.connect(path)
    try:
        connection.execute(statement)
    except sqlite3.OperationalError:
        pytest.skip("this SQLite cannot make it")
    connection.commit()
    connection.close()
    with pytest.raises(DatabaseError) as caught:
        SQLiteDatabase(path)
    assert str(caught.value) == (
        f"{path} holds {what}, which Tilewright did not make; use a copy without it"
    )


def test_the_schema_is_not_trusted(healthy: Path) -> None:
    for read_only in (False, True):
        connection = SQLiteDatabase(healthy, read_only=read_only)._file.connection
        assert connection.execute("PRAGMA trusted_schema").fetchone() == (0,)
        assert connection.execute("PRAGMA cell_size_check").fetchone() == (1,)
        connection.close()

"""Merging, pruning, exporting, importing, and opening by URL."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from tilewright.database import (
    Database,
    JSONDatabase,
    MemoryDatabase,
    SQLiteDatabase,
    databases,
    export,
    import_json,
    merge,
    open_database,
    prune,
)
from tilewright.errors import DatabaseError
from tilewright.records import FAILED_RUN_SECS, FailureKind
from tilewright.target import Target
from tilewright.testing.conformance.database import LLVM, a_record, assert_same_record, matmul

OTHER = Target("llvm -mcpu=haswell -num-cores=8")


def filled() -> MemoryDatabase:
    """Two workloads; the first on two targets, with a failure."""
    database = MemoryDatabase()
    first, second = (database.commit_workload(matmul(n, n, n)) for n in (8, 16))
    place = {"protocol": "v1", "seed": 3, "round": 0, "prediction": 0.5}
    database.commit_tuning_records(
        [
            a_record(first, 3.0),
            a_record(first, 1.0, 2.0, extra=place),
            a_record(first, 0.5, target=OTHER),
            a_record(first, FAILED_RUN_SECS, failure=FailureKind.TIMEOUT, error_msg="10 s"),
            a_record(second, 5.0),
        ]
    )
    return database


def seconds(database: Database) -> list[float]:
    return sorted(record.mean_secs for record in database.get_all_tuning_records())


ALL = [0.5, 1.5, 3.0, 5.0, FAILED_RUN_SECS]


@pytest.mark.parametrize("kind", ["memory:", "records.db", "json:files"])
def test_merge(kind: str, tmp_path: Path) -> None:
    url = kind if kind == "memory:" else kind.replace("files", f"{tmp_path}/files")
    destination = open_database(tmp_path / url if url.endswith(".db") else url)
    extra = MemoryDatabase()
    extra.commit_tuning_record(a_record(extra.commit_workload(matmul(8, 8, 8)), 4.0))
    assert merge(destination, filled(), extra) == 6
    assert merge(destination, filled(), extra) == 0
    assert seconds(destination) == sorted([*ALL, 4.0])
    assert len(destination.workloads()) == 2
    workload = destination.commit_workload(matmul(8, 8, 8))
    found = destination.get_top_k(workload, 1)[0]
    assert_same_record(found, a_record(workload, 0.5, target=OTHER))
    destination.close()


def test_prune(tmp_path: Path) -> None:
    for number, database in enumerate((filled(), SQLiteDatabase(tmp_path / "a.db"))):
        merge(database, filled())
        assert prune(database, 2) == 1
        assert seconds(database) == [0.5, 1.5, 3.0, 5.0], number
        assert prune(database) == 1
        assert seconds(database) == [0.5, 1.5, 5.0]
        assert prune(database) == 0
        with pytest.raises(DatabaseError, match="top_k must be at least 1, got 0"):
            prune(database, 0)
    again = SQLiteDatabase(tmp_path / "a.db")
    assert seconds(again) == [0.5, 1.5, 5.0]


def test_pruned_files_of_tvm(tmp_path: Path) -> None:
    database = JSONDatabase(work_dir=tmp_path)
    merge(database, filled())
    prune(database)
    assert seconds(database) == seconds(JSONDatabase(work_dir=tmp_path)) == [0.5, 1.5, 5.0]
    database.commit_tuning_record(a_record(database.commit_workload(matmul(8, 8, 8)), 0.25))
    assert seconds(JSONDatabase(work_dir=tmp_path)) == [0.25, 0.5, 1.5, 5.0]


def test_dump_pruned() -> None:
    destination = MemoryDatabase()
    filled().dump_pruned(destination)
    assert seconds(destination) == [0.5, 1.5, 5.0]


# --- files --------------------------------------------------------------------------------------


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    assert export(filled(), path, "csv") == 5
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["workload"] for row in rows] == ["C 8x8x8"] * 4 + ["C 16x16x16"]
    best, failed = rows[1], rows[3]
    assert (best["mean_secs"], best["run_secs"], best["valid"]) == ("1.5", "1.0 2.0", "1")
    assert (best["protocol"], best["seed"], best["round"]) == ("v1", "3", "0")
    assert best["target"] == str(Target(LLVM))
    assert (failed["failure"], failed["error_msg"], failed["valid"]) == ("timeout", "10 s", "0")


def test_json(tmp_path: Path) -> None:
    path, original = tmp_path / "records.json", filled()
    assert export(original, path, "json") == 5
    copy = SQLiteDatabase(tmp_path / "copy.db")
    assert import_json(path, copy) == 5
    assert import_json(path, copy) == 0
    pairs = zip(copy.get_all_tuning_records(), original.get_all_tuning_records(), strict=True)
    for found, expected in pairs:
        assert_same_record(found, expected)
        assert found.failure is expected.failure
        assert found.error_msg == expected.error_msg
        assert found.extra == expected.extra
    assert merge(copy, original) == 0  # nothing that makes a record was lost


@pytest.mark.parametrize("format", ["tvm", "tvm-0.25"])
def test_tvm(format: str, tmp_path: Path) -> None:
    assert export(filled(), tmp_path, format) == 5
    assert seconds(JSONDatabase(work_dir=tmp_path, allow_missing=False)) == ALL
    assert export(filled(), tmp_path, format) == 0


def test_what_cannot_be_imported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "records.json"
    with pytest.raises(DatabaseError, match=re.escape(f"cannot read {path}: ")):
        import_json(path, MemoryDatabase())
    path.write_text("{")
    with pytest.raises(DatabaseError, match=re.escape(f"cannot read {path}: ")):
        import_json(path, MemoryDatabase())
    path.write_text('{"tilewright_database": 9}')
    text = (
        f"{path} is not an exported database that this version can read: expected "
        '"tilewright_database": 1, got 9'
    )
    with pytest.raises(DatabaseError, match=re.escape(text)):
        import_json(path, MemoryDatabase())
    export(filled(), path, "json")
    document = json.loads(path.read_text())
    del document["records"][0]["trace"]
    path.write_text(json.dumps(document))
    number = len(document["records"])
    assert import_json(path, MemoryDatabase()) == number - 1
    assert caplog.messages == ["skipped an entry: records 1: KeyError('trace')"]
    path.write_text('{"tilewright_database": 1}')
    with pytest.raises(DatabaseError, match=re.escape(f"{path} is damaged: KeyError('workloads')")):
        import_json(path, MemoryDatabase())
    with pytest.raises(DatabaseError, match="unknown format 'xml'"):
        export(filled(), path, "xml")


# --- URLs ---------------------------------------------------------------------------------------


def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("memory:", "memory://"):
        assert isinstance(open_database(url), MemoryDatabase)
    opened = [
        open_database(url) for url in ("a.db", f"sqlite:///{tmp_path}/a.db", "sqlite:///a.db")
    ]
    for database in opened:
        assert isinstance(database, SQLiteDatabase)
        assert Path(database.path).resolve() == tmp_path / "a.db"
        database.close()
    for url in ("json:files", f"json://{tmp_path}/files", "files"):
        made = open_database(url)
        assert isinstance(made, JSONDatabase)
        assert Path(made.path_workload).resolve() == tmp_path / "files" / "database_workload.json"
    (tmp_path / "work").mkdir()
    open_database("work/tilewright.db").close()
    found = open_database("work", module_equality="anchor-block", read_only=True)
    assert isinstance(found, SQLiteDatabase)
    found.close()


def test_urls_that_name_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    mistakes = {
        "mysql://host/x": "unknown kind of database 'mysql' in 'mysql://host/x'; use a path, "
        "sqlite:///PATH, postgresql://HOST/NAME, json:DIRECTORY or memory:",
        "empty": "there is no database in the directory empty; write empty/tilewright.db or "
        "json:empty to make one",
        "records": "there is no database at records; a new one is made if the name ends in .db, "
        ".sqlite, .sqlite3",
    }
    for url, text in mistakes.items():
        with pytest.raises(DatabaseError, match=re.escape(text)):
            open_database(url)
    with pytest.raises(DatabaseError, match=r"there is no database at a\.db"):
        open_database("a.db", read_only=True)
    with pytest.raises(DatabaseError, match="there is no file "):
        open_database("json:empty", read_only=True)


def test_kinds_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    class Remote(MemoryDatabase):
        def __init__(self, url: str, module_equality: str, read_only: bool) -> None:
            super().__init__(module_equality)
            self.url = url

    monkeypatch.setitem(databases._members, "remote", Remote)
    monkeypatch.setitem(databases._members, "broken-remote", lambda url, **options: url)
    made = open_database("remote://host/records")
    assert isinstance(made, Remote)
    assert made.url == "remote://host/records"
    with pytest.raises(DatabaseError, match="'broken-remote' is not a database"):
        open_database("broken-remote:x")

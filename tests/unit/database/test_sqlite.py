"""The SQLite database: what is particular to it."""

from __future__ import annotations

import dataclasses
import random
import re
import sqlite3
import threading
from pathlib import Path

import pytest

from tilewright.database import Problem, SQLiteDatabase, merge
from tilewright.database.history import Trial
from tilewright.database.sql_tables import SCHEMA_VERSION
from tilewright.database.sqlite_file import refuse_network_file_system
from tilewright.database.sqlite_schema import APPLICATION_ID, migrate, version_of
from tilewright.database.stored_record import StoredTrace
from tilewright.errors import DatabaseError
from tilewright.records import FAILED_RUN_SECS, FailureKind, TuningRecord, Workload
from tilewright.target import Target
from tilewright.testing.conformance.database import LLVM, a_record, matmul


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.db"


def filled(path: Path, count: int = 3) -> SQLiteDatabase:
    database = SQLiteDatabase(path)
    workload = database.commit_workload(matmul(16, 16, 16))
    database.commit_tuning_records(
        a_record(workload, float(secs), seed=secs) for secs in range(1, count + 1)
    )
    return database


def seconds(database: SQLiteDatabase) -> list[float]:
    return [record.mean_secs for record in database.get_all_tuning_records()]


# --- what a record keeps ------------------------------------------------------------------------


def test_everything_about_a_record_is_kept(path: Path) -> None:
    database = SQLiteDatabase(path)
    record = a_record(
        database.commit_workload(matmul(8, 8, 8)),
        FAILED_RUN_SECS,
        failure=FailureKind.OUT_OF_MEMORY,
        error_msg="needs 8 GiB",
        extra={"protocol": "v1", "seed": 3, "round": 2, "prediction": 0.25, "notes": ["a"]},
    )
    database.commit_tuning_record(record)
    database.close()
    (found,) = SQLiteDatabase(path).get_all_tuning_records()
    assert found.failure is FailureKind.OUT_OF_MEMORY
    assert found.error_msg == "needs 8 GiB"
    assert found.extra == record.extra
    assert found.identity is not None
    assert found.identity.description["mcpu"] == Target(LLVM).mcpu
    with sqlite3.connect(path) as raw:
        row = raw.execute("SELECT protocol, seed, round, failure, schema FROM records").fetchone()
    raw.close()
    assert row == ("v1", 3, 2, "out_of_memory", SCHEMA_VERSION)


def test_a_record_is_known_by_its_place_in_the_search(path: Path) -> None:
    database = SQLiteDatabase(path)
    workload = database.commit_workload(matmul(8, 8, 8))
    place = {"protocol": "v1", "seed": 3, "round": 0}
    first = a_record(workload, 1.0, extra=place)
    measured_again = dataclasses.replace(first, run_secs=(1.1,))
    assert database.commit_tuning_records([first, measured_again]) == 1
    others = [
        dataclasses.replace(first, extra={**place, "round": 1}),
        dataclasses.replace(first, extra={**place, "seed": 4}),
        dataclasses.replace(first, extra={**place, "protocol": "v2"}),
        dataclasses.replace(first, target=Target("llvm -mcpu=haswell")),
    ]
    assert database.commit_tuning_records(others) == 4
    assert seconds(database) == [1.0] * 5


def test_traces_stay_text_until_somebody_looks(path: Path) -> None:
    filled(path).close()
    database = SQLiteDatabase(path)
    for record in database.get_top_k(database.commit_workload(matmul(16, 16, 16)), 3):
        assert isinstance(record.trace, StoredTrace)
        assert "insts" not in record.trace.__dict__
        assert record.trace.insts[0].primitive.kind == "GetBlock"


def test_records_of_another_machine_keep_its_target(path: Path) -> None:
    filled(path, 1).close()
    with sqlite3.connect(path) as raw:
        raw.execute(
            "UPDATE targets SET fingerprint = 'llvm;cpu=haswell;cores=4;isa=avx2', description = "
            """'{"kind": "llvm", "keys": ["cpu"], "tag": "", "mcpu": "haswell", "num-cores": 4}'"""
        )
    raw.close()
    (record,) = SQLiteDatabase(path).get_all_tuning_records()
    assert record.target == Target("llvm -mcpu=haswell -num-cores=4")


def test_values_that_json_does_not_have(path: Path) -> None:
    database = SQLiteDatabase(path)
    record = a_record(database.commit_workload(matmul(8, 8, 8)), 1.0, extra={"what": object()})
    text = "extra must be made of numbers, texts, lists and dictionaries: "
    with pytest.raises(DatabaseError, match=re.escape(text)):
        database.commit_tuning_record(record)
    with pytest.raises(DatabaseError, match=re.escape("the state 'x' must be made of numbers")):
        database.save_state("x", {1, 2} and object())
    assert len(database) == 0


def test_seconds_that_are_no_numbers(path: Path) -> None:
    database = SQLiteDatabase(path)
    workload = database.commit_workload(matmul(8, 8, 8))
    database.commit_tuning_record(a_record(workload, float("nan"), float("inf")))
    (record,) = database.get_all_tuning_records()
    assert record.run_secs == (FAILED_RUN_SECS, FAILED_RUN_SECS)
    assert database.get_top_k(workload, 1) == []


def test_many_records_come_in_order(path: Path) -> None:
    """More than are read at once, of several targets."""
    database, mod = SQLiteDatabase(path), matmul(16, 16, 16)
    workload = database.commit_workload(mod)
    here, older, newer = (Target(f"llvm -mcpu={cpu}") for cpu in ("haswell", "nehalem", "znver4"))
    secs = [float(secs) for secs in range(1, 91)]
    random.Random(1).shuffle(secs)
    targets = (here, older, newer, None)
    database.commit_tuning_records(
        a_record(workload, each, target=targets[int(each) % 4]) for each in secs
    )
    assert [record.mean_secs for record in database.get_top_k(workload, 70)] == sorted(secs)[:70]
    found = [record.mean_secs for record in database.fitting_records(mod, here)]
    expected = [sorted(each for each in secs if each % 4 == rest) for rest in (0, 1, 3)]
    assert found == [*expected[0], *expected[1], *expected[2]]
    assert database.targets_of(mod) == sorted(map(str, (here, older, newer)))


# --- transactions -------------------------------------------------------------------------------


def test_an_error_undoes_the_whole_transaction(path: Path) -> None:
    database = filled(path, 1)
    new = matmul(8, 8, 8)

    def fail() -> None:
        with database.transaction():
            workload = database.commit_workload(new)
            database.commit_tuning_record(a_record(workload, 5.0))
            database.save_state("round", 1)
            raise RuntimeError("the tuner broke")

    with pytest.raises(RuntimeError, match="the tuner broke"):
        fail()
    assert not database.has_workload(new)
    assert seconds(database) == [1.0]
    assert database.load_state("round") is None
    # The ids that were given in vain are given again, to something else.
    other = database.commit_workload(matmul(4, 4, 4))
    database.commit_tuning_record(a_record(other, 7.0))
    assert database.commit_workload(new) is not other
    assert seconds(database) == [1.0, 7.0]


def test_transactions_may_be_nested(path: Path) -> None:
    database = filled(path, 1)
    reader = SQLiteDatabase(path, read_only=True)
    with database.transaction():
        with database.transaction():
            database.save_state("round", 1)
        assert reader.load_state("round") is None
    assert reader.load_state("round") == 1


def test_threads_take_turns(path: Path) -> None:
    database = SQLiteDatabase(path)
    workload = database.commit_workload(matmul(8, 8, 8))

    def commit(first: int) -> None:
        for number in range(first, first + 10):
            database.commit_tuning_record(a_record(workload, float(number + 1)))

    threads = [threading.Thread(target=commit, args=(first,)) for first in (0, 10, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seconds(database)) == [float(number) for number in range(1, 31)]


def test_two_writers_do_not_add_a_workload_twice(path: Path) -> None:
    one, two = SQLiteDatabase(path), SQLiteDatabase(path)
    first = one.commit_workload(matmul(8, 8, 8))
    second = two.commit_workload(matmul(8, 8, 8))
    one.commit_tuning_record(a_record(first, 1.0))
    two.commit_tuning_record(a_record(second, 2.0))
    assert len(one.workloads()) == 1
    assert seconds(one) == seconds(two) == [1.0, 2.0]


# --- opening ------------------------------------------------------------------------------------


def test_read_only_means_it(path: Path) -> None:
    filled(path).close()
    before = path.read_bytes()
    reader = SQLiteDatabase(path, read_only=True)
    workload = reader.commit_workload(matmul(16, 16, 16))  # known, so nothing is written
    assert len(reader.get_top_k(workload, 3)) == 3
    text = re.escape(f"the database {path} was opened read-only")
    with pytest.raises(DatabaseError, match=text):
        reader.commit_tuning_record(a_record(workload, 9.0))
    with pytest.raises(DatabaseError, match=text):
        reader.commit_workload(matmul(8, 8, 8))
    with pytest.raises(DatabaseError, match=text):
        reader.save_state("x", 1)
    reader.close()
    assert path.read_bytes() == before


def test_missing_files(path: Path) -> None:
    text = re.escape(f"there is no database at {path}")
    with pytest.raises(DatabaseError, match=text):
        SQLiteDatabase(path, read_only=True)
    with pytest.raises(DatabaseError, match=text):
        SQLiteDatabase(path, allow_missing=False)
    with pytest.raises(DatabaseError, match="an SQLite database needs a path or a work_dir"):
        SQLiteDatabase()
    assert SQLiteDatabase(work_dir=path.parent).path == str(path.parent / "tilewright.db")


def test_newer_schemas_are_refused_with_advice(path: Path) -> None:
    filled(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA user_version = 99")
    raw.close()
    for read_only in (False, True):
        with pytest.raises(DatabaseError) as failure:
            SQLiteDatabase(path, read_only=read_only)
        text = str(failure.value)
        assert "was written by a newer Tilewright: its schema is 99, this version" in text
        assert text.endswith(
            f"reads up to {SCHEMA_VERSION}; upgrade Tilewright, or export the database to JSON "
            "with the newer version"
        )


def test_older_schemas_are_migrated_all_or_nothing() -> None:
    raw = sqlite3.connect(":memory:", isolation_level=None)
    raw.execute("CREATE TABLE records (id INTEGER)")
    raw.execute("PRAGMA user_version = 1")

    def add(column: str) -> None:
        raw.execute(f"ALTER TABLE records ADD COLUMN {column}")

    def broken(connection: sqlite3.Connection) -> None:
        add("third")
        raise RuntimeError("no space left")

    with pytest.raises(RuntimeError, match="no space left"):
        migrate(raw, 1, 3, {1: lambda _: add("second"), 2: broken})
    assert version_of(raw) == 1
    migrate(raw, 1, 3, {1: lambda _: add("second"), 2: lambda _: add("third")})
    assert version_of(raw) == 3
    assert [row[1] for row in raw.execute("PRAGMA table_info(records)")] == [
        "id",
        "second",
        "third",
    ]
    raw.close()


def test_files_that_are_not_ours(path: Path) -> None:
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE photos (name TEXT)")
    raw.close()
    text = f"{path} is an SQLite database, but not one of Tilewright; choose another file"
    with pytest.raises(DatabaseError, match=re.escape(text)):
        SQLiteDatabase(path)
    path.write_text("no database at all, but long enough to be read as the head of one" * 20)
    text = f"cannot open the database {path}: file is not a database"
    with pytest.raises(DatabaseError, match=re.escape(text)):
        SQLiteDatabase(path)
    with pytest.raises(DatabaseError, match="cannot open the database"):
        SQLiteDatabase(path.parent)


def test_network_file_systems_are_refused(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/sda / ext4 rw 0 0\nserver:/x /mnt/my\\040share nfs4 rw 0 0\n")
    refuse_network_file_system("/home/me/records.db", mounts)
    with pytest.raises(DatabaseError) as failure:
        refuse_network_file_system("/mnt/my share/deep/records.db", mounts)
    assert str(failure.value) == (
        "/mnt/my share/deep/records.db is on a network file system (nfs4), where SQLite can lose "
        "data; put the database on a local disk, or use TVM's JSON files (json:DIRECTORY)"
    )
    refuse_network_file_system("/mnt/records.db", tmp_path / "no such list")


# --- damage -------------------------------------------------------------------------------------


def damage(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as raw:
        for statement in statements:
            raw.execute(statement)
    raw.close()


def test_garbage_rows_are_reported_and_skipped(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(path, 7).close()
    damage(
        path,
        "UPDATE records SET trace = substr(trace, 1, 40) WHERE id = 1",
        "UPDATE records SET run_secs = 'oops' WHERE id = 2",
        "UPDATE records SET failure = 'bad luck' WHERE id = 3",
        "UPDATE records SET workload_id = 77 WHERE id = 4",
        "UPDATE records SET trace = x'00ff' WHERE id = 5",
        "UPDATE records SET target_id = 9 WHERE id = 6",
    )
    database = SQLiteDatabase(path)
    assert seconds(database) == [7.0]
    assert seconds(database) == [7.0]
    assert len(caplog.messages) == 6  # each once
    assert caplog.messages[0].endswith(
        "skipped a row: records 1: the trace is not the one that was written"
    )
    found = {problem.row: problem for problem in database.problems()}
    assert sorted(found) == [1, 2, 3, 4, 5, 6]
    assert found[1] == Problem("records", 1, "the trace is not the one that was written")
    assert str(found[3]) == "records 3: 'bad luck' is not a valid FailureKind"
    assert found[4].reason == "workload 77 is missing"
    assert found[6].reason == "target 9 is missing"
    (best,) = database.get_top_k(database.commit_workload(matmul(16, 16, 16)), 9)
    assert best.mean_secs == 7.0
    queried = database.query_tuning_record(matmul(16, 16, 16), Target(LLVM), "main")
    assert queried is not None
    assert queried.mean_secs == 7.0


def test_unreadable_workloads_and_states(path: Path) -> None:
    database = filled(path, 1)
    database.save_state("search", 1)
    database.close()
    damage(path, "UPDATE workloads SET module = '{}'", "UPDATE state SET value = '{'")
    database = SQLiteDatabase(path)
    assert seconds(database) == []
    assert database.workloads() == []
    assert database.load_state("search") is None
    assert not database.has_workload(matmul(16, 16, 16))
    assert [(problem.table, problem.row) for problem in database.problems()] == [
        ("workloads", 1),
        ("records", 1),
    ]
    # Tuning can start anew in the same file.
    database.commit_tuning_record(a_record(database.commit_workload(matmul(16, 16, 16)), 2.0))
    assert seconds(database) == [2.0]


def test_traces_that_make_no_sense_are_passed_over(path: Path) -> None:
    database = SQLiteDatabase(path)
    mod = matmul(16, 16, 16)
    workload = database.commit_workload(mod)
    elsewhere = StoredTrace(b'[[["GetBlock",[],["missing","main"],["b0"]]],[]]')
    unknown = StoredTrace(b'[[["Levitate",[],[],[]]],[]]')
    database.commit_tuning_records(
        [
            TuningRecord(elsewhere, workload, (1.0,), Target(LLVM)),
            a_record(workload, 3.0),
        ]
    )
    damaged = TuningRecord(unknown, workload, (2.0,), Target(LLVM))
    with pytest.raises(Exception, match="unknown schedule instruction 'Levitate'"):
        database.commit_tuning_record(damaged)
    sch = database.query_schedule(mod, Target(LLVM), "main")
    assert sch is not None
    assert str(sch.trace) == str(a_record(workload, 3.0).trace)


@pytest.mark.parametrize("keep", [0.8, 0.9, 0.96])
def test_a_file_that_is_cut_off(path: Path, tmp_path: Path, keep: float) -> None:
    database = filled(path, 60)
    database.save_state("search", {"round": 2})
    database.close()
    content = path.read_bytes()
    cut = len(content) * keep // 4096 * 4096
    path.write_bytes(content[: int(cut)])
    database = SQLiteDatabase(path)
    left = seconds(database)
    assert 0 < len(left) < 60
    assert left == sorted(left)
    lost = {problem.row for problem in database.problems() if problem.table == "records"}
    assert lost == set(range(1, 61)) - {int(secs) for secs in left}
    best = database.query_tuning_record(matmul(16, 16, 16), Target(LLVM), "main")
    assert best is not None
    assert best.mean_secs == left[0]
    text = (
        f"the database {path} is damaged and can only be read; copy what is left into a new one "
        "with `merge`"
    )
    with pytest.raises(DatabaseError, match=re.escape(text)):
        database.commit_tuning_record(a_record(Workload(matmul(8, 8, 8), 0), 1.0))
    rescued = SQLiteDatabase(tmp_path / "rescued.db")
    assert merge(rescued, database) == len(left)


def test_a_page_of_garbage(path: Path) -> None:
    filled(path, 60).close()
    content = bytearray(path.read_bytes())
    page = content.index(b'"GetBlock"', len(content) // 2) // 4096 * 4096
    content[page : page + 4096] = b"\xa5" * 4096
    path.write_bytes(content)
    database = SQLiteDatabase(path)
    left = seconds(database)
    assert 0 < len(left) < 60
    lost = {problem.row for problem in database.problems() if problem.table == "records"}
    assert lost == set(range(1, 61)) - {int(secs) for secs in left}


def test_nothing_left(path: Path) -> None:
    filled(path).close()
    path.write_bytes(path.read_bytes()[:4096])
    text = f"the database {path} is damaged and nothing in it can be used: its workloads are lost"
    with pytest.raises(DatabaseError, match=re.escape(text)):
        SQLiteDatabase(path)


def test_the_file_says_whose_it_is(path: Path) -> None:
    filled(path).close()
    assert path.read_bytes()[68:72] == APPLICATION_ID.to_bytes(4, "big") == b"TLWR"


def test_damaged_rows_of_the_history_are_problems(path: Path) -> None:
    database = filled(path, 1)
    history = database.history
    runs = [history.begin_run(name) for name in ("first", "second")]
    history.add_trials([Trial(run, "main", 0, record_id=1) for run in runs])
    for run in runs:
        history.set_count(run, "main", 0, "proposed", 3)
    assert database.problems() == []
    database.close()
    damage(
        path,
        f"UPDATE runs SET options = '[' WHERE id = {runs[0]}",
        f"UPDATE trials SET failure = 'bad luck' WHERE run_id = {runs[1]}",
        f"UPDATE funnel SET count = 'many' WHERE run_id = {runs[0]}",
    )
    database = SQLiteDatabase(path)
    found = [(problem.table, problem.row) for problem in database.problems()]
    assert found == [("runs", runs[0]), ("trials", runs[1]), ("funnel", runs[0])]
    assert len(database.history.runs()) == 1

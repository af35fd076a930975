"""SQLite among processes: killed writers lose and double nothing, readers disturb nobody."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.database import MemoryDatabase, SQLiteDatabase
from tilewright.errors import DatabaseError
from tilewright.records import TuningRecord, Workload
from tilewright.testing.conformance.database import a_record, matmul

ROUND = 8  # records that are committed together
MOD = matmul(16, 16, 16)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def search(workload: Workload) -> list[list[TuningRecord]]:
    """The same candidates in the same rounds each time."""
    return [
        [
            a_record(workload, float(number + 1), seed=number, extra=place(number))
            for number in range(start, start + ROUND)
        ]
        for start in range(0, 20 * ROUND, ROUND)
    ]


def place(number: int) -> dict[str, object]:
    # Trials of one round may be the same candidate; here each is one of its own.
    return {"protocol": f"trial {number}", "seed": 7, "round": number // ROUND}


ROUNDS = search(Workload(MOD, 0))
MemoryDatabase().commit_tuning_records(ROUNDS[0])  # what is detected once is known to children


def in_child(work: Callable[[int], None]) -> tuple[int, int]:
    """Run something in a process of its own that writes to a pipe; its id and the pipe."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            work(writing)
        finally:
            os._exit(0)  # no clean-up of the parent's test run
    os.close(writing)
    return child, reading


def read_all(pipe: int) -> bytes:
    with os.fdopen(pipe, "rb") as file:
        return file.read()


def commit_rounds(path: Path, pipe: int) -> None:
    """What a tuner does: go on where the state says, commit a round and the state together."""
    database = SQLiteDatabase(path)
    for number in range(database.load_state("round") or 0, len(ROUNDS)):
        with database.transaction():
            database.commit_tuning_records(ROUNDS[number])
            database.save_state("round", number + 1)
        os.write(pipe, b"c")
        time.sleep(0.002)  # measuring takes time, too


def test_a_killed_writer_loses_and_doubles_nothing(tmp_path: Path) -> None:
    path, rng = tmp_path / "records.db", random.Random(5)
    reported = kills = 0
    while True:
        child, pipe = in_child(lambda writing: commit_rounds(path, writing))
        if kills % 3:  # else it dies before or while it opens the file
            reported += len(os.read(pipe, 1))
        time.sleep(rng.uniform(0.0, 0.01))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        reported += len(read_all(pipe))
        kills += os.WIFSIGNALED(status)
        database = SQLiteDatabase(path)
        committed = database.load_state("round") or 0
        # A commit may have gone through just before its report could be written.
        assert reported <= committed <= reported + 1
        records = database.get_all_tuning_records()
        expected = [record.mean_secs for round_ in ROUNDS[:committed] for record in round_]
        assert [record.mean_secs for record in records] == expected
        assert database.problems() == []
        database.close()
        if committed == len(ROUNDS):
            break
        reported = committed
    assert kills >= 3


def test_a_search_that_starts_anew_doubles_nothing(tmp_path: Path) -> None:
    database = SQLiteDatabase(tmp_path / "records.db")
    for _ in range(2):
        for records in ROUNDS[:3]:
            database.commit_tuning_records(records)
    assert len(database) == 3 * ROUND


def test_readers_see_whole_rounds_while_a_writer_works(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    SQLiteDatabase(path).close()
    child, pipe = in_child(lambda writing: commit_rounds(path, writing))
    reader = SQLiteDatabase(path, read_only=True)
    seen = [0]
    while seen[-1] < len(ROUNDS) * ROUND:
        seen.append(len(reader.get_all_tuning_records()))
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert len(read_all(pipe)) == len(ROUNDS)
    assert seen == sorted(seen)
    assert all(count % ROUND == 0 for count in seen)


def test_a_database_in_a_directory_that_may_only_be_read() -> None:
    """Also where SQLite cannot make the files that readers and writers share."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody who may not write here")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.db"
        writer = SQLiteDatabase(path)
        writer.commit_tuning_records(ROUNDS[0])
        writer.close()
        Path(folder).chmod(0o555)
        child, pipe = in_child(lambda writing: count_as_nobody(path, writing))
        os.waitpid(child, 0)
        assert read_all(pipe) == str(ROUND).encode()


def count_as_nobody(path: Path, pipe: int) -> None:
    os.setuid(65534)
    os.write(pipe, str(len(SQLiteDatabase(path, read_only=True))).encode())


def test_writers_wait_for_each_other_and_then_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.database.sqlite_file.BUSY_SECONDS", 0.05)
    one, two = (SQLiteDatabase(tmp_path / "records.db") for _ in range(2))
    with one.transaction():
        one.commit_tuning_records(ROUNDS[0])
        with pytest.raises(DatabaseError) as failure:
            two.commit_tuning_records(ROUNDS[1])
    assert str(failure.value) == (
        f"another process has been writing to the database {tmp_path}/records.db for more than "
        "0 s; wait for it, or give each its own file and `merge` them"
    )
    two.commit_tuning_records(ROUNDS[1])
    assert len(one) == 2 * ROUND


def test_a_reader_in_the_middle_of_reading_does_not_block_the_writer(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    writer = SQLiteDatabase(path)
    writer.commit_tuning_records(ROUNDS[0])
    reader = SQLiteDatabase(path, read_only=True)
    cursor = reader._file.connection.execute("SELECT id FROM records")
    assert cursor.fetchone() == (1,)  # the read transaction is open
    writer.commit_tuning_records(ROUNDS[1])
    assert len(writer) == 2 * ROUND
    assert len(cursor.fetchall()) == ROUND - 1
    assert len(reader) == 2 * ROUND

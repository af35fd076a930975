"""TVM's two files under attack: damaged lines, full disks, several writers at once."""

from __future__ import annotations

import errno
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.database import JSONDatabase, similarity
from tilewright.errors import DatabaseError
from tilewright.ir import structural_equal
from tilewright.target import Target
from tilewright.testing.conformance.database import a_record, matmul
from tilewright.testing.corruption import damaged_documents, damaged_texts

FILES = ("database_workload.json", "database_tuning_record.json")


def filled(folder: Path, dialect: str = "0.14") -> JSONDatabase:
    database = JSONDatabase(work_dir=folder, dialect=dialect)
    for size in (4, 8):
        workload = database.commit_workload(matmul(size, size, size))
        database.commit_tuning_records(a_record(workload, secs) for secs in (2.0, 1.0))
    return database


def use(folder: Path) -> None:
    database = JSONDatabase(work_dir=folder)
    for workload in database.workloads():
        similarity.describe(workload.mod)
    for record in database.get_all_tuning_records():
        _ = record.is_valid, str(record.target)
    for size in (4, 8, 5):
        database.query_schedule(matmul(size, size, size), Target("llvm"), "main")
        database.explain_miss(matmul(size, size, size), Target("llvm"))
    database.problems()


@pytest.mark.parametrize("dialect", ["0.14", "0.25"])
def test_changed_bytes_of_the_files(dialect: str, tmp_path: Path, attack_seeds: list[int]) -> None:
    filled(tmp_path, dialect)
    healthy = {name: (tmp_path / name).read_bytes() for name in FILES}
    for seed in attack_seeds:
        rng = random.Random(seed)
        name = rng.choice(FILES)
        for damaged in damaged_texts(healthy[name], rng, 3):
            (tmp_path / name).write_bytes(damaged)
            use(tmp_path)
        (tmp_path / name).write_bytes(healthy[name])


def test_changed_values_of_records(tmp_path: Path, attack_seeds: list[int]) -> None:
    """Lines that are JSON, but not what a record is made of; traces too are taken apart."""
    filled(tmp_path)
    path = tmp_path / "database_tuning_record.json"
    first, *others = path.read_bytes().splitlines()
    for seed in attack_seeds:
        spoiled = damaged_documents(json.loads(first), random.Random(seed), 12)
        lines = [json.dumps(each).encode() for each in spoiled]
        path.write_bytes(b"\n".join([*lines, *others, b""]))
        use(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_only_the_damaged_line_is_lost(tmp_path: Path, name: str) -> None:
    filled(tmp_path)
    path = tmp_path / name
    lines = path.read_bytes().splitlines()
    lines[0] = lines[0][:20] + b"\xff" + lines[0][20:]
    path.write_bytes(b"\n".join([*lines, b""]))
    database = JSONDatabase(work_dir=tmp_path)
    assert len(database) == (2 if name == FILES[0] else 3)
    assert (database.problems()[0].table, database.problems()[0].row) == (name, 1)


WRITER = """
import sys
from tilewright.database import JSONDatabase
from tilewright.testing.conformance.database import a_record, matmul

folder, size = sys.argv[1], int(sys.argv[2])
database = JSONDatabase(work_dir=folder)
print("ready", flush=True)
sys.stdin.readline()
for number in range(4):
    workload = database.commit_workload(matmul(size, 4, number + 1))
    database.commit_tuning_record(a_record(workload, float(size)))
"""


def test_writers_file_their_records_under_their_own_programs(tmp_path: Path) -> None:
    """All have read the empty files before the first of them writes."""
    sizes = (4, 8)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(size)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for size in sizes
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    database = JSONDatabase(work_dir=tmp_path)
    assert database.problems() == []
    assert len(database) == 4 * len(sizes)
    for record in database.get_all_tuning_records():
        size = int(record.mean_secs)
        assert any(
            structural_equal(record.workload.mod, matmul(size, 4, number + 1))
            for number in range(4)
        )


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """After so many calls nothing reaches the disk any more; -1: all is well again."""
    left = [-1]
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        if left[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= 1
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)

    def set_left(count: int) -> None:
        left[0] = count

    return set_left


def test_a_full_disk_takes_no_index(tmp_path: Path, full_disk: Callable[[int], None]) -> None:
    database = filled(tmp_path)
    content = [(tmp_path / name).read_bytes() for name in FILES]
    full_disk(0)
    with pytest.raises(DatabaseError) as caught:
        database.commit_workload(matmul(16, 16, 16))
    assert str(caught.value) == (f"cannot write to {tmp_path / FILES[0]}: No space left on device")
    assert not database.has_workload(matmul(16, 16, 16))
    assert [(tmp_path / name).read_bytes() for name in FILES] == content
    full_disk(-1)
    workload = database.commit_workload(matmul(32, 32, 32))
    database.commit_tuning_record(a_record(workload, 5.0))
    again = JSONDatabase(work_dir=tmp_path)
    (record,) = again.get_tuning_records_of(again.commit_workload(matmul(32, 32, 32)))
    assert record.mean_secs == 5.0
    assert len(again) == 5


def test_a_record_that_did_not_reach_the_disk_is_not_remembered(
    tmp_path: Path, full_disk: Callable[[int], None]
) -> None:
    database = filled(tmp_path)
    workload = database.commit_workload(matmul(4, 4, 4))
    full_disk(0)
    with pytest.raises(DatabaseError, match="No space left on device"):
        database.commit_tuning_record(a_record(workload, 7.0))
    assert len(database) == 4
    full_disk(-1)
    database.commit_tuning_record(a_record(workload, 7.0))
    assert len(JSONDatabase(work_dir=tmp_path)) == len(database) == 5


def test_records_of_others_outlive_a_cleaning(tmp_path: Path) -> None:
    database = filled(tmp_path)
    other = JSONDatabase(work_dir=tmp_path)
    other.commit_tuning_record(a_record(other.commit_workload(matmul(4, 4, 4)), 9.0))
    database.keep_only(database.get_all_tuning_records()[:1])
    assert sorted(record.mean_secs for record in database.get_all_tuning_records()) == [1.0, 9.0]
    # And the other one sees that the file is another.
    other.commit_tuning_record(a_record(other.commit_workload(matmul(8, 8, 8)), 3.0))
    found = JSONDatabase(work_dir=tmp_path).get_all_tuning_records()
    assert [record.mean_secs for record in found] == [1.0, 3.0, 9.0]
    assert len(other) == 3


@pytest.mark.parametrize("name", FILES)
def test_files_that_cannot_be_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(DatabaseError, match=f"{name}: Is a directory"):
        JSONDatabase(work_dir=tmp_path)


def test_folders_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseError, match=r"cannot make .*: Not a directory"):
        JSONDatabase(work_dir=tmp_path / "file" / "below")

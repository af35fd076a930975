"""A record may be slow or useless, but it never changes results: its author may be anybody."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewright.config import settings
from tilewright.database import (
    Database,
    MemoryDatabase,
    SQLiteDatabase,
    open_database,
    record_check,
)
from tilewright.database.query_only import UnionDatabase
from tilewright.ir import IRModule
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.records import TuningRecord, args_info_of
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.target import Target
from tilewright.testing.conformance.database import a_record, matmul

HERE = Target("llvm")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache that no other test has written to."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    settings.cache_clear()
    yield tmp_path / "cache" / "checked_records"
    settings.cache_clear()


@T.prim_func
def two_steps(a: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (16,))
    C = T.match_buffer(c, (16,))
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] * T.float32(3.1415927)
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi] + T.float32(1)


@T.prim_func
def doubled(a: T.handle, b: T.handle) -> None:
    A = T.match_buffer(a, (4,), offset_factor=1)
    B = T.match_buffer(b, (4,), offset_factor=1)
    with T.block("root"):
        T.reads(A[0:4])
        T.writes(B[0:4])
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] * T.float32(2)


@T.prim_func
def tripled(a: T.handle, b: T.handle) -> None:
    A = T.match_buffer(a, (4,), offset_factor=1)
    B = T.match_buffer(b, (4,), offset_factor=1)
    with T.block("root"):
        T.reads(A[0:4])
        T.writes(B[0:4])
        for i in T.vectorized(4):
            B[i] = A[i] * T.float32(3)


@T.prim_func
def twice(a: T.handle, b: T.handle) -> None:
    A = T.match_buffer(a, (16,))
    B = T.match_buffer(b, (16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] * T.float32(2)


def stored(path: Path, mod: IRModule, *schedules: Schedule) -> Path:
    """A database with the records of a stranger, fastest first."""
    database = SQLiteDatabase(path)
    workload = database.commit_workload(mod)
    for number, sch in enumerate(schedules):
        assert sch.trace is not None
        record = TuningRecord(sch.trace, workload, (1e-6 * (1 + number),), HERE, args_info_of(mod))
        database.commit_tuning_record(record)
    database.close()
    return path


def asked(database: Database, mod: IRModule) -> Schedule | None:
    return database.query_schedule(mod, HERE, "main")


def unsafe_schedule(mod: IRModule) -> Schedule:
    sch = Schedule(mod)
    sch.unsafe_set_dtype("B", 0, "float16")
    return sch


def test_unsafe_steps_are_refused_unless_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mod = IRModule({"main": two_steps})
    path = stored(tmp_path / "records.db", mod, unsafe_schedule(mod))
    assert asked(open_database(path), mod) is None
    assert caplog.messages[-1] == (
        "a record was skipped: it has the step unsafe_set_dtype, which may change results; open "
        "the database with allow_unsafe=True if you trust its author"
    )
    assert asked(open_database(path, allow_unsafe=True), mod) is not None


def test_a_union_allows_what_all_of_its_members_allow(tmp_path: Path) -> None:
    mod = IRModule({"main": two_steps})
    path = stored(tmp_path / "records.db", mod, unsafe_schedule(mod))
    trusted, untrusted = open_database(path, allow_unsafe=True), MemoryDatabase()
    assert asked(UnionDatabase(trusted, untrusted), mod) is None
    assert asked(UnionDatabase(trusted), mod) is not None


def wrong_schedule(mod: IRModule) -> Schedule:
    """Steps that are all fine, but for an instruction that does not do what it says."""
    # Those that are made when needed are not tried out when they are registered.
    TensorIntrin.register_maker("attack_tripled", lambda: (doubled, tripled), override=True)
    sch = Schedule(mod)
    (loop,) = sch.get_loops("B")
    _, inner = sch.split(loop, [None, 4])
    sch.tensorize(inner, "attack_tripled")
    return sch


def right_schedule(mod: IRModule, *, unrolled: bool = False) -> Schedule:
    sch = Schedule(mod)
    (loop,) = sch.get_loops("B")
    inner = sch.split(loop, [None, 8])[1]
    if unrolled:
        sch.unroll(inner)
    else:
        sch.vectorize(inner)
    return sch


def test_a_record_with_other_results_gives_way_to_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mod = IRModule({"main": twice})
    path = stored(tmp_path / "records.db", mod, wrong_schedule(mod), right_schedule(mod))
    sch = asked(open_database(path), mod)
    assert sch is not None
    assert "T.vectorized(8)" in str(sch.mod)
    assert re.fullmatch(
        r"a record was skipped: the result differs from that of the untransformed function: "
        r"argument 1: 16 of 16 elements are wrong, the first at \[0\]: expected .*, got .*, "
        r"tolerance .*",
        caplog.messages[-1],
    )


def test_each_record_is_compared_once_a_machine(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mod = IRModule({"main": twice})
    path = stored(tmp_path / "records.db", mod, wrong_schedule(mod), right_schedule(mod))
    assert asked(open_database(path), mod) is not None
    assert len(list(own_cache.iterdir())) == 2

    def must_not_run(*args: object) -> str:
        raise AssertionError("it is known already")

    monkeypatch.setattr(record_check, "difference_from_plain", must_not_run)
    sch = asked(open_database(path), mod)
    assert sch is not None
    assert "T.vectorized(8)" in str(sch.mod)


def test_what_others_can_write_is_not_believed(tmp_path: Path, own_cache: Path) -> None:
    mod = IRModule({"main": twice})
    path = stored(tmp_path / "records.db", mod, wrong_schedule(mod))
    assert asked(open_database(path), mod) is None
    (verdict,) = own_cache.iterdir()
    verdict.write_text("")
    assert asked(open_database(path), mod) is not None  # our own cache says that it is right
    own_cache.chmod(0o777)
    assert asked(open_database(path), mod) is None


def test_what_would_run_for_long_is_used_unchecked_and_said_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, own_cache: Path
) -> None:
    caplog.set_level("INFO", "tilewright.database")
    mod = matmul(1024, 1024, 1024)
    database = SQLiteDatabase(tmp_path / "records.db")
    database.commit_tuning_record(a_record(database.commit_workload(mod), 1.0, target=HERE))
    assert asked(database, mod) is not None
    assert caplog.messages[-1] == (
        "a record of C 1024x1024x1024 is used unchecked: the plain program would run for more "
        "than a second"
    )
    assert not own_cache.exists()


@T.prim_func
def telling(a: T.handle, b: T.handle) -> None:
    A = T.match_buffer(a, (16,))
    B = T.match_buffer(b, (16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + T.call_extern("float32", "must_not_run", vi)


def test_functions_are_not_called_behind_the_users_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tilewright.database")
    mod = IRModule({"main": telling})
    path = stored(tmp_path / "records.db", mod, right_schedule(mod, unrolled=True))
    assert asked(open_database(path), mod) is not None
    assert caplog.messages[-1] == (
        "a record of B 16 is used unchecked: it calls functions, and what they do besides is not "
        "known"
    )


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, own_cache: Path) -> None:
    own_cache.parent.mkdir()
    own_cache.touch()  # a file where the folder should be
    mod = IRModule({"main": twice})
    path = stored(tmp_path / "records.db", mod, right_schedule(mod))
    assert asked(open_database(path), mod) is not None

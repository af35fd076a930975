"""Databases that ask others, or a function."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tilewright.database import (
    Database,
    MemoryDatabase,
    NotSupportedError,
    OrderedUnionDatabase,
    ScheduleFnDatabase,
    UnionDatabase,
)
from tilewright.errors import DatabaseError, RegistryError
from tilewright.records import TuningRecord
from tilewright.schedule import Schedule
from tilewright.target import Target
from tilewright.testing.conformance.database import LLVM, a_record, matmul

MOD, TARGET = matmul(16, 16, 16), Target(LLVM)


def with_records(*secs: float, target: Target = TARGET) -> MemoryDatabase:
    database = MemoryDatabase()
    workload = database.commit_workload(MOD)
    database.commit_tuning_records(a_record(workload, each, target=target) for each in secs)
    return database


def best(database: Database, target: Target = TARGET) -> float | None:
    record = database.query_tuning_record(MOD, target, "main")
    return None if record is None else record.mean_secs


def test_the_fastest_of_all_or_of_the_first() -> None:
    members = (MemoryDatabase(), with_records(3.0, 2.0), with_records(1.0, 4.0))
    assert best(UnionDatabase(*members)) == 1.0
    assert best(OrderedUnionDatabase(*members)) == 2.0
    for union in (UnionDatabase(*members), OrderedUnionDatabase(*members)):
        assert union.has_workload(MOD)
        assert not union.has_workload(matmul(8, 8, 8))
        assert union.query_schedule(MOD, TARGET, "main") is not None
        assert union.query_ir_module(matmul(8, 8, 8), TARGET, "main") is None
        assert [record.mean_secs for record in union.valid_records(MOD)] == [1.0, 2.0, 3.0, 4.0]
        assert union
    for union in (UnionDatabase(), OrderedUnionDatabase()):
        assert best(union) is None


def test_targets_count_more_than_speed() -> None:
    here, other = Target("llvm -mcpu=haswell"), Target("llvm -mcpu=nehalem")
    members = with_records(1.0, target=other), with_records(2.0, target=here)
    assert best(UnionDatabase(*members), here) == 2.0
    assert best(UnionDatabase(*members), other) == 1.0
    assert best(OrderedUnionDatabase(*members), here) == 1.0


def test_misses_of_unions() -> None:
    union = UnionDatabase(MemoryDatabase(), with_records(1.0))
    assert union.explain_miss(matmul(16, 16, 32), TARGET) == (
        "C 16x16x32 is not in the database: C 16x16x16 is known, 16x16x32 is asked"
    )


@pytest.mark.parametrize(
    "database",
    [UnionDatabase(), OrderedUnionDatabase(), ScheduleFnDatabase(lambda sch: False)],
    ids=lambda database: type(database).__name__,
)
def test_they_keep_nothing(database: Database) -> None:
    record = a_record(MemoryDatabase().commit_workload(MOD), 1.0)
    calls: dict[str, Callable[[], object]] = {
        "commit_workload": lambda: database.commit_workload(MOD),
        "commit_tuning_record": lambda: database.commit_tuning_record(record),
        "get_top_k": lambda: database.get_top_k(record.workload, 1),
        "get_all_tuning_records": database.get_all_tuning_records,
        "len": lambda: len(database),
    }
    for name, call in calls.items():
        text = (
            f"{type(database).__name__} only answers queries, {name} is not one; "
            "use the database that keeps the records"
        )
        with pytest.raises(NotSupportedError, match=re.escape(text)) as failure:
            call()
        assert isinstance(failure.value, NotImplementedError)
    with pytest.raises(NotSupportedError, match="cannot forget records"):
        database.keep_only([])


# --- by a function ------------------------------------------------------------------------------


def parallelize(sch: Schedule) -> bool:
    if sch.mod.attrs["task_name"] != "main":
        return False
    sch.parallel(sch.get_loops("C")[0])
    return True


def test_a_function_as_database() -> None:
    database = ScheduleFnDatabase(parallelize)
    sch = database.query_schedule(MOD, TARGET, "main")
    assert sch is not None
    assert "T.parallel(16)" in sch.mod.script()
    record = database.query_tuning_record(MOD, TARGET, "main")
    assert isinstance(record, TuningRecord)
    assert record.run_secs is None
    assert record.target == TARGET
    assert record.trace.as_python()[-1] == "sch.parallel(loop=l1)"
    made = database.query_ir_module(MOD, TARGET, "main")
    assert made is not None
    assert "T.parallel(16)" in made.script()
    assert database.query_schedule(MOD, TARGET, "other") is None
    assert database.query_tuning_record(MOD, TARGET, "other") is None


def test_wrong_functions() -> None:
    with pytest.raises(DatabaseError, match="schedule_fn must be a function, got 'parallel'"):
        ScheduleFnDatabase("parallel")  # type: ignore[arg-type]
    text = "a schedule function returns True if it scheduled the program and False if not, got None"
    with pytest.raises(DatabaseError, match=text):
        ScheduleFnDatabase(lambda sch: None).query_schedule(MOD, TARGET, "main")  # type: ignore[arg-type, return-value]


def test_create() -> None:
    assert isinstance(Database.create("memory", module_equality="anchor-block"), MemoryDatabase)
    member = with_records(1.0)
    assert best(Database.create("union", member)) == 1.0
    assert best(Database.create("ordered_union", member)) == 1.0
    assert isinstance(Database.create(parallelize), ScheduleFnDatabase)
    assert Database.create(member) is member
    with pytest.raises(RegistryError, match="unknown database 'mongo'; known: json, memory"):
        Database.create("mongo")

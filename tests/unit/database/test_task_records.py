"""The best records of a task, which a search asks for in every round."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewright.database import Database, MemoryDatabase, SQLiteDatabase, TaskRecords
from tilewright.records import FAILED_RUN_SECS, FailureKind, TuningRecord, Workload
from tilewright.target import Target
from tilewright.testing.conformance.database import LLVM, a_record, matmul

KINDS: dict[str, Callable[[Path], Database]] = {
    "memory": lambda folder: MemoryDatabase(),
    "sqlite": lambda folder: SQLiteDatabase(folder / "records.db"),
}
ELSEWHERE = Target("llvm -mcpu=skylake-avx512 -num-cores=64")


def rounds(workload: Workload) -> Iterator[list[TuningRecord]]:
    """Ties, failures, and a record of another machine among those of this one."""
    numbers = itertools.count(1)

    def record(secs: float, **more: Any) -> TuningRecord:
        number = next(numbers)
        return a_record(workload, secs, seed=number, extra={"seed": number, "round": 0}, **more)

    for secs in ((3.0, 5.0, 3.0), (4.0, 1.0, 3.0), (2.0, 2.0, 9.0)):
        elsewhere = record(2.5, target=ELSEWHERE)
        yield [*map(record, secs), elsewhere, record(FAILED_RUN_SECS, failure=FailureKind.CRASH)]


def told(records: TaskRecords, count: int) -> list[tuple[float, str]]:
    return [(record.mean_secs, str(record.trace)) for record in records.best(count)]


@pytest.mark.parametrize("count", [1, 3, 20])
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_committed_need_not_be_asked_for(kind: str, count: int, tmp_path: Path) -> None:
    database, mod, target = KINDS[kind](tmp_path), matmul(8, 8, 8), Target(LLVM)
    records = database.task_records(mod, target)
    for committed in rounds(records.workload):
        records.best(count)
        database.commit_tuning_records(committed)
        records.add(committed)
        assert told(records, count) == told(database.task_records(mod, target), count)
    assert told(records, 2 * count) == told(database.task_records(mod, target), 2 * count)
    database.close()


def test_whoever_is_not_told_asks_again() -> None:
    database, mod = MemoryDatabase(), matmul(8, 8, 8)
    records = database.task_records(mod, Target(LLVM))
    assert records.best(2) == []
    database.commit_tuning_record(a_record(records.workload, 1.0))
    assert len(records.best(2)) == 1

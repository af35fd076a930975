"""Databases as tuning runs leave them, without running anything."""

from __future__ import annotations

from tilewright.database import Database
from tilewright.records import FAILED_RUN_SECS, FailureKind
from tilewright.testing.conformance.database import a_record, matmul

SMALL_TIMES = (8e-6, None, 4e-6, 6e-6, 2e-6)


def add_run(database: Database, task: str, size: int, times: tuple[float | None, ...]) -> int:
    """A run of one task; predictions rank its candidates rightly, None stands for a time-out."""
    run = database.history.begin_run(task, target="llvm", seed=3)
    workload = database.commit_workload(matmul(size, size, size))
    for trial, secs in enumerate(times):
        database.commit_tuning_record(
            a_record(
                workload,
                secs or FAILED_RUN_SECS,
                seed=trial + 1,
                failure=None if secs else FailureKind.TIMEOUT,
                error_msg=None if secs else "took <10 s>",
                extra={
                    "run": run,
                    "task": task,
                    "trial": trial,
                    "round": 0,
                    "seed": 100 * run + trial,
                    "prediction": 1e-6 / secs if secs else 0.0,
                },
            )
        )
    database.history.finish_run(run)
    return run


def fill(database: Database) -> None:
    """Two runs of `mm`, one of `big` with a funnel, and a record of no run."""
    add_run(database, "mm", 16, SMALL_TIMES)
    add_run(database, "mm", 16, (3e-6, 1e-6))
    run = add_run(database, "big", 64, (None, 2e-5))
    for stage, count, reason in (
        ("proposed", 10, ""),
        ("legal", 4, ""),
        ("legal", 5, "VerifyGPUCode"),
        ("legal", 1, "DisallowDynamicLoop"),
        ("built", 2, ""),
    ):
        database.history.set_count(run, "big", 0, stage, count, reason)
    database.commit_tuning_record(a_record(database.commit_workload(matmul(8, 8, 8)), 5e-7))

"""Running commands in a directory of their own, and a database to look at."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tilewright.cli import app, tune as tune_command
from tilewright.config import settings
from tilewright.database import SQLiteDatabase
from tilewright.model import tuning
from tilewright.records import FAILED_RUN_SECS, FailureKind
from tilewright.testing.conformance.database import a_record, matmul
from tilewright.testing.made_up_runs import MadeUp, NoBuilder
from tilewright.tune.api import tune_tir


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Command = Callable[..., Outcome]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """`command("db", "ls")` in an empty directory."""
    monkeypatch.chdir(tmp_path)
    settings.cache_clear()

    def run(*arguments: str, status: int = 0) -> Outcome:
        result = CliRunner().invoke(app, list(arguments))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == status, result.output
        return Outcome(result.exit_code, result.stdout, result.stderr)

    yield run
    settings.cache_clear()


def fill(path: Path) -> None:
    """Two runs of a product of 16, of which one trial failed, and a lone record of 32."""
    database = SQLiteDatabase(path)
    small = database.commit_workload(matmul(16, 16, 16))
    for run, times in ((1, (4e-6, None)), (2, (1e-6, 2e-6))):
        database.history.begin_run("mm", target="llvm", seed=7)
        for trial, secs in enumerate(times):
            extra = {"run": run, "task": "mm", "trial": trial, "round": 0, "seed": 10 * run + trial}
            failure = None if secs else FailureKind.TIMEOUT
            database.commit_tuning_record(
                a_record(
                    small,
                    secs or FAILED_RUN_SECS,
                    seed=trial + 1,
                    failure=failure,
                    error_msg=None if secs else "took 10 s",
                    extra=extra,
                )
            )
        database.history.finish_run(run)
    database.commit_tuning_record(a_record(database.commit_workload(matmul(32, 32, 32)), 1e-5))
    database.close()


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """The default database of the directory that commands run in, with some records."""
    path = tmp_path / ".tilewright" / "records.db"
    path.parent.mkdir()
    fill(path)
    return path


# --- tuning without measuring ---------------------------------------------------------------------


@pytest.fixture
def made_up_runner(monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    """Every `tilewright tune` measures nothing, but asks this runner."""
    made_up = MadeUp()

    def quick(tune: Any) -> Any:
        return functools.partial(
            tune,
            builder=NoBuilder(),
            runner=made_up,
            cost_model="random",
            strategy="replay-trace",
            check=False,
        )

    monkeypatch.setattr(tune_command, "tune_tir", quick(tune_tir))
    monkeypatch.setattr(tuning, "tune_tir", quick(tune_tir))
    return made_up

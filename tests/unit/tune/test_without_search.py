"""Ctrl-C before anything was measured leaves the schedule that needs no search."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tilewright.database import MemoryDatabase, SQLiteDatabase
from tilewright.ir import IRModule, structural_equal
from tilewright.schedule import Schedule
from tilewright.target import Target
from tilewright.testing.fake_measuring import FakeBuilder, FakeRunner
from tilewright.testing.handwritten import matmul as product
from tilewright.testing.small_search import matmul, tile_all
from tilewright.tune import default_schedule, tune_tir
from tilewright.tune.context import normalize_mod

TARGET = Target("llvm -num-cores=2")


class Interrupting(FakeRunner):
    """Ctrl-C is pressed when some candidates have been run, so many times."""

    def __init__(self, after: int = 0, times: int = 1) -> None:
        super().__init__(before=self._press)
        self.after, self.times = after, times

    def _press(self) -> None:
        if len(self.ran) >= self.after and self.times:
            self.times -= 1
            raise KeyboardInterrupt


def interrupted(mod: Any = matmul, **options: Any) -> MemoryDatabase:
    database = MemoryDatabase()
    with pytest.raises(KeyboardInterrupt):
        tune_tir(
            mod,
            TARGET,
            max_trials_global=8,
            num_trials_per_iter=4,
            database=database,
            builder=FakeBuilder(),
            console=False,
            **{"space": tile_all, "runner": FakeRunner(), **options},
        )
    return database


def test_it_is_the_result() -> None:
    database = interrupted(runner=Interrupting())
    (record,) = database.get_all_tuning_records()
    assert record.extra["baseline"] == "zero-search"
    assert record.is_valid
    best = database.query_schedule(normalize_mod(matmul), TARGET, "main")
    assert best is not None
    assert structural_equal(best.mod, default_schedule(matmul, TARGET).mod)
    assert [run.status for run in database.history.runs()] == ["interrupted"]


def test_also_while_the_space_is_made() -> None:
    def never(sch: Schedule) -> None:
        raise KeyboardInterrupt

    assert len(interrupted(space=never)) == 1


def test_tasks_whose_turn_had_not_come_have_one_too() -> None:
    module = IRModule({"a": product(16, 16, 16), "b": product(32, 16, 16)})
    database = interrupted(module, space="llvm", runner=Interrupting(after=2))
    assert len(database) == 3
    for func in module.functions.values():
        assert database.query_schedule(normalize_mod(func), TARGET, "main") is not None


def test_what_was_measured_is_enough() -> None:
    database = interrupted(runner=Interrupting(after=2))
    assert len(database) == 2
    assert not any(r.extra.get("baseline") for r in database.get_all_tuning_records())


def test_a_second_ctrl_c_does_not_wait_for_it() -> None:
    assert len(interrupted(runner=Interrupting(times=2))) == 0


def test_the_next_run_does_not_measure_it_again() -> None:
    database = interrupted(runner=Interrupting(), space="llvm")
    runner = FakeRunner()
    tune_tir(
        matmul, TARGET, max_trials_global=8, database=database, builder=FakeBuilder(),
        runner=runner, space="llvm", console=False,
    )  # fmt: skip
    (first,) = [r for r in database.get_all_tuning_records() if r.extra.get("baseline")]
    assert len(runner.ran) == len(set(runner.ran)) <= 8
    assert first.is_valid


PROGRAM = "from tilewright.testing.te_workload import matmul\ndef mm(): return matmul(64, 64, 64)\n"


@pytest.mark.parametrize("wait", [0.5, pytest.param(1.5, marks=pytest.mark.slow)])
def test_with_a_real_ctrl_c(tmp_path: Path, wait: float) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "tilewright.cli", "tune", "program.py:mm", "--budget", "60s"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "database .tilewright/records.db\n"
    time.sleep(wait)
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[0]
    assert process.returncode == 130, told
    result, spent, last = told.splitlines()[-3:]
    assert re.match(r"mm C 64x64x64: .* of roofline, record [0-9a-f]{10}", result)
    assert spent.startswith("interrupted after ")
    assert last.endswith("; the same command continues from here")
    database = SQLiteDatabase(tmp_path / ".tilewright" / "records.db", read_only=True)
    assert len(database) >= 1
    database.close()

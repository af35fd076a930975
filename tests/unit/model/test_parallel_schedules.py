"""Schedules that workers choose are those that this process would choose."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright import ir, te, topi
from tilewright.errors import TuneError
from tilewright.measure.pool import Outcome, PoolOptions, Task, WorkerPool
from tilewright.model import parallel_schedules
from tilewright.model.alternatives import RememberedSchedules
from tilewright.model.parallel_schedules import LEAST, schedules_without_search
from tilewright.model.schedules import ScheduledKernel
from tilewright.target import Target
from tilewright.tune.fallback import default_schedule

TARGET = Target("llvm")


def _program(width: int) -> ir.PrimFunc:
    x = te.placeholder((4, 32 * width), name="x")
    return te.create_prim_func([x, topi.exp(x)])


def test_workers_choose_what_this_process_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_schedules, "available_cores", lambda: 2)
    funcs = [_program(width) for width in range(1, LEAST + 1)]
    made = schedules_without_search(funcs, TARGET)
    assert len(made) == len(funcs)
    x = np.linspace(-2, 2, 4 * 32, dtype="float32").reshape(4, 32)
    for kernel, func in zip(made, funcs, strict=True):
        assert kernel is not None
        assert ir.structural_equal(kernel.mod, default_schedule(func, TARGET).mod)
        assert kernel.code is not None
        assert "define" in kernel.code.get_source("ll")
    first = made[0]
    assert first is not None
    assert first.code is not None
    y = np.zeros_like(x)
    first.code(x, y)
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-5)


def test_code_that_a_store_keeps_is_left_to_the_caller(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(parallel_schedules, "available_cores", lambda: 2)
    monkeypatch.setattr(parallel_schedules, "code_store", lambda: tmp_path)
    made = schedules_without_search([_program(n) for n in range(1, LEAST + 1)], TARGET)
    assert all(kernel is not None and kernel.code is None for kernel in made)


@pytest.mark.parametrize(("count", "cores"), [(LEAST - 1, 2), (LEAST, 1)])
def test_few_programs_and_one_core_are_left_to_the_caller(
    monkeypatch: pytest.MonkeyPatch, count: int, cores: int
) -> None:
    monkeypatch.setattr(parallel_schedules, "available_cores", lambda: cores)
    assert schedules_without_search([_program(1)] * count, TARGET) == [None] * count


def test_this_process_goes_on_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(pool: WorkerPool, tasks: list[Task]) -> list[Outcome]:
        raise TuneError("no worker can be started")

    monkeypatch.setattr(parallel_schedules, "available_cores", lambda: 2)
    monkeypatch.setattr(WorkerPool, "run", fails)
    made = schedules_without_search([_program(n) for n in range(1, LEAST + 1)], TARGET)
    assert made.count(None) <= 1  # what a worker had taken
    assert sum(kernel is not None and kernel.code is not None for kernel in made) >= LEAST - 1


def test_ctrl_c_ends_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    pools = []

    def noted(options: PoolOptions) -> WorkerPool:
        pools.append(WorkerPool(options))
        return pools[-1]

    def interrupted(func: ir.PrimFunc, target: Target) -> ScheduledKernel:
        raise KeyboardInterrupt

    monkeypatch.setattr(parallel_schedules, "available_cores", lambda: 2)
    monkeypatch.setattr(parallel_schedules, "WorkerPool", noted)
    monkeypatch.setattr(parallel_schedules, "_made_here", interrupted)
    with pytest.raises(KeyboardInterrupt):
        schedules_without_search([_program(n) for n in range(1, LEAST + 1)], TARGET)
    assert [pool.pids for pool in pools] == [[]]


def test_schedules_that_were_prepared_are_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def unexpected(func: ir.PrimFunc, target: Target) -> ScheduledKernel:
        raise AssertionError("it was prepared")

    monkeypatch.setattr(parallel_schedules, "available_cores", lambda: 2)
    schedule = RememberedSchedules(unexpected)
    funcs = [_program(width) for width in range(1, LEAST + 1)]
    schedule.prepare([*funcs, *funcs], TARGET)
    assert ir.structural_equal(
        schedule(funcs[0], TARGET).mod, default_schedule(funcs[0], TARGET).mod
    )

"""Extents of 0 and 1 and results without dimensions: compiled, scheduled, tuned, against NumPy."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.database import MemoryDatabase
from tilewright.driver import build
from tilewright.records import normalize_mod
from tilewright.target import Target
from tilewright.testing import oracle
from tilewright.testing.edge_programs import EDGE_PROGRAMS
from tilewright.tune import tune_tir
from tilewright.tune.context import TuneContext
from tilewright.tune.fallback import default_schedule

TARGET = "llvm -num-cores=2"


@pytest.mark.parametrize("name", EDGE_PROGRAMS)
def test_plain_programs(name: str) -> None:
    program = EDGE_PROGRAMS[name]
    program.check(lambda *args: oracle.run(program.func, *args))
    program.check(build(program.func, TARGET))


@pytest.mark.parametrize("name", EDGE_PROGRAMS)
def test_without_a_search(name: str) -> None:
    program = EDGE_PROGRAMS[name]
    sch = default_schedule(program.func, TARGET)
    program.check(lambda *args: oracle.run(sch.mod, *args))
    program.check(build(sch.mod, TARGET))


@pytest.mark.parametrize("space", ["tilewright", "post-order-apply"])
@pytest.mark.parametrize("name", EDGE_PROGRAMS)
def test_sketches(name: str, space: str) -> None:
    program = EDGE_PROGRAMS[name]
    context = TuneContext(program.func, target=TARGET, space_generator=space, rand_state=1)
    for sketch in context.generate_design_space():
        program.check(build(sketch.mod, TARGET))


@pytest.mark.parametrize("name", ["add (3, 0)", "add ()", "total (3, 0)", "empty and not (0, 64)"])
def test_tuning(name: str, workers: dict[str, Any]) -> None:
    program = EDGE_PROGRAMS[name]
    database = MemoryDatabase()
    tune_tir(program.func, TARGET, max_trials_global=3, database=database, console=False, **workers)
    records = database.get_all_tuning_records()
    assert [record.failure for record in records] == [None] * len(records)
    best = database.query_schedule(normalize_mod(program.func), Target(TARGET), "main")
    assert best is not None
    program.check(build(best.mod, TARGET))

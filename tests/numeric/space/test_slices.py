# mypy: disable-error-code="valid-type, no-untyped-def"
"""Blocks that read what they write: what may run in any order, and what it computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.cost_model.prior import Machine, estimate
from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, as_module
from tilewright.ir.annotation_keys import TILING_STRUCTURE
from tilewright.records import args_info_of
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.space.base import schedule_rules
from tilewright.target import Target
from tilewright.testing.oracle import run
from tilewright.testing.space_generation import generate_design_space
from tilewright.tune import default_schedule
from tilewright.tune.fallback import SHORT_SECONDS


@T.prim_func
def along_rows(A: T.Buffer((136, 67), "float32"), B: T.Buffer((136, 67), "float32")):
    for i, j in T.grid(136, 67):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(vj == 0, T.float32(0), B[vi, vj - 1]) + A[vi, vj]


@T.prim_func
def along_columns(A: T.Buffer((67, 137), "float32"), B: T.Buffer((67, 137), "float32")):
    for i, j in T.grid(67, 137):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(vi == 0, T.float32(0), B[vi - 1, vj]) + A[vi, vj]


@T.prim_func
def both_ways(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(15, 15):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi + 1, vj + 1] = B[vi, vj + 1] + B[vi + 1, vj] + A[vi, vj]


@T.prim_func
def in_place(A: T.Buffer((65, 131), "float32"), B: T.Buffer((65, 131), "float32")):
    for i, j in T.grid(65, 131):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = B[vi, vj] * A[vi, vj]


@T.prim_func
def sparse_rows(
    begin: T.Buffer((4001,), "int32"),
    columns: T.Buffer((16000,), "int32"),
    values: T.Buffer((16000,), "float32"),
    x: T.Buffer((32,), "float32"),
    y: T.Buffer((4000,), "float32"),
):
    for i in range(4000):
        with T.block("y"):
            vi = T.axis.spatial(4000, i)
            y[vi] = T.float32(0)
            for k in range(begin[vi + 1] - begin[vi]):
                y[vi] = y[vi] + values[begin[vi] + k] * x[columns[begin[vi] + k]]


@T.prim_func
def rows_and_what_follows(A: T.Buffer((136, 64), "float32"), C: T.Buffer((136, 64), "float32")):
    B = T.alloc_buffer((136, 64))
    for i, j in T.grid(136, 64):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(vj == 0, T.float32(0), B[vi, vj - 1]) + A[vi, vj]
    for i, j in T.grid(136, 64):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * T.float32(2)


PROGRAMS = (along_rows, along_columns, both_ways, in_place, sparse_rows, rows_and_what_follows)


def arrays_for(func: PrimFunc) -> list[Any]:
    """Small whole numbers; the rows of a sparse matrix have none, one or some elements."""
    random = np.random.default_rng(1)
    if func is sparse_rows:
        ends = np.sort(random.integers(0, 16001, 3999)).astype("int32")
        begin = np.concatenate([[0], ends, [16000]]).astype("int32")
        columns = random.integers(0, 32, 16000).astype("int32")
        floats = [random.integers(-3, 4, n).astype("float32") for n in (16000, 32, 4000)]
        return [begin, columns, *floats]
    shapes = [info.shape for info in args_info_of(as_module(func))]
    return [random.integers(-3, 4, shape).astype("float32") for shape in shapes]


def assert_same(func: PrimFunc, sch: Schedule) -> None:
    expected, found = arrays_for(func), arrays_for(func)
    run(func, *expected)
    tw.build(sch.mod)(*found)
    np.testing.assert_array_equal(found[-1], expected[-1], err_msg=str(sch.mod))


@pytest.mark.parametrize("func", PROGRAMS, ids=lambda func: func.name)
def test_sketches_compute_the_same(func: PrimFunc) -> None:
    rules = [schedule_rules.create(name) for name in ("IndependentSlices", "SpatialPass")]
    target = Target("llvm -num-cores=2")
    for sketch in generate_design_space("llvm", as_module(func), target, sch_rules=rules):
        assert sketch.trace is not None
        for seed in range(4):
            other = Schedule(as_module(func), seed=seed + 1)
            trace = sketch.trace.copy()
            trace.decisions.clear()
            trace.apply_to_schedule(other, remove_postproc=False)
            assert_same(func, other)


@pytest.mark.parametrize("func", PROGRAMS, ids=lambda func: func.name)
def test_the_schedule_without_a_search(func: PrimFunc) -> None:
    sch = default_schedule(func)
    assert_same(func, sch)
    text = str(sch.mod)
    if func is both_ways:
        assert TILING_STRUCTURE not in text
        return
    seconds = estimate(sch.mod["main"], Machine.of(Target("llvm")))
    assert "T.parallel" in text or seconds < SHORT_SECONDS
    assert '"slices"' in text or func is in_place  # which is a pass like any other


Step = Callable[[Schedule], Any]
ALLOWED: dict[str, tuple[PrimFunc, Step]] = {
    "rows": (along_rows, lambda s: s.parallel(s.get_loops("B")[0])),
    "vectors of columns": (along_columns, lambda s: s.vectorize(s.get_loops("B")[1])),
    "pieces of rows": (
        along_rows,
        lambda s: s.parallel(s.split(s.get_loops("B")[0], [None, 8])[0]),
    ),
    "sparse rows": (sparse_rows, lambda s: s.parallel(s.get_loops("y")[0])),
    "an update in place, fused": (in_place, lambda s: s.parallel(s.fuse(*s.get_loops("B")))),
    "all of an update in place": (in_place, lambda s: s.vectorize(s.get_loops("B")[1])),
}
REFUSED: dict[str, tuple[PrimFunc, Step]] = {
    "the scan itself": (along_rows, lambda s: s.parallel(s.get_loops("B")[1])),
    "vectors along the scan": (along_columns, lambda s: s.vectorize(s.get_loops("B")[0])),
    "both fused": (along_rows, lambda s: s.parallel(s.fuse(*s.get_loops("B")))),
    "a neighbour's result": (both_ways, lambda s: s.parallel(s.get_loops("B")[0])),
    "another neighbour's": (both_ways, lambda s: s.parallel(s.get_loops("B")[1])),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_iterations_that_cannot_meet_may_run_in_any_order(name: str) -> None:
    func, step = ALLOWED[name]
    sch = Schedule(func)
    step(sch)
    assert_same(func, sch)


@pytest.mark.parametrize("name", REFUSED)
def test_iterations_that_can_are_refused(name: str) -> None:
    func, step = REFUSED[name]
    with pytest.raises(ScheduleError, match="it reads what it writes"):
        step(Schedule(func))

# mypy: disable-error-code="valid-type, no-untyped-def"
"""Reductions that turn out to have no terms when they run give what they start from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.ir import PrimFunc
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing import oracle


def rows(operator: Callable[..., te.Tensor]) -> PrimFunc:
    a = te.placeholder((5, te.var("n")), name="A")
    return te.create_prim_func([a, operator(a, 1)])


def split(sch: Schedule) -> None:
    sch.split(sch.get_loops("A_red")[1], [None, 4])


def reduce_first(sch: Schedule) -> None:
    sch.reorder(*reversed(sch.get_loops("A_red")))


def tile_rows(sch: Schedule) -> None:
    i, k = sch.get_loops("A_red")
    outer, inner = sch.split(i, [None, 2])
    sch.reorder(outer, k, inner)


def both(func: PrimFunc, *arrays: Any) -> Any:
    """The last argument after a run; compiled code and the oracle must agree."""
    results = []
    for run in (tw.build(func), lambda *given: oracle.run(func, *given)):
        out = np.full_like(arrays[-1], 99)
        run(*arrays[:-1], out)
        results.append(out)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6)
    return results[0]


SCHEDULES = [lambda sch: None, split, reduce_first, tile_rows]


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_symbolic_extents(schedule: Callable[[Schedule], None], size: int) -> None:
    data = np.random.default_rng(0).normal(size=(5, size)).astype("float32")
    for operator, reference in ((topi.sum, np.sum), (topi.prod, np.prod)):
        sch = Schedule(rows(operator))
        schedule(sch)
        result = both(sch.mod["main"], data, np.zeros(5, "float32"))
        np.testing.assert_allclose(result, reference(data, 1), rtol=1e-5)


@T.prim_func
def sparse(
    indptr: T.Buffer((5,), "int32"), values: T.Buffer((6,)), x: T.Buffer((6,)), y: T.Buffer((4,))
):
    for i in T.serial(4):
        for k in T.serial(indptr[i + 1] - indptr[i]):
            with T.block("y"):
                vi = T.axis.spatial(4, i)
                vk = T.axis.reduce(6, k)
                T.reads(indptr[vi], values[indptr[vi] + vk], x[0:6])
                T.writes(y[vi])
                with T.init():
                    y[vi] = T.float32(0)
                y[vi] = y[vi] + values[indptr[vi] + vk] * x[vk]


@T.prim_func
def ragged(lengths: T.Buffer((3,), "int32"), a: T.Buffer((3, 4)), total: T.Buffer((1,))):
    for i in T.serial(3):
        for k in T.serial(lengths[i]):
            with T.block("total"):
                vo = T.axis.spatial(1, 0)
                vi = T.axis.reduce(3, i)
                vk = T.axis.reduce(4, k)
                T.reads(a[vi, vk])
                T.writes(total[vo])
                with T.init():
                    total[vo] = T.float32(0)
                total[vo] = total[vo] + a[vi, vk]


def test_empty_rows_of_a_sparse_matrix() -> None:
    indptr = np.array([0, 2, 2, 5, 5], "int32")
    values, x = np.arange(1, 7, dtype="float32"), np.ones(6, "float32")
    result = both(sparse, indptr, values, x, np.zeros(4, "float32"))
    assert result.tolist() == [3, 0, 12, 0]


def test_an_empty_part_of_a_reduction_starts_nothing_again() -> None:
    lengths, a = np.array([2, 0, 3], "int32"), np.ones((3, 4), "float32")
    assert both(ragged, lengths, a, np.zeros(1, "float32")).tolist() == [5]

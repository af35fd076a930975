"""Footprints from the algebra equal boxes by brute force, on small programs with ragged tiles."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import te
from tilewright.algebra.legality import verdicts_of
from tilewright.algebra.model import StructureCase
from tilewright.algebra.population import random_population, vector_at
from tilewright.ir import PrimFunc
from tilewright.target import Target
from tilewright.testing.enumerated_boxes import enumerated_nests
from tilewright.testing.space_algebra import (
    ReplayedSketch,
    loops_of_slots,
    sketches_of,
)
from tilewright.workloads.convolutions import conv2d_nhwc

CPU = Target("llvm -mcpu=cascadelake -num-cores 4")
GPU = Target("nvidia/geforce-rtx-3080")


def matmul(m: int, n: int, k: int) -> PrimFunc:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    i = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda x, y: te.sum(a[x, i] * b[i, y], axis=i), name="C")
    return te.create_prim_func([a, b, c])


def convolution(size: int, channels: int) -> PrimFunc:
    return te.create_prim_func(conv2d_nhwc(1, size, size, channels, 8, 3, 1, 1))


def boxes_that_differ(
    func: PrimFunc, target: Target, space: str, sketch: int, count: int
) -> list[str]:
    """Footprints that are not what enumeration says, of legal candidates."""
    mod, sketches, postprocs = sketches_of(func, target, space)
    empty = ReplayedSketch(mod, sketches[sketch], postprocs, [], [])
    model = empty.model()
    columns = random_population(model.decisions, 400, np.random.default_rng(5))
    legal = np.flatnonzero(verdicts_of(model, columns).legal)[:count]
    assert len(legal)
    found: list[str] = []
    for case, rows in model.cases(columns):
        if not isinstance(case, StructureCase):
            continue
        for row in set(rows.tolist()) & set(legal.tolist()):
            vector = vector_at(model.decisions, columns, row)
            (program,) = empty.asked_for([vector]).functions
            one = {name: column[[row]] for name, column in columns.items()}
            numbers = [nest({name: one[name] for name in nest.inputs}, 1) for nest in case.nests]
            by_store = {}
            for each in enumerated_nests(program):
                by_store[each.store.buffer.name, len(each.bytes_below)] = each.bytes_below
            for view, values in zip(case.views, numbers, strict=True):
                starts = [slots[0] for _, _, slots in loops_of_slots(view, values, 0)]
                depths = [*starts, len(view.slots)]
                mine = [[int(n) for n in rows[depths, 0]] for rows in values.footprints]
                theirs = by_store[view.store.buffer.name, len(mine)]
                if mine != theirs:
                    found.append(f"{vector}: {view.name} touches {mine}, not {theirs}")
    return found


@pytest.mark.parametrize(("m", "n", "k"), [(13, 40, 9), (16, 64, 8), (7, 33, 5)])
def test_ragged_tiles_on_a_cpu(m: int, n: int, k: int) -> None:
    assert boxes_that_differ(matmul(m, n, k), CPU, "tilewright", 0, 6) == []


def test_fetches_on_a_gpu() -> None:
    assert boxes_that_differ(matmul(32, 32, 16), GPU, "post-order-apply", 0, 6) == []


@pytest.mark.slow
def test_more_fetches_on_a_gpu() -> None:
    assert boxes_that_differ(matmul(32, 64, 32), GPU, "post-order-apply", 0, 40) == []


def test_a_small_convolution() -> None:
    assert boxes_that_differ(convolution(7, 4), CPU, "post-order-apply", 2, 6) == []

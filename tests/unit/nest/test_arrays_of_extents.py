"""Footprints, strides and bounds for arrays of extents are those of each program by itself."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tilewright.arith.affine import affine_of
from tilewright.arith.ranges import RangeEvaluator
from tilewright.ir import (
    INT32,
    Buffer,
    ForKind,
    PrimExpr,
    Var,
    const,
    floordiv,
    floormod,
    maximum,
    minimum,
)
from tilewright.ir.buffer import decl_buffer
from tilewright.nest.access import MemoryAccess, MovingRanges, ranges_of
from tilewright.nest.loops import Loop

i, j, k = Var("i"), Var("j"), Var("k")
EXTENTS = {
    i: np.array([1, 3, 8, 64, 7]),
    j: np.array([2, 1, 16, 5, 48]),
    k: np.array([9, 4, 1, 2, 30]),
}
A: Buffer = decl_buffer((4096, 4096), "float32", "A")
INDICES: list[tuple[PrimExpr, PrimExpr]] = [
    (i, j),
    (i * 4 + k, j * 2 - k * 3),
    (i + j, const(3, INT32)),
    (floordiv(i, 4), floormod(i, 4) * 16 + j),
    (floordiv(i * 3 + j, 5), k * 7),
    (floormod(i + j * 2, 6), floordiv(k, 2) * 8 + floormod(j, 3)),
    (minimum(i, j + 2), maximum(i * 2, k)),
]


def access(indices: tuple[PrimExpr, PrimExpr], extents: dict[Var, int]) -> MemoryAccess:
    return MemoryAccess(A, tuple(map(affine_of, indices)), False, ranges_of(extents))


def nth(number: int) -> dict[Var, int]:
    return {var: int(values[number]) for var, values in EXTENTS.items()}


def loops(extents: dict[Var, int]) -> list[Loop]:
    return [Loop(var, extent, ForKind.SERIAL) for var, extent in extents.items()]


def loops_of_all() -> list[Loop]:
    made = loops(dict.fromkeys(EXTENTS, 2))
    for loop in made:
        loop.extent = EXTENTS[loop.var]  # type: ignore[assignment]
    return made


@pytest.mark.parametrize("indices", INDICES)
def test_footprints_below_each_loop(indices: tuple[PrimExpr, PrimExpr]) -> None:
    together = access(indices, EXTENTS).footprints(loops_of_all())  # type: ignore[arg-type]
    for number in range(5):
        alone = access(indices, nth(number)).footprints(loops(nth(number)))
        assert [int(np.broadcast_to(size, 5)[number]) for size in together] == alone


@pytest.mark.parametrize("indices", INDICES)
@pytest.mark.parametrize("count", range(4))
def test_footprints_while_some_loops_run(indices: tuple[PrimExpr, PrimExpr], count: int) -> None:
    for running in itertools.combinations(EXTENTS, count):
        together = access(indices, EXTENTS).footprint({var: EXTENTS[var] for var in running})  # type: ignore[arg-type]
        for number in range(5):
            extents = nth(number)
            alone = access(indices, extents).footprint({var: extents[var] for var in running})
            assert int(np.broadcast_to(together, 5)[number]) == alone


@pytest.mark.parametrize("indices", INDICES[:3])
def test_strides_do_not_depend_on_extents(indices: tuple[PrimExpr, PrimExpr]) -> None:
    for several, one in zip(loops_of_all(), loops(nth(4)), strict=True):
        assert access(indices, EXTENTS).stride(several) == access(indices, nth(4)).stride(one)  # type: ignore[arg-type]


def bounds(indices: tuple[PrimExpr, PrimExpr], evaluator: RangeEvaluator) -> list[Any]:
    return [end for index in indices for end in evaluator.of(index)]


@pytest.mark.parametrize("indices", INDICES)
def test_bounds(indices: tuple[PrimExpr, PrimExpr]) -> None:
    together = bounds(indices, MovingRanges(ranges_of(EXTENTS)))
    for number in range(5):
        alone = bounds(indices, MovingRanges(ranges_of(nth(number))))
        assert [int(np.broadcast_to(end, 5)[number]) for end in together] == alone

"""Convolutions of Heron's front on VTA: spaces as large as counted, exact results."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.unit.heron.convolutions import in_numpy, operands, sizes, solutions, space
from tests.unit.solver.problems import chi_square_z

import tilewright as tw
from tilewright.errors import TuneError
from tilewright.heron.operators.convolution import Convolution
from tilewright.heron.space import HeronSpace
from tilewright.heron.template import divisors
from tilewright.solver.array_solver import ArraySolver

Array = npt.NDArray[Any]
BLOCK = 16
CASES = {
    "c1d": (1, 20, 32, 32, 3, 1, 2, 2),
    "c2d": (1, 8, 8, 32, 32, 3, 3, 1, 1, 1),
    "dil": (2, 8, 8, 32, 16, 3, 3, 2, 2, 2),
    "wide c2d": (1, 14, 14, 256, 256, 3, 3, 1, 1, 1),
    "pointwise c2d": (1, 14, 14, 256, 512, 1, 1, 2, 0, 1),
}


def case(name: str) -> tuple[Convolution, HeronSpace]:
    operator = name.split(" ")[-1]
    return sizes(operator, CASES[name]), space("vta", operator, CASES[name])


def blocked(tensor: Array) -> Array:
    """Channels, which are last, in blocks, whose number comes second."""
    *rest, channels = tensor.shape
    blocks = tensor.reshape(*rest, channels // BLOCK, BLOCK)
    return np.ascontiguousarray(np.moveaxis(blocks, -2, 1))


def blocked_weights(weights: Array) -> Array:
    filters, *kernel, channels = weights.shape
    blocks = weights.reshape(filters // BLOCK, BLOCK, *kernel, channels // BLOCK, BLOCK)
    return np.ascontiguousarray(np.moveaxis(np.moveaxis(blocks, -2, 1), 2, -2))


def legal_tiles(conv: Convolution) -> int:
    """How many choices of threads and tiles fit, counted one by one."""
    results = (conv.batch, conv.filters // BLOCK, *conv.out_extents)
    windows = [conv.dilation * (k - 1) + 1 for k in conv.kernel]
    kernel = int(np.prod(conv.kernel))
    count = 0
    for threads in itertools.product(*[[t for t in (1, 2) if n % t == 0] for n in results]):
        if np.prod(threads) > 2:
            continue
        parts = [divisors(n // t) for n, t in zip(results, threads, strict=True)]
        for batch, filters, *tile in itertools.product(*parts):
            reach = [(t - 1) * conv.step + w for t, w in zip(tile, windows, strict=True)]
            area = batch * filters * int(np.prod(tile))
            for depth in divisors(conv.channels // BLOCK):
                held = np.asarray([batch * depth * np.prod(reach), filters * depth * kernel, area])
                fits = (held * np.prod(threads) <= (2048, 1024, 2048)).all()
                count += bool(fits and (depth * kernel == 1 or area >= 3))
    return count


@pytest.mark.parametrize("name", CASES)
def test_as_many_tiles_fit_as_are_counted_one_by_one(name: str) -> None:
    conv, found = case(name)
    assert ArraySolver().prepare(found.problem).count == pytest.approx(legal_tiles(conv))


@pytest.mark.parametrize("name", ["c1d", "c2d"])
def test_each_tile_is_drawn_as_often_as_any_other(name: str) -> None:
    conv, found = case(name)
    cells = legal_tiles(conv)
    drawn = ArraySolver().prepare(found.problem).sample(100 * cells, np.random.default_rng(3))
    rows = Counter(map(tuple, drawn.values.tolist()))
    assert len(rows) == cells
    assert abs(chi_square_z(rows, cells)) < 4


@pytest.mark.parametrize("name", ["c1d", "c2d", "dil"])
def test_candidates_equal_numpy(name: str) -> None:
    conv, found = case(name)
    data, weights = operands(conv)
    expected = blocked(in_numpy(conv, data, weights))
    stored = blocked(data).astype(np.int8), blocked_weights(weights).astype(np.int8)
    for values in solutions(found, 4):
        result = np.zeros(expected.shape, np.int32)
        tw.build(found.schedule(values).mod, "vta")(*stored, result)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("operator", "shape", "message"),
    [
        (
            "c2d",
            (1, 8, 8, 24, 16, 3, 3, 1, 1, 1),
            "operator 'c2d': CI must be a multiple of 16 on vta, got 24",
        ),
        (
            "c2d",
            (1, 8, 8, 16, 16, 3, 3, 1, 3, 1),
            "operator 'c2d': padding must be at most 2 on vta, got 3",
        ),
        (
            "t2d",
            (1, 8, 8, 16, 16, 3, 3, 2, 1, 1),
            "operator 't2d': vta loads rows of two dimensions and sums over channels; its "
            "convolutions are c1d, c2d and dil",
        ),
    ],
)
def test_what_vta_has_no_instruction_for(
    operator: str, shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(TuneError) as error:
        space("vta", operator, shape)
    assert str(error.value) == message

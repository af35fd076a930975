"""Convolutions for tests of Heron's front: spaces, operands, and results in NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.heron.operators import operation_of
from tilewright.heron.operators.convolution import Convolution
from tilewright.heron.platforms import heron_platforms
from tilewright.heron.space import HeronSpace, space_of
from tilewright.solver.array_solver import ArraySolver

Array = npt.NDArray[Any]

DIMENSIONS = {"c1d": 1, "c3d": 3}


def space(platform: str, operator: str, shape: tuple[int, ...], *dtypes: str) -> HeronSpace:
    chosen = heron_platforms.create(platform)
    return space_of(operation_of(chosen.case(operator, shape, *dtypes)), chosen)


def sizes(operator: str, shape: tuple[int, ...]) -> Convolution:
    case = heron_platforms.create("dlboost").case(operator, shape)
    dims = DIMENSIONS.get(operator, 2)
    return Convolution.of(case, dims, operator == "t2d", operator == "dep")


def in_numpy(conv: Convolution, data: Array, weights: Array) -> Array:
    """A transposed convolution scatters what others gather."""
    out = np.zeros((conv.batch, *conv.out_extents, conv.filters), np.int64)
    every: tuple[Any, ...] = (slice(None),)
    margin = [conv.padding] * len(conv.kernel)
    source, target = (out, data) if conv.is_transposed else (data, out)
    after = [conv.padding + conv.dilation * size + conv.stride for size in conv.kernel]
    grown = [(0, 0), *zip(margin, after, strict=True), (0, 0)]
    whole = np.pad(source.astype(np.int64), grown)
    for place in itertools.product(*map(range, conv.kernel)):
        starts = [offset * conv.dilation for offset in place]
        spans = zip(starts, target.shape[1:-1], strict=True)
        stride = conv.stride
        sliced = tuple(slice(s, s + (n - 1) * stride + 1, stride) for s, n in spans)
        windows = whole[every + sliced]
        kernel = weights[place] if conv.is_depthwise else weights[every + place].T
        if conv.is_transposed:
            windows += data @ kernel
        else:
            out += windows * kernel if conv.is_depthwise else windows @ kernel
    if not conv.is_transposed:
        return out
    inside = tuple(slice(m, m + n) for m, n in zip(margin, conv.out_extents, strict=True))
    return np.asarray(whole[every + inside])


def packed(weights: Array) -> Array:
    """Filters and channels in packs of 16 x 4."""
    co, *kernel, ci = weights.shape
    outer = weights.reshape(co // 16, 16, *kernel, ci // 4, 4)
    return np.ascontiguousarray(np.moveaxis(outer, 1, -2))


def operands(conv: Convolution, seed: int = 1) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 4, (conv.batch, *conv.extents, conv.channels))
    shape = (conv.filters, *conv.kernel, conv.channels)
    if conv.is_depthwise:
        shape = (*conv.kernel, conv.channels)
    return data, rng.integers(-3, 4, shape)


def solutions(of: HeronSpace, count: int, seed: int = 0) -> list[dict[str, int]]:
    drawn = ArraySolver().prepare(of.problem).sample(count, np.random.default_rng(seed))
    return list(drawn.assignments())

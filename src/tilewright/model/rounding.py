"""Rounding errors that Winograd's tiles add to convolutions, measured on their weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tilewright import te
from tilewright.driver import build
from tilewright.graph.graph import Array, Graph
from tilewright.graph.passes.winograd import WINOGRAD
from tilewright.topi.nn.winograd_tiles import TAPS, winograd_conv2d

_SIDE, _FILTERS, _SEED = 8, 16, 0  # of what is measured: enough to see the largest errors


@dataclass(frozen=True, eq=False)
class TiledConvolution:
    """A convolution of a model that is computed by tiles; prints with its errors."""

    source: str  # what it is called in the model
    tile: int
    weights: Array  # of a few filters: those of all are packed, and gone

    @cached_property
    def errors(self) -> tuple[float, float]:
        """The largest errors of this way and of the direct one, see `rounding_errors`."""
        return rounding_errors(self.weights, self.tile)

    def __str__(self) -> str:
        own, direct = self.errors
        return (
            f"{self.source}: Winograd F({self.tile}), largest error {own:.1e} of the largest "
            f"result, {direct:.1e} if direct"
        )


def tiled_convolutions(graph: Graph) -> list[TiledConvolution]:
    """All of a graph."""
    return [
        TiledConvolution(
            node.source or node.outputs[0].name,
            node.attrs["tile_size"],
            graph.constants[node.operands[1]][..., :_FILTERS].copy(),
        )
        for node in graph.nodes
        if node.op == WINOGRAD
    ]


def rounding_errors(weights: Array, tile: int) -> tuple[float, float]:
    """The largest errors of tiles of that size and of direct sums, both in 32 bits.

    Against 64 bits, on a few tiles of random data behind a ReLU, as shares of the largest result.
    """
    kernel = np.ascontiguousarray(weights[..., :_FILTERS], np.float32)
    rng = np.random.default_rng(_SEED)
    shape = (1, _SIDE, _SIDE, kernel.shape[2])
    data = np.maximum(rng.standard_normal(shape), 0).astype(np.float32)
    exact = _convolved(data.astype(np.float64), kernel.astype(np.float64))
    scale = float(abs(exact).max()) or 1.0
    results = _by_tiles(data, kernel, tile), _convolved(data, kernel)
    own, direct = (float(abs(result - exact).max()) / scale for result in results)
    return own, direct


def _convolved(data: Array, kernel: Array) -> Array:
    """The sum over the window, padded by one."""
    padded = np.pad(data, ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = data.shape[1:3]
    total: Array = np.zeros((*data.shape[:3], kernel.shape[3]), data.dtype)
    for i in range(TAPS):
        for j in range(TAPS):
            total = total + padded[:, i : i + height, j : j + width] @ kernel[i, j]
    return total


def _by_tiles(data: Array, kernel: Array, tile: int) -> Array:
    x, w = te.placeholder(data.shape, name="data"), te.placeholder(kernel.shape, name="kernel")
    result = np.zeros((*data.shape[:3], kernel.shape[3]), np.float32)
    build(te.create_prim_func([x, w, winograd_conv2d(x, w, 1, tile)]))(data, kernel, result)
    return result

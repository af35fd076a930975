"""Convolutions that can be computed in several ways: directly, or by Winograd tiles of two sizes.

Each way is a kernel of its own, tuned as a task of its own. What was measured for all ways decides;
where nothing was, calculation does, and then Winograd has to be better by a margin. Transformed
weights are up to four times as large, which a kernel that runs again and again does not notice: in
a model whose weights do not fit into the caches they come from memory, so that counts as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tilewright import ir, te
from tilewright.cost_model.prior import Machine, estimate
from tilewright.database import Database
from tilewright.driver import build
from tilewright.graph.graph import Array, Graph, GraphNode, GraphValue
from tilewright.graph.passes.winograd import (
    CONV2D,
    WINOGRAD,
    winograd_candidates,
    with_winograd,
)
from tilewright.model.kernels import groups_of, program_of
from tilewright.target import Target
from tilewright.topi.nn.winograd_points import TAPS, winograd_points
from tilewright.topi.nn.winograd_tiles import winograd_conv2d
from tilewright.tune.context import normalize_mod
from tilewright.tune.fallback import default_schedule

DIRECT = 0  # the size of tiles where there are none
TILES = (2, 4)
# What calculation must promise to be believed, as a share of the direct way's time.
MARGIN = 0.8
_SIDE, _FILTERS, _SEED = 8, 64, 0  # of what errors are measured on: enough to see the largest


@dataclass(frozen=True, eq=False)
class ConvolutionChoice:
    """How one convolution is computed, and the seconds that each way takes, by tile size."""

    source: str  # what it is called in the model
    tile: int
    seconds: Mapping[int, float]
    is_measured: bool
    weights: Array

    @cached_property
    def errors(self) -> tuple[float, float]:
        """The largest errors of this way and of the direct one, for random data.

        Both against 64 bits, as shares of the largest result.
        """
        return rounding_errors(self.weights, self.tile)

    def __str__(self) -> str:
        how = "measured" if self.is_measured else "calculated"
        times = ", ".join(
            f"{_name(tile)} {seconds * 1e3:.3f} ms" for tile, seconds in self.seconds.items()
        )
        if self.tile == DIRECT:
            return f"{self.source}: direct ({how}: {times})"
        own, direct = self.errors
        return (
            f"{self.source}: {_name(self.tile)} ({how}: {times}); largest error {own:.1e} of the "
            f"largest result, {direct:.1e} if direct"
        )


@dataclass(frozen=True, eq=False)
class ChosenGraph:
    """A graph with the fastest way for each of its convolutions; prints as a report."""

    graph: Graph
    choices: Sequence[ConvolutionChoice] = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self.choices))


def alternatives_of(graph: Graph) -> dict[int, Graph]:
    """The graph with all convolutions that have several ways in each of them, by tile size."""
    nodes = winograd_candidates(graph)
    if not nodes:
        return {DIRECT: graph}
    results = [node.outputs[0] for node in nodes]
    others = {size: with_winograd(graph, dict.fromkeys(results, size)) for size in TILES}
    return {DIRECT: graph, **others}


def with_fastest_convolutions(
    graph: Graph, target: Target, database: Database | None = None
) -> ChosenGraph:
    """The graph in which each convolution is computed in the way that takes least time."""
    nodes = winograd_candidates(graph)
    if not nodes or not target.is_cpu:
        return ChosenGraph(graph)
    programs = {size: programs_of(way) for size, way in alternatives_of(graph).items()}
    times = _Times(target, database)
    choices: dict[GraphValue, ConvolutionChoice] = {}
    for node in nodes:
        name = node.outputs[0].name
        ways = {size: found[name] for size, found in programs.items() if name in found}
        seconds, is_measured = times.of(ways, _delays(graph, node, target))
        choices[node.outputs[0]] = ConvolutionChoice(
            node.source or name,
            _fastest(seconds, is_measured),
            seconds,
            is_measured,
            graph.constants[node.operands[1]],
        )
    sizes = {value: choice.tile for value, choice in choices.items()}
    return ChosenGraph(with_winograd(graph, sizes), tuple(choices.values()))


def _fastest(seconds: Mapping[int, float], is_measured: bool) -> int:
    best = min(seconds, key=lambda size: seconds[size])
    is_sure = is_measured or seconds[best] <= MARGIN * seconds[DIRECT]
    return best if is_sure else DIRECT


class _Times:
    """How long programs take."""

    def __init__(self, target: Target, database: Database | None) -> None:
        self._target = target
        self._database = database
        self._calculated: dict[int, float] = {}

    def of(
        self, ways: Mapping[int, ir.PrimFunc], delays: Mapping[int, float]
    ) -> tuple[dict[int, float], bool]:
        """Seconds of each way, and whether they were measured."""
        records = {size: self.measured(func) for size, func in ways.items()}
        found = {size: secs for size, secs in records.items() if secs is not None}
        is_measured = DIRECT in found
        if not is_measured:
            found = {size: self.calculated(func) for size, func in ways.items()}
        return {size: secs + delays[size] for size, secs in found.items()}, is_measured

    def measured(self, func: ir.PrimFunc) -> float | None:
        """Seconds of the best record."""
        if self._database is None:
            return None
        record = self._database.query_tuning_record(normalize_mod(func), self._target, "main")
        return None if record is None else record.mean_secs

    def calculated(self, func: ir.PrimFunc) -> float:
        """Seconds that calculation expects of the schedule without a search."""
        key = ir.structural_hash(func.without_attr("global_symbol"))
        if key not in self._calculated:
            made = default_schedule(func, self._target).mod["main"]
            self._calculated[key] = estimate(made, Machine.of(self._target))
        return self._calculated[key]


def programs_of(graph: Graph) -> dict[str, ir.PrimFunc]:
    """The programs of the convolutions of a graph, by the names of their results."""
    return {
        node.outputs[0].name: program_of(group, graph)
        for group in groups_of(graph)
        for node in group.nodes
        if node.op in (CONV2D, WINOGRAD)
    }


def _delays(graph: Graph, node: GraphNode, target: Target) -> dict[int, float]:
    """Seconds for the weights of each way to come from memory, if a model's do not stay."""
    machine = Machine.of(target)
    weight = node.operands[1].type.bytes
    if sum(value.type.bytes for value in graph.constants) <= machine.l3_bytes:
        return dict.fromkeys((DIRECT, *TILES), 0.0)
    sizes = {DIRECT: float(weight)}
    sizes.update({m: weight * winograd_points(m).alpha ** 2 / TAPS**2 for m in TILES})
    speed = machine.memory_bytes_per_cycle * machine.hertz
    return {size: count / speed for size, count in sizes.items()}


def _name(tile: int) -> str:
    return f"F({tile})" if tile else "direct"


# --- errors -------------------------------------------------------------------------------------


def rounding_errors(weights: Array, tile: int) -> tuple[float, float]:
    """The largest errors of tiles of that size and of direct sums, both in 32 bits.

    Measured on a few tiles of random data behind a ReLU, as shares of the largest result.
    """
    kernel = np.ascontiguousarray(weights[..., :_FILTERS], np.float32)
    rng = np.random.default_rng(_SEED)
    shape = (1, _SIDE, _SIDE, kernel.shape[2])
    data = np.maximum(rng.standard_normal(shape), 0).astype(np.float32)
    exact = _convolved(data.astype(np.float64), kernel.astype(np.float64))
    scale = float(abs(exact).max()) or 1.0
    direct = _convolved(data, kernel)
    made = _by_tiles(data, kernel, tile) if tile else direct
    own, other = (float(abs(result - exact).max()) / scale for result in (made, direct))
    return own, other


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

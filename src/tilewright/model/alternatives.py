"""Convolutions that can be computed in several ways: directly, or by Winograd tiles of two sizes.

Each way is a kernel of its own, tuned as a task of its own. What was measured for all ways decides;
where nothing was, calculation does, and then Winograd's kernel has to be better, by a margin, than
the best that a direct one could be. Transformed
weights are up to four times as large, which a kernel that runs again and again does not notice: in
a model whose weights do not fit into the caches they come from memory, so that counts as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright import ir
from tilewright.cost_model.prior import Machine, estimate, operations_per_second
from tilewright.database import Database
from tilewright.graph.fusion import FusedGroup
from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.passes.winograd import (
    CONV2D,
    WINOGRAD,
    in_tiles,
    winograd_candidates,
    with_winograd,
)
from tilewright.model.kernels import SamePrograms, groups_of, program_of
from tilewright.model.parallel_schedules import schedules_without_search
from tilewright.model.schedules import (
    ScheduledKernel,
    Scheduler,
    schedule_of,
    served_secs,
    without_search,
)
from tilewright.model.tasks import ExtractedTask, tasks_of
from tilewright.support.names import NameSupply
from tilewright.target import Target
from tilewright.topi.nn.winograd_points import TAPS, winograd_points

DIRECT = 0  # the size of tiles where there are none
TILES = (2, 4)
# What calculation must promise to be believed, as a share of the direct way's time.
MARGIN = 0.85
WEIGHTS_PER_SECOND = 28e9  # bytes that come from memory, one after the other
# Tasks of ways that could not take less than so many times the best are left out; those of all but
# the likeliest way count for a part of what they would save.
HOPELESS, UNLIKELY_SHARE = 1.6, 0.25


class RememberedSchedules:
    """A scheduler that answers the second time from memory."""

    def __init__(self, schedule: Scheduler = without_search) -> None:
        self._schedule = schedule
        self._known: SamePrograms[ScheduledKernel] = SamePrograms()

    def __call__(self, func: ir.PrimFunc, target: Target) -> ScheduledKernel:
        found = self._known.find(func)
        if found is None:
            found = schedule_of(self._schedule(func, target))
            self._known.add(func, found)
        return found

    def prepare(self, funcs: Sequence[ir.PrimFunc], target: Target) -> None:
        """Calculate schedules for programs that will be asked for, on all cores."""
        different: SamePrograms[ir.PrimFunc] = SamePrograms()
        wanted = []
        for func in funcs:
            if self._known.find(func) is None and different.find(func) is None:
                different.add(func, func)
                wanted.append(func)
        for func, made in zip(wanted, schedules_without_search(wanted, target), strict=True):
            if made is not None:
                self._known.add(func, made)


@dataclass(frozen=True, eq=False)
class ConvolutionChoice:
    """How one convolution is computed, and the seconds that each way takes, by tile size."""

    source: str  # what it is called in the model
    tile: int
    seconds: Mapping[int, float]
    is_measured: bool

    def __str__(self) -> str:
        how = "measured" if self.is_measured else "calculated"
        times = ", ".join(
            f"{_name(tile)} {seconds * 1e3:.3f} ms" for tile, seconds in self.seconds.items()
        )
        return f"{self.source}: {_name(self.tile)} ({how}: {times})"


@dataclass(frozen=True, eq=False)
class ChosenGraph:
    """A graph with the fastest way for each of its convolutions; prints as a report."""

    graph: Graph
    choices: Sequence[ConvolutionChoice] = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self.choices))


@dataclass(frozen=True, eq=False)
class ConvolutionWays:
    """A convolution, and the kernel that it is part of."""

    graph: Graph
    group: FusedGroup
    node: GraphNode

    def program(self, size: int) -> ir.PrimFunc:
        """The program of the kernel with the convolution in tiles of a size."""
        nodes = tuple(in_tiles(n, size) if n is self.node else n for n in self.group.nodes)
        return program_of(replace(self.group, nodes=nodes), self.graph)


def ways_of(graph: Graph) -> list[ConvolutionWays]:
    """All convolutions that can be computed in several ways."""
    nodes = set(winograd_candidates(graph))
    return [
        ConvolutionWays(graph, group, node)
        for group in (groups_of(graph) if nodes else ())
        for node in group.nodes
        if node in nodes
    ]


def alternatives_of(graph: Graph) -> dict[int, Graph]:
    """The graph with all convolutions that have several ways in each of them, by tile size."""
    results = [node.outputs[0] for node in winograd_candidates(graph)]
    sizes = TILES if results else ()
    others = {size: with_winograd(graph, dict.fromkeys(results, size)) for size in sizes}
    return {DIRECT: graph, **others}


def with_fastest_convolutions(
    graph: Graph,
    target: Target,
    database: Database | None = None,
    schedule: RememberedSchedules | None = None,
) -> ChosenGraph:
    """The graph in which each convolution is computed in the way that takes least time."""
    times = _Times(target, database, schedule or RememberedSchedules())
    choices: dict[GraphValue, ConvolutionChoice] = {}
    for ways in ways_of(graph) if target.is_cpu else ():
        choices[ways.node.outputs[0]] = times.measured(ways) or times.calculated(ways)
    sizes = {value: choice.tile for value, choice in choices.items()}
    return ChosenGraph(with_winograd(graph, sizes), tuple(choices.values()))


class _Times:
    """How long the ways for a convolution take, and which of them is taken for that."""

    def __init__(
        self, target: Target, database: Database | None, schedule: RememberedSchedules
    ) -> None:
        self._target = target
        self._database = database
        self._schedule = schedule

    def measured(self, ways: ConvolutionWays) -> ConvolutionChoice | None:
        """The fastest by measurement; None if nobody has measured the direct way."""
        if self._database is None:
            return None
        delays = _delays(ways.graph, ways.node, self._target)
        database, target = self._database, self._target
        sizes = (DIRECT, *TILES)
        found = {size: served_secs(database, ways.program(size), target) for size in sizes}
        seconds = {
            size: secs + delays[size]
            for size, secs in found.items()
            if secs is not None and secs < math.inf
        }
        if found[DIRECT] is None or not seconds:
            return None
        best = min(seconds, key=lambda size: seconds[size])
        return ConvolutionChoice(source_of(ways.node), best, seconds, True)

    def calculated(self, ways: ConvolutionWays) -> ConvolutionChoice:
        """The likeliest way whose kernel beats the best that a direct one could do.

        Its schedule is remembered, so that choosing costs the compiler no time.
        """
        least = least_seconds(ways.graph, ways.node, self._target)
        delays = _delays(ways.graph, ways.node, self._target)
        seconds = {DIRECT: least[DIRECT]}
        enough, best = MARGIN * least[DIRECT], DIRECT
        for size in sorted(TILES, key=lambda tile: least[tile]):
            if best == DIRECT and least[size] <= enough:
                made = self._schedule(ways.program(size), self._target).mod
                seconds[size] = estimate(made["main"], Machine.of(self._target)) + delays[size]
                best = size if seconds[size] <= enough else DIRECT
        return ConvolutionChoice(source_of(ways.node), best, seconds, False)


def source_of(node: GraphNode) -> str:
    """What a convolution is called in the model."""
    return node.source or node.outputs[0].name


def least_seconds(graph: Graph, node: GraphNode, target: Target) -> dict[int, float]:
    """The least that each way could take: its products at the speed of the processor."""
    images, height, width, filters = node.outputs[0].type.extents
    pairs = images * node.operands[1].type.extents[2] * filters
    products = {DIRECT: height * width * pairs * TAPS**2}
    for size in TILES:
        tiles = -(-height // size) * -(-width // size)
        products[size] = tiles * pairs * winograd_points(size).alpha ** 2
    speed, delays = operations_per_second(target), _delays(graph, node, target)
    return {size: 2 * count / speed + delays[size] for size, count in products.items()}


def programs_to_schedule(graph: Graph, target: Target, *, winograd: bool) -> list[ir.PrimFunc]:
    """The programs that compiling a graph will most likely ask schedules for."""
    ways = ways_of(graph) if winograd else []
    likely = {way.group.nodes: _likely_program(way, target) for way in ways}
    return [likely.get(group.nodes) or program_of(group, graph) for group in groups_of(graph)]


def _likely_program(ways: ConvolutionWays, target: Target) -> ir.PrimFunc:
    """That of the way which is looked at first, see `_Times.calculated`."""
    least = least_seconds(ways.graph, ways.node, target)
    size = min(TILES, key=lambda tile: least[tile])
    return ways.program(size if least[size] <= MARGIN * least[DIRECT] else DIRECT)


def _delays(graph: Graph, node: GraphNode, target: Target) -> dict[int, float]:
    """Seconds for the weights of each way to come from memory, if a model's do not stay."""
    weight = node.operands[1].type.bytes
    if sum(value.type.bytes for value in graph.constants) <= Machine.of(target).l3_bytes:
        return dict.fromkeys((DIRECT, *TILES), 0.0)
    sizes = {DIRECT: float(weight)}
    sizes.update({m: weight * winograd_points(m).alpha ** 2 / TAPS**2 for m in TILES})
    return {size: count / WEIGHTS_PER_SECOND for size, count in sizes.items()}


def _name(tile: int) -> str:
    return f"F({tile})" if tile else "direct"


# --- tasks --------------------------------------------------------------------------------------


def competing_tasks(graph: Graph, target: Target) -> tuple[list[ExtractedTask], dict[str, float]]:
    """All tasks of a graph, those of other ways for its convolutions included; their weights."""
    nodes = winograd_candidates(graph) if target.is_cpu else []
    least = {source_of(node): least_seconds(graph, node, target) for node in nodes}
    names, tasks, weights = NameSupply(), [], {}
    for size, way in alternatives_of(graph).items() if nodes else [(DIRECT, graph)]:
        for task in tasks_of(way, target):
            share = _share(task, size, least)
            if share:
                named = replace(task, task_name=names.fresh(task.task_name))
                tasks.append(named)
                weights[named.task_name] = share * task.weight
    return tasks, weights


def _share(task: ExtractedTask, size: int, least: Mapping[str, Mapping[int, float]]) -> float:
    """How much of what a task saves counts; 0 if it is none of this way's, or not worth trying."""
    nodes = [node for group in task.groups for node in group.nodes]
    names = [source_of(node) for node in nodes if node.op in (CONV2D, WINOGRAD)]
    seconds = next((least[name] for name in names if name in least), None)
    if seconds is None:
        return 1.0 if size == DIRECT else 0.0
    factor = seconds[size] / min(seconds.values())
    if size != DIRECT and factor > HOPELESS:
        return 0.0
    return 1.0 if factor <= 1.0 else UNLIKELY_SHARE

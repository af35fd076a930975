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
from dataclasses import dataclass, field, replace

from tilewright import ir
from tilewright.cost_model.prior import Machine, estimate, operations_per_second
from tilewright.database import Database
from tilewright.graph.fusion import FusedGroup
from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.passes.winograd import (
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
from tilewright.model.tasks import ExtractedTask, groups_from_the_end, tasks_of_groups
from tilewright.support.names import NameSupply
from tilewright.target import Target
from tilewright.topi.nn.winograd_tiles import TAPS, winograd_points

DIRECT = 0  # the size of tiles where there are none
TILES = (2, 4)
# What calculation must promise to be believed, as a share of the direct way's time.
MARGIN = 0.85
WEIGHTS_PER_SECOND = 28e9  # bytes that come from memory, one after the other
HOPELESS = 1.6  # times what the best takes: ways that cannot take less are no tasks


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

    @property
    def tiles(self) -> dict[str, int]:
        """The sizes of tiles, by convolution."""
        return {choice.source: choice.tile for choice in self.choices}

    def __str__(self) -> str:
        return "\n".join(map(str, self.choices))


@dataclass(frozen=True, eq=False)
class ConvolutionWays:
    """A convolution, and the kernel that it is part of."""

    graph: Graph
    group: FusedGroup
    node: GraphNode

    def group_in(self, size: int) -> FusedGroup:
        """The kernel with the convolution in tiles of a size."""
        nodes = tuple(in_tiles(n, size) if n is self.node else n for n in self.group.nodes)
        return replace(self.group, nodes=nodes)

    def program(self, size: int) -> ir.PrimFunc:
        """The program of that."""
        return program_of(self.group_in(size), self.graph)


def ways_of(graph: Graph) -> list[ConvolutionWays]:
    """All convolutions that can be computed in several ways."""
    nodes = set(winograd_candidates(graph))
    return [
        ConvolutionWays(graph, group, node)
        for group in (groups_of(graph) if nodes else ())
        for node in group.nodes
        if node in nodes
    ]


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


@dataclass(frozen=True, eq=False)
class CompetingTask:
    """A task, the size of its tiles, and the convolution that there are several ways for."""

    task: ExtractedTask
    size: int = DIRECT
    source: str = ""
    least: Mapping[int, float] = field(default_factory=dict)  # seconds, by way

    def expected_secs(self, seconds: Mapping[str, float], tiles: Mapping[str, int]) -> float | None:
        """What it takes in a model, given what values take there and the tiles of convolutions.

        Where the model computes them in another way, arithmetic says what this one would take.
        """
        made = [value.name for group in self.task.groups for value in group.outputs]
        known = [seconds[name] for name in made if name in seconds]
        if not known:
            return None
        mean, there = sum(known) / len(known), tiles.get(self.source, DIRECT)
        return mean * self.least[self.size] / self.least[there] if self.least else mean


def competing_tasks(graph: Graph, target: Target, *, winograd: bool = True) -> list[CompetingTask]:
    """All tasks of a graph, those of other ways for its convolutions included."""
    groups, names = groups_from_the_end(graph), NameSupply()
    has_ways = winograd and target.is_cpu
    ways = {way.group.outputs: way for way in ways_of(graph)} if has_ways else {}
    least = {made: least_seconds(graph, way.node, target) for made, way in ways.items()}
    found = []
    for size in (DIRECT, *(TILES if ways else ())):
        own = groups
        if size != DIRECT:
            hopeful = [g.outputs for g in groups if _has_hope(least.get(g.outputs), size)]
            own = [ways[made].group_in(size) for made in hopeful]
        for task in tasks_of_groups(graph, own, target):
            named = replace(task, task_name=names.fresh(task.task_name))
            way = ways.get(made := task.groups[0].outputs)
            known = () if way is None else (source_of(way.node), least[made])
            found.append(CompetingTask(named, size, *known))
    return found


def _has_hope(least: Mapping[int, float] | None, size: int) -> bool:
    return least is not None and least[size] <= HOPELESS * min(least.values())

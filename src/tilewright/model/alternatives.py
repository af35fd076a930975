"""Convolutions that can be computed in several ways: directly, or by Winograd tiles of two sizes.

Each way is a kernel of its own, tuned as a task of its own. What was measured for all ways decides;
where nothing was, calculation does, and then Winograd has to be better by a margin. Transformed
weights are up to four times as large, which a kernel that runs again and again does not notice: in
a model whose weights do not fit into the caches they come from memory, so that counts as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright import ir
from tilewright.cost_model.prior import Machine, estimate
from tilewright.database import Database
from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.passes.winograd import (
    CONV2D,
    WINOGRAD,
    winograd_candidates,
    with_winograd,
)
from tilewright.model.kernels import SamePrograms, groups_of, program_of
from tilewright.model.schedules import ScheduledKernel, Scheduler, schedule_of, without_search
from tilewright.model.tasks import ExtractedTask, tasks_of
from tilewright.support.names import NameSupply
from tilewright.target import Target
from tilewright.topi.nn.winograd_points import TAPS, winograd_points
from tilewright.tune.context import normalize_mod

DIRECT = 0  # the size of tiles where there are none
TILES = (2, 4)
# What calculation must promise to be believed, as a share of the direct way's time.
MARGIN = 0.8
# Tasks: what calculation expects to take so many times the best is not tuned at all, and what it
# expects to be slower than the best counts for a part of what it would save.
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
    nodes = winograd_candidates(graph) if target.is_cpu else []
    programs = {size: programs_of(way) for size, way in alternatives_of(graph).items() if nodes}
    times = _Times(target, database, schedule or RememberedSchedules())
    choices: dict[GraphValue, ConvolutionChoice] = {}
    for node in nodes:
        name = node.outputs[0].name
        ways = {size: found[name] for size, found in programs.items()}
        seconds, is_measured = times.of(ways, _delays(graph, node, target))
        best = _fastest(seconds, is_measured)
        choice = ConvolutionChoice(node.source or name, best, seconds, is_measured)
        choices[node.outputs[0]] = choice
    sizes = {value: choice.tile for value, choice in choices.items()}
    return ChosenGraph(with_winograd(graph, sizes), tuple(choices.values()))


def _fastest(seconds: Mapping[int, float], is_measured: bool) -> int:
    best = min(seconds, key=lambda size: seconds[size])
    is_sure = is_measured or seconds[best] <= MARGIN * seconds[DIRECT]
    return best if is_sure else DIRECT


class _Times:
    """How long programs take."""

    def __init__(
        self, target: Target, database: Database | None, schedule: RememberedSchedules
    ) -> None:
        self._target = target
        self._database = database
        self._schedule = schedule

    def of(
        self, ways: Mapping[int, ir.PrimFunc], delays: Mapping[int, float]
    ) -> tuple[dict[int, float], bool]:
        """Seconds of each way, and whether they were measured."""
        records = {size: self._measured(func) for size, func in ways.items()}
        found = {size: secs for size, secs in records.items() if secs is not None}
        is_measured = DIRECT in found
        if not is_measured:
            found = {size: self.calculated(func) for size, func in ways.items()}
        return {size: secs + delays[size] for size, secs in found.items()}, is_measured

    def _measured(self, func: ir.PrimFunc) -> float | None:
        """Seconds of the best record."""
        if self._database is None:
            return None
        record = self._database.query_tuning_record(normalize_mod(func), self._target, "main")
        return None if record is None else record.mean_secs

    def calculated(self, func: ir.PrimFunc) -> float:
        """Seconds that calculation expects."""
        made = self._schedule(func, self._target).mod
        return estimate(made["main"], Machine.of(self._target))


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


# --- tasks --------------------------------------------------------------------------------------


def competing_tasks(graph: Graph, target: Target) -> tuple[list[ExtractedTask], dict[str, float]]:
    """All tasks of a graph, those of other ways for its convolutions included; their weights."""
    calculated = with_fastest_convolutions(graph, target)
    names, tasks, weights = NameSupply(), [], {}
    times = {c.source: c.seconds for c in calculated.choices}
    for size, way in alternatives_of(graph).items() if calculated.choices else [(DIRECT, graph)]:
        for task in tasks_of(way, target):
            share = _share(task, size, times)
            if share:
                named = replace(task, task_name=names.fresh(task.task_name))
                tasks.append(named)
                weights[named.task_name] = share * task.weight
    return tasks, weights


def _share(task: ExtractedTask, size: int, times: Mapping[str, Mapping[int, float]]) -> float:
    """How much of what a task saves counts; 0 if it is none of this way's, or not worth trying."""
    nodes = [node for group in task.groups for node in group.nodes]
    names = [node.source or node.outputs[0].name for node in nodes if node.op in (CONV2D, WINOGRAD)]
    seconds = next((times[name] for name in names if name in times), None)
    if seconds is None:
        return 1.0 if size == DIRECT else 0.0
    factor = seconds[size] / min(seconds.values())
    if size != DIRECT and factor > HOPELESS:
        return 0.0
    return 1.0 if factor <= 1.0 else UNLIKELY_SHARE

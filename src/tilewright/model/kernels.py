"""Kernels of a model: one for each different group, from a record or by calculation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.database import Database
from tilewright.driver import build
from tilewright.graph.external import is_external
from tilewright.graph.fusion import FusedGroup, fuse
from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.lowering import kind_of_node, lower_group
from tilewright.graph.views import is_view
from tilewright.lowering.prepacking import separate_packing
from tilewright.runtime.binding import packers_of
from tilewright.runtime.module import CompiledFunction, Module
from tilewright.space.layout_free import with_bound_weights
from tilewright.support.names import NameSupply
from tilewright.target import Target
from tilewright.tune.context import normalize_mod
from tilewright.tune.fallback import default_schedule

Scheduler = Callable[[ir.PrimFunc, Target], ir.IRModule]


@dataclass(frozen=True, eq=False)
class ModelKernel:
    """Compiled code for groups that compute the same; `packers` rearrange constants once."""

    func: ir.PrimFunc
    module: Module

    @property
    def function(self) -> CompiledFunction:
        """What runs."""
        return self.module[self.module.entry_name]

    @property
    def packers(self) -> dict[int, CompiledFunction]:
        """By position of the argument that they pack."""
        return packers_of(self.module)


@dataclass(frozen=True, eq=False)
class KernelCall:
    """A kernel on values of the graph, inputs before outputs."""

    kernel: ModelKernel
    group: FusedGroup
    values: tuple[GraphValue, ...]


def without_search(func: ir.PrimFunc, target: Target) -> ir.IRModule:
    """The schedule that calculation alone chooses."""
    return default_schedule(func, target).mod


def from_database(database: Database) -> Scheduler:
    """The best schedules that a database knows; without a search where it knows none."""

    def schedule(func: ir.PrimFunc, target: Target) -> ir.IRModule:
        found = database.schedule_for(normalize_mod(func), target, "main")
        return without_search(func, target) if found is None else found.mod

    return schedule


def groups_of(graph: Graph) -> list[FusedGroup]:
    """What becomes a kernel; views and what others compute do not."""
    return [group for group in fuse(graph, kind_of_node) if _has_kernel(group.nodes)]


def _has_kernel(nodes: Sequence[GraphNode]) -> bool:
    return not all(map(is_view, nodes)) and not any(map(is_external, nodes))


def program_of(group: FusedGroup, graph: Graph) -> ir.PrimFunc:
    """The program of a group, whose constants are packed before the model runs."""
    func = lower_group(group, graph.constants)
    return with_bound_weights(ir.IRModule({"main": func}))["main"]


def kernels_module(graph: Graph) -> ir.IRModule:
    """A function for each call of a kernel, under names of their own."""
    names = NameSupply()
    return ir.IRModule(
        {names.fresh(group.name): program_of(group, graph) for group in groups_of(graph)}
    )


def compile_calls(
    graph: Graph, target: Target, schedule: Scheduler = without_search
) -> list[KernelCall]:
    """All kernels of a graph, those that compute the same compiled once."""
    known: dict[int, list[ModelKernel]] = {}
    calls = []
    for group in groups_of(graph):
        func = program_of(group, graph)
        same = known.setdefault(ir.structural_hash(_nameless(func)), [])
        kernel = next((k for k in same if _is_same(k.func, func)), None)
        if kernel is None:
            kernel = ModelKernel(func, _compiled(schedule(func, target), target))
            same.append(kernel)
        calls.append(KernelCall(kernel, group, (*group.inputs, *group.outputs)))
    return calls


def _nameless(func: ir.PrimFunc) -> ir.PrimFunc:
    return func.without_attr("global_symbol")


def _is_same(a: ir.PrimFunc, b: ir.PrimFunc) -> bool:
    return ir.structural_equal(_nameless(a), _nameless(b))


def _compiled(module: ir.IRModule, target: Target) -> Module:
    return build(separate_packing(module), target)

"""Kernels of a model: one for each different group, from a record or by calculation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tilewright import ir
from tilewright.driver import build
from tilewright.graph.external import is_external
from tilewright.graph.fusion import FusedGroup, fuse
from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.lowering import kind_of_node, lower_group
from tilewright.graph.views import is_view
from tilewright.lowering.prepacking import separate_packing
from tilewright.model.schedules import (
    CALCULATED,
    KernelOrigin,
    Scheduler as Scheduler,
    from_database as from_database,
    schedule_of,
    without_search as without_search,
)
from tilewright.runtime.binding import packer_names, packers_of
from tilewright.runtime.module import CompiledFunction, Module
from tilewright.space.layout_free import with_bound_weights
from tilewright.target import Target

ThingT = TypeVar("ThingT")


@dataclass(frozen=True, eq=False)
class ModelKernel:
    """Compiled code for groups that compute the same; `packers` rearrange constants once."""

    func: ir.PrimFunc
    module: Module
    origin: KernelOrigin = CALCULATED

    @property
    def function(self) -> CompiledFunction:
        """What runs."""
        return self.module[self.module.entry_name]

    @property
    def packers(self) -> dict[int, CompiledFunction]:
        """By position of the argument that they pack."""
        return packers_of(self.module)

    def packs(self, position: int) -> bool:
        """True if it wants an argument in a layout of its own."""
        return position in packer_names(self.module)


@dataclass(frozen=True, eq=False)
class KernelCall:
    """A kernel on values of the graph, inputs before outputs."""

    kernel: ModelKernel
    group: FusedGroup
    values: tuple[GraphValue, ...]


def groups_of(graph: Graph) -> list[FusedGroup]:
    """What becomes a kernel; views and what others compute do not."""
    return [group for group in fuse(graph, kind_of_node) if _has_kernel(group.nodes)]


def _has_kernel(nodes: Sequence[GraphNode]) -> bool:
    return not all(map(is_view, nodes)) and not any(map(is_external, nodes))


def program_of(group: FusedGroup, graph: Graph) -> ir.PrimFunc:
    """The program of a group, whose constants are packed before the model runs."""
    func = lower_group(group, graph.constants)
    return with_bound_weights(ir.IRModule({"main": func}))["main"]


class SamePrograms(Generic[ThingT]):
    """What was made for programs, found again by programs that compute the same."""

    def __init__(self) -> None:
        self._known: dict[int, list[tuple[ir.PrimFunc, ThingT]]] = {}

    def find(self, func: ir.PrimFunc) -> ThingT | None:
        """What was added for the same program."""
        plain = nameless(func)
        same = self._known.get(ir.structural_hash(plain), [])
        return next((made for known, made in same if ir.structural_equal(known, plain)), None)

    def add(self, func: ir.PrimFunc, made: ThingT) -> None:
        """Remember something for a program."""
        plain = nameless(func)
        self._known.setdefault(ir.structural_hash(plain), []).append((plain, made))


def compile_calls(
    graph: Graph,
    target: Target,
    schedule: Scheduler = without_search,
    code: CompiledPrograms | None = None,
) -> list[KernelCall]:
    """All kernels of a graph, those that compute the same compiled once.

    `code` has what was compiled before, for this graph or for others.
    """
    code = CompiledPrograms() if code is None else code
    known: SamePrograms[ModelKernel] = SamePrograms()
    calls = []
    for group in groups_of(graph):
        func = program_of(group, graph)
        kernel = known.find(func)
        if kernel is None:
            found = schedule_of(schedule(func, target))
            made = found.code or code.of(found.mod, target)
            kernel = ModelKernel(func, made, found.origin)
            known.add(func, kernel)
        calls.append(KernelCall(kernel, group, (*group.inputs, *group.outputs)))
    return calls


def nameless(func: ir.PrimFunc) -> ir.PrimFunc:
    """A program without the name that it happens to have, to compare it with others."""
    return func.without_attr("global_symbol")


class CompiledPrograms:
    """Machine code of scheduled programs, each compiled once."""

    def __init__(self) -> None:
        self._known: SamePrograms[Module] = SamePrograms()

    def of(self, module: ir.IRModule, target: Target) -> Module:
        """The code of a program, made now if it is not known."""
        if len(module.functions) != 1:
            return compiled(module, target)
        (func,) = module.functions.values()
        assert isinstance(func, ir.PrimFunc)
        found = self._known.find(func)
        if found is None:
            found = compiled(module, target)
            self._known.add(func, found)
        return found


def compiled(module: ir.IRModule, target: Target) -> Module:
    """Machine code of a scheduled program, constants packed by functions of their own."""
    return build(separate_packing(module), target)

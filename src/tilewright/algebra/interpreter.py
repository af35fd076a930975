"""Runs a trace with open decisions once, on a tree of loops whose extents are expressions.

Steps before the first decision are carried out on the program itself, and so are later ones that
change blocks or buffers and not loops (a cache, a scope): they do not depend on how loops were
tiled. What is left is interpreted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tilewright import ir
from tilewright.algebra.decisions import Categorical, Decision, Tile
from tilewright.algebra.expr import Graph, Value
from tilewright.algebra.lift import lift
from tilewright.algebra.loop_tree import LoopTree, NotCovered
from tilewright.algebra.steps import transfer_of
from tilewright.errors import ScheduleError
from tilewright.schedule import Schedule, Trace
from tilewright.schedule.primitives.sample_categorical import SampleCategorical
from tilewright.schedule.primitives.sample_perfect_tile import SamplePerfectTile
from tilewright.schedule.state import BlockRV, ExprRV, LoopRV
from tilewright.schedule.trace.instruction import Instruction
from tilewright.schedule.trace.trace import learned

# Steps that change blocks and buffers, or ask for blocks, and leave loops as they are.
_ON_BLOCKS = frozenset({
    "CacheRead", "CacheWrite", "ComputeInline", "GetBlock", "GetChildBlocks", "GetConsumers",
    "GetOutputBlocks", "GetProducers", "ReverseComputeInline", "SetScope", "TransformLayout",
})  # fmt: skip


@dataclasses.dataclass(eq=False)
class Interpretation:
    """A tree of loops, and the decisions that its extents depend on."""

    tree: LoopTree
    graph: Graph
    decisions: list[Decision]


def interpret(mod: ir.IRModule, trace: Trace) -> Interpretation:
    """The tree that the steps of a trace make of a program; raises NotCovered with a reason."""
    start = _Start(mod)
    fixed = trace.fixed_steps()
    for inst in fixed:
        start.run(inst)
    steps = []
    for inst in trace.insts[len(fixed) :]:
        if inst.step.is_postproc:
            break
        if inst.step.kind in _ON_BLOCKS:
            start.run(inst)
        else:
            steps.append(inst)
    run = _Run(start)
    for inst in steps:
        run.step(inst)
    return Interpretation(run.tree, run.graph, run.decisions)


class _Start:
    """A schedule on which steps are carried out, and its handles by those of the trace."""

    def __init__(self, mod: ir.IRModule) -> None:
        self.sch = Schedule(mod, error_render_level="fast")
        self.known: dict[object, Any] = {}

    def run(self, inst: Instruction) -> None:
        try:
            made = self.sch.run(inst.step.with_handles(self.known), None)
        except (ScheduleError, KeyError) as error:
            raise NotCovered(f"{inst.step.kind} depends on loops: {error}") from error
        self.known.update(learned(inst, made))


class _Run:
    def __init__(self, start: _Start) -> None:
        functions = list(start.sch.mod.functions.values())
        if len(functions) != 1 or not isinstance(functions[0], ir.PrimFunc):
            raise NotCovered("the module has several functions")
        self.graph = Graph()
        self.decisions: list[Decision] = []
        self.tree, nodes = lift(functions[0])
        self._known: dict[object, Any] = {}
        for rv, own in start.known.items():
            if isinstance(own, (BlockRV, LoopRV)):
                stmt = start.sch.symbols[own].stmt  # type: ignore[union-attr]
                root = functions[0].body.block  # type: ignore[attr-defined]
                self._known[rv] = self.tree if stmt is root else nodes.get(stmt)  # type: ignore[arg-type]

    def step(self, inst: Instruction) -> None:
        step = inst.step
        given = {
            each.name: self._value(getattr(step, each.name))
            for each in dataclasses.fields(step)  # type: ignore[arg-type]
        }
        if isinstance(step, SampleCategorical):
            made: list[Any] = [self._draw(inst, [_number(each) for each in step.candidates])]
        elif isinstance(step, SamplePerfectTile):
            made = self._tile(inst, given["loop"].extent)
        else:
            function = transfer_of(type(step))
            if function is None:
                raise NotCovered(f"{step.kind} says nothing about what it does to loops")
            made = function(self.tree, step, given)
        self._known.update(zip(inst.outputs, made, strict=False))

    def _value(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._value(each) for each in value]
        if isinstance(value, (BlockRV, LoopRV, ExprRV)) or value in self._known:
            if value not in self._known or self._known[value] is None:
                raise NotCovered("a step uses a handle of something that is gone")
            return self._known[value]
        return value.value if isinstance(value, ir.IntImm) else value

    def _draw(self, inst: Instruction, values: list[int]) -> Value:
        name = f"d{len(self.decisions)}"
        self.decisions.append(Categorical(inst, name, tuple(values)))
        return self.graph.variable(name, min(values), max(values))

    def _tile(self, inst: Instruction, extent: Value) -> list[Value]:
        if not isinstance(extent, int):
            raise NotCovered("a loop is tiled whose extent depends on other decisions")
        step = inst.step
        assert isinstance(step, SamplePerfectTile)
        tile = Tile(inst, f"d{len(self.decisions)}", extent, step.n, step.max_innermost_factor)
        self.decisions.append(tile)
        factors = [
            self.graph.variable(name, 1, extent if last is None else last)
            for name, last in zip(tile.names, tile.most, strict=True)
        ]
        self.graph.know_product(factors, extent)
        return factors


def _number(value: object) -> int:
    number = value.value if isinstance(value, ir.IntImm) else value
    if not isinstance(number, int):
        raise NotCovered(f"a decision is taken between values like {value!r}")
    return number


__all__ = ["Interpretation", "Mapping", "interpret"]

"""Runs a trace with open decisions once, on a tree of loops whose extents are expressions.

Steps before the first decision are carried out on the program itself, and so are later ones that
change blocks or buffers and not loops (a cache, a scope): they do not depend on how loops were
tiled. What is left is interpreted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tilewright import ir
from tilewright.algebra.choices import Choices
from tilewright.algebra.decisions import (
    CategoricalDecision,
    Decision,
    LocationDecision,
    TileDecision,
)
from tilewright.algebra.expr import ExprGraph, Value
from tilewright.algebra.gpu_kernels import LegalityCheck
from tilewright.algebra.lift import lift
from tilewright.algebra.locations import candidate_loops, effective_location
from tilewright.algebra.loop_tree import LoopNode, LoopTree, NotInterpreted
from tilewright.algebra.postprocs import PostprocContext, rewrite_of
from tilewright.algebra.steps import transfer_of
from tilewright.errors import ScheduleError
from tilewright.schedule import Schedule, Trace
from tilewright.schedule.primitives.compute_at import ComputeAt
from tilewright.schedule.primitives.compute_inline import can_compute_inline
from tilewright.schedule.primitives.sample_categorical import SampleCategorical
from tilewright.schedule.primitives.sample_compute_location import INLINE, SampleComputeLocation
from tilewright.schedule.primitives.sample_perfect_tile import SamplePerfectTile
from tilewright.schedule.state import BlockRV, ExprRV, LoopRV
from tilewright.schedule.trace.instruction import Instruction, Primitive
from tilewright.schedule.trace.trace import learned
from tilewright.space.base import Postproc

# Steps that change blocks and buffers, or ask for blocks, and leave loops as they are.
_ON_BLOCKS = frozenset({
    "CacheRead", "CacheWrite", "ComputeInline", "GetBlock", "GetChildBlocks", "GetConsumers",
    "GetOutputBlocks", "GetProducers", "ReverseComputeInline", "SetScope", "TransformLayout",
})  # fmt: skip
_MOST_LOOPS = 1 << 10  # around a block; how many there are differs from case to case


@dataclasses.dataclass(eq=False)
class Interpretation:
    """A tree of loops, and the decisions that its extents depend on."""

    tree: LoopTree
    graph: ExprGraph
    decisions: list[Decision]
    checks: list[LegalityCheck]  # what post-processors verify


def interpret(
    mod: ir.IRModule,
    trace: Trace,
    postprocs: Sequence[Postproc],
    choices: Choices,
    graph: ExprGraph,
) -> Interpretation:
    """The tree that a trace and post-processors make of a program.

    Raises `NotInterpreted` with a reason, and `Undecided` where the tree depends on decisions in a
    way that `choices` does not settle.
    """
    start = _Start(mod, choices)
    fixed = trace.fixed_steps()
    for inst in fixed:
        start.run(inst)
    steps = []
    for inst in trace.insts[len(fixed) :]:
        if inst.step.is_postproc:
            break
        if inst.step.kind in _ON_BLOCKS:
            start.run(inst)
        elif not start.inlines(inst):
            steps.append(inst)
    run = _Run(start, graph)
    for inst in steps:
        run.step(inst)
    checks: list[LegalityCheck] = []
    for postproc in postprocs:
        rewrite = rewrite_of(type(postproc).__name__)
        if rewrite is None:
            raise NotInterpreted(
                f"{type(postproc).__name__} says nothing about what it does to loops"
            )
        rewrite(run.tree, PostprocContext(start.func, choices, postproc, checks))
    return Interpretation(run.tree, run.graph, run.decisions, checks)


class _Start:
    """A schedule on which steps are carried out, and its handles by those of the trace."""

    def __init__(self, mod: ir.IRModule, choices: Choices) -> None:
        self.sch = Schedule(mod, error_render_level="fast")
        self.known: dict[object, Any] = {}
        self.choices = choices

    @property
    def func(self) -> ir.PrimFunc:
        functions = list(self.sch.mod.functions.values())
        if len(functions) != 1 or not isinstance(functions[0], ir.PrimFunc):
            raise NotInterpreted("the module has several functions")
        return functions[0]

    def inlines(self, inst: Instruction) -> bool:
        """True for a block that is computed where it is used: this is done at once."""
        step = inst.step
        if not isinstance(step, ComputeAt) or self.choices.get(step.loop) != INLINE:
            return False
        self.sch.compute_inline(self.known[step.block])
        return True

    def run(self, inst: Instruction) -> None:
        try:
            made = self.sch.run(inst.step.with_handles(self.known), None)
            self.known.update(learned(inst, made))
        except (ScheduleError, KeyError) as error:
            raise NotInterpreted(f"{inst.step.kind} depends on steps before it: {error}") from error


class _Run:
    def __init__(self, start: _Start, graph: ExprGraph) -> None:
        self.graph = graph
        self._start = start
        self.decisions: list[Decision] = []
        self.tree, nodes = lift(start.func)
        self._known: dict[object, Any] = {}
        for rv, own in start.known.items():
            if isinstance(own, (BlockRV, LoopRV)):
                stmt: Any = start.sch.symbols[own].stmt  # type: ignore[union-attr]
                root = start.func.body.block  # type: ignore[attr-defined]
                self._known[rv] = self.tree if stmt is root else nodes.get(stmt)

    def step(self, inst: Instruction) -> None:
        step = inst.step
        if isinstance(step, SampleCategorical):
            made: list[Any] = [self._draw(inst, [int(each) for each in step.candidates])]
        elif isinstance(step, SamplePerfectTile):
            made = self._tile(inst, self._value(step.loop).extent)
        elif isinstance(step, SampleComputeLocation):
            made = [self._locate(inst, step)]
        else:
            made = self._interpreted(step)
        self._known.update(zip(inst.outputs, made, strict=False))

    def _interpreted(self, step: Primitive[object]) -> list[Any]:
        function = transfer_of(type(step))
        if function is None:
            raise NotInterpreted(f"{step.kind} says nothing about what it does to loops")
        given = {
            each.name: self._value(getattr(step, each.name))
            for each in dataclasses.fields(step)  # type: ignore[arg-type]
        }
        return function(self.tree, step, given)

    def _value(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._value(each) for each in value]
        if isinstance(value, (BlockRV, LoopRV, ExprRV)) or value in self._known:
            if value not in self._known or self._known[value] is None:
                raise NotInterpreted("a step uses a handle of something that is gone")
            return self._known[value]
        return value.value if isinstance(value, ir.IntImm) else value

    def _draw(self, inst: Instruction, values: list[int]) -> Value:
        name = f"d{len(self.decisions)}"
        self.decisions.append(CategoricalDecision(inst, name, tuple(values)))
        return self.graph.variable(name, min(values), max(values))

    def _locate(self, inst: Instruction, step: SampleComputeLocation) -> LoopNode | str:
        name = f"d{len(self.decisions)}"
        stage = self._known.get(step.block)
        loops = [] if stage is None else candidate_loops(self.tree, stage)
        self.decisions.append(LocationDecision(inst, name, self.graph.most_seen(name, len(loops))))
        if stage is None:
            return "inlined"
        decided = self.graph.variable(name, INLINE, _MOST_LOOPS)
        where_to = effective_location(self.tree, stage, loops, decided, self._can_inline(step))
        at = self._start.choices.decide(inst.outputs[0], where_to)
        return "root" if at < 0 else loops[at]

    def _can_inline(self, step: SampleComputeLocation) -> bool:
        sch = self._start.sch
        return can_compute_inline(sch.state, sch.get_sref(self._start.known[step.block]))

    def _tile(self, inst: Instruction, extent: Value) -> list[Value]:
        if not isinstance(extent, int):
            raise NotInterpreted("a loop is tiled whose extent depends on other decisions")
        step = inst.step
        assert isinstance(step, SamplePerfectTile)
        tile = TileDecision(
            inst, f"d{len(self.decisions)}", extent, step.n, step.max_innermost_factor
        )
        self.decisions.append(tile)
        factors = [
            self.graph.variable(name, 1, last)
            for name, last in zip(tile.names, tile.most, strict=True)
        ]
        self.graph.know_product(factors, extent)
        return factors

"""Runs a trace with open decisions once, on a tree of loops whose extents are expressions.

Steps before the first decision are carried out on the program itself, and so are later ones that
change blocks or buffers and not loops (a cache, a scope): they do not depend on how loops were
tiled. What is left is interpreted.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

from tilewright import ir
from tilewright.algebra.block_history import BlockHistory
from tilewright.algebra.choices import Choices
from tilewright.algebra.decisions import (
    CategoricalDecision,
    Decision,
    LocationDecision,
    TileDecision,
)
from tilewright.algebra.expr import ExprGraph, Value
from tilewright.algebra.gpu_kernels import LegalityCheck
from tilewright.algebra.layout_products import SampledFactors, know_products
from tilewright.algebra.lift import lift
from tilewright.algebra.locations import candidate_loops, effective_location
from tilewright.algebra.loop_tree import LoopNode, LoopTree, NotInterpreted
from tilewright.algebra.postprocs import PostprocContext, rewrite_of
from tilewright.algebra.steps import transfer_of
from tilewright.errors import ScheduleError
from tilewright.ir.annotation_keys import WARP_EXECUTION
from tilewright.nest.loops import known_extent
from tilewright.schedule import Schedule, Trace
from tilewright.schedule.primitives.compute_at import ComputeAt
from tilewright.schedule.primitives.compute_inline import can_compute_inline
from tilewright.schedule.primitives.rfactor import RFactor
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
    "GetOutputBlocks", "GetProducers", "ReverseComputeInline", "SetScope", "StorageAlign",
    "TransformBlockLayout", "TransformLayout",
})  # fmt: skip
# Of these, steps after which nobody sees a block as it was before.
_REPLACING = frozenset({"ComputeInline", "ReverseComputeInline", "TransformBlockLayout"})
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
    start = _Start(mod, choices, _Decisions(graph, choices))
    main = list(itertools.takewhile(lambda inst: not inst.step.is_postproc, trace.insts))
    first = max(len(trace.fixed_steps()), _after_shapes(main))
    for inst in main[:first]:
        start.run(inst)
    history = BlockHistory(start.sch.state)
    steps: list[tuple[int, Instruction]] = []
    for number, inst in enumerate(main[first:]):
        if inst.step.kind in _ON_BLOCKS and start.knows(inst):
            start.run(inst)
            history.note(number, restarts=inst.step.kind in _REPLACING)
        elif start.inlines(inst):
            history.note(number, restarts=True)
        else:
            steps.append((number, inst))
            start.note_factors(inst)
    run = _Run(start, history)
    for number, inst in steps:
        run.step(number, inst)
    run.finish()
    checks: list[LegalityCheck] = []
    for postproc in postprocs:
        rewrite = rewrite_of(type(postproc).__name__)
        if rewrite is None:
            raise NotInterpreted(
                f"{type(postproc).__name__} says nothing about what it does to loops"
            )
        rewrite(run.tree, PostprocContext(start.func, choices, postproc, checks))
    return Interpretation(run.tree, graph, start.decisions.all, checks)


def _after_shapes(steps: Sequence[Instruction]) -> int:
    """The number of steps up to the last one that makes a buffer whose shape is decided."""
    return max((n + 1 for n, inst in enumerate(steps) if isinstance(inst.step, RFactor)), default=0)


class _Decisions:
    """The decisions so far, and their variables."""

    def __init__(self, graph: ExprGraph, choices: Choices) -> None:
        self.graph = graph
        self.all: list[Decision] = []
        self._choices = choices

    @property
    def next_name(self) -> str:
        return f"d{len(self.all)}"

    def categorical(self, inst: Instruction, step: SampleCategorical) -> Value:
        values = [int(each) for each in step.candidates]
        name = self.next_name
        self.all.append(CategoricalDecision(inst, name, tuple(values)))
        return self.graph.variable(name, min(values), max(values))

    def tile(self, inst: Instruction, step: SamplePerfectTile, extent: Value) -> list[Value]:
        if not isinstance(extent, int):
            raise NotInterpreted("a loop is tiled whose extent depends on other decisions")
        tile = TileDecision(inst, self.next_name, extent, step.n, step.max_innermost_factor)
        self.all.append(tile)
        factors = [
            self.graph.variable(name, 1, last)
            for name, last in zip(tile.names, tile.most, strict=True)
        ]
        self.graph.know_product(factors, extent)
        know_products(
            self.graph, dict(zip(tile.names, factors, strict=True)), extent, self._choices
        )
        return factors

    def location(self, inst: Instruction, loops: int) -> Value:
        name = self.next_name
        self.all.append(LocationDecision(inst, name, self.graph.most_seen(name, loops)))
        return self.graph.variable(name, INLINE, _MOST_LOOPS)


class _Start:
    """A schedule on which steps are carried out, and its handles by those of the trace."""

    def __init__(self, mod: ir.IRModule, choices: Choices, decisions: _Decisions) -> None:
        self.sch = Schedule(mod, error_render_level="fast")
        self.known: dict[object, Any] = {}
        self.choices = choices
        self.decisions = decisions
        self.products = SampledFactors()

    @property
    def func(self) -> ir.PrimFunc:
        functions = list(self.sch.mod.functions.values())
        if len(functions) != 1 or not isinstance(functions[0], ir.PrimFunc):
            raise NotInterpreted("the module has several functions")
        return functions[0]

    def knows(self, inst: Instruction) -> bool:
        """True where no handle of a step comes from steps that are interpreted."""
        used = itertools.chain(
            *[each if isinstance(each, list) else [each] for each in inst.step.inputs]
        )
        return all(rv in self.known for rv in used if isinstance(rv, (BlockRV, LoopRV)))

    def note_factors(self, inst: Instruction) -> None:
        """Remember the factors of a loop, which layouts may be made of."""
        step = inst.step
        extent = 0
        if isinstance(step, SamplePerfectTile) and step.loop in self.known:
            extent = known_extent(self.sch.get_sref(self.known[step.loop]).loop) or 0
        if isinstance(step, (SampleCategorical, SamplePerfectTile, SampleComputeLocation)):
            self.products.note(inst.outputs, extent)

    def inlines(self, inst: Instruction) -> bool:
        """True for a block that is computed where it is used: this is done at once."""
        step = inst.step
        if not isinstance(step, ComputeAt) or self.choices.get(step.loop) != INLINE:
            return False
        self.sch.compute_inline(self.known[step.block])
        return True

    def run(self, inst: Instruction) -> None:
        try:
            known = {**self.known, **self.products.settled(inst.step, self.choices)}
            step = inst.step.with_handles(known)
            made = self.sch.run(step, self._decided(inst, step))
            self.known.update(learned(inst, made))
        except (ScheduleError, KeyError) as error:
            raise NotInterpreted(f"{inst.step.kind} depends on steps before it: {error}") from error

    def _decided(self, inst: Instruction, step: Primitive[object]) -> Any:
        """A decision that shapes of buffers depend on: each is a case of its own."""
        if isinstance(step, SampleCategorical):
            value = self.choices.decide(inst.outputs[0], self.decisions.categorical(inst, step))
            return list(map(int, step.candidates)).index(value)
        if isinstance(step, SamplePerfectTile):
            extent = known_extent(self.sch.get_sref(step.loop).loop) or 0
            *factors, _ = self.decisions.tile(inst, step, extent)
            chosen = [
                self.choices.decide(rv, value)
                for rv, value in zip(inst.outputs, factors, strict=False)
            ]
            return [*chosen, extent // math.prod(chosen)]
        if isinstance(step, SampleComputeLocation):
            raise NotInterpreted("a block is moved before the shapes of all buffers are known")
        return None


class _Run:
    def __init__(self, start: _Start, history: BlockHistory) -> None:
        self._start = start
        self.tree, nodes = lift(start.func)
        self._known: dict[object, Any] = {}
        for rv, own in start.known.items():
            if isinstance(own, (BlockRV, LoopRV)):
                stmt: Any = start.sch.symbols[own].stmt  # type: ignore[union-attr]
                root = start.func.body.block  # type: ignore[attr-defined]
                self._known[rv] = self.tree if stmt is root else nodes.get(stmt)
            else:
                self._known[rv] = start.sch.int_of(own)

        if any(WARP_EXECUTION in stage.annotations for stage in self.tree.stages()):
            self.tree.thread_axes["threadIdx.x"] = None
        self._versions = history.versions_of(nodes)

    def finish(self) -> None:
        """Blocks are what all steps made of them."""
        self._versions.show(None)

    def step(self, number: int, inst: Instruction) -> None:
        """Carry out a step, on blocks as they were at that time."""
        self._versions.show(number)
        step = inst.step
        if isinstance(step, SampleCategorical):
            made: list[Any] = [self._start.decisions.categorical(inst, step)]
        elif isinstance(step, SamplePerfectTile):
            made = list(self._start.decisions.tile(inst, step, self._value(step.loop).extent))
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

    def _locate(self, inst: Instruction, step: SampleComputeLocation) -> LoopNode | str:
        stage = self._known.get(step.block)
        loops = [] if stage is None else candidate_loops(self.tree, stage)
        decided = self._start.decisions.location(inst, len(loops))
        if stage is None:
            return "inlined"
        where_to = effective_location(self.tree, stage, loops, decided, self._can_inline(step))
        at = self._start.choices.decide(inst.outputs[0], where_to)
        return "root" if at < 0 else loops[at]

    def _can_inline(self, step: SampleComputeLocation) -> bool:
        sch = self._start.sch
        return can_compute_inline(sch.state, sch.get_sref(self._start.known[step.block]))

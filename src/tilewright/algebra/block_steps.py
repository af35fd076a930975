"""Steps of a trace that change blocks and buffers: carried out on the program itself.

All steps before the first decision are, and so are later ones that leave loops as they are (a
cache, a scope): they do not depend on how loops were tiled. What they make is the same for all
cases that agree on what these steps asked for, so it is made once for them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright import ir
from tilewright.algebra.block_history import BlockHistory
from tilewright.algebra.choices import Choices, RecordedChoices
from tilewright.algebra.decisions import (
    CategoricalDecision,
    Decision,
    LocationDecision,
    TileDecision,
)
from tilewright.algebra.expr import ExprGraph, Value
from tilewright.algebra.layout_products import SampledFactors, know_products
from tilewright.algebra.loop_tree import NotInterpreted
from tilewright.errors import ScheduleError
from tilewright.nest.loops import known_extent
from tilewright.schedule import Schedule, Trace
from tilewright.schedule.primitives.compute_at import ComputeAt
from tilewright.schedule.primitives.compute_inline import can_compute_inline
from tilewright.schedule.primitives.rfactor import RFactor
from tilewright.schedule.primitives.sample_categorical import SampleCategorical
from tilewright.schedule.primitives.sample_compute_location import INLINE, SampleComputeLocation
from tilewright.schedule.primitives.sample_perfect_tile import SamplePerfectTile
from tilewright.schedule.state import BlockRV, LoopRV
from tilewright.schedule.trace.instruction import Instruction, Primitive
from tilewright.schedule.trace.trace import learned

# Steps that change blocks and buffers, or ask for blocks, and leave loops as they are.
_ON_BLOCKS = frozenset({
    "CacheRead", "CacheWrite", "ComputeInline", "GetBlock", "GetChildBlocks", "GetConsumers",
    "GetOutputBlocks", "GetProducers", "ReverseComputeInline", "SetScope", "StorageAlign",
    "TransformBlockLayout", "TransformLayout",
})  # fmt: skip
# Of these, steps after which nobody sees a block as it was before.
_REPLACING = frozenset({"ComputeInline", "ReverseComputeInline", "TransformBlockLayout"})
_MOST_LOOPS = 1 << 10  # around a block; how many there are differs from case to case


class OpenDecisions:
    """The decisions so far, and their variables."""

    def __init__(self, graph: ExprGraph, choices: Choices, known: Sequence[Decision] = ()) -> None:
        self.graph = graph
        self.all = list(known)
        self._choices = choices

    @property
    def next_name(self) -> str:
        return f"d{len(self.all)}"

    def categorical(self, inst: Instruction, step: SampleCategorical) -> Value:
        values = [int(each) for each in step.candidates]
        name = self.next_name
        self.all.append(CategoricalDecision(inst, name, tuple(values)))
        self.graph.know_values(name, values)
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
        return list(map(self.graph.known_number, factors))

    def location(self, inst: Instruction, loops: int) -> Value:
        name = self.next_name
        self.all.append(LocationDecision(inst, name, self.graph.most_seen(name, loops)))
        return self.graph.variable(name, INLINE, _MOST_LOOPS)


@dataclass(frozen=True, eq=False)
class PreparedProgram:
    """A program after all steps on blocks, and the steps on loops that are left."""

    sch: Schedule
    known: dict[object, Any]  # handles, by those of the trace
    history: BlockHistory
    steps: tuple[tuple[int, Instruction], ...]  # with their numbers
    decisions: tuple[Decision, ...]  # those that steps on blocks needed
    _inlinable: dict[object, bool] = field(default_factory=dict)

    @property
    def func(self) -> ir.PrimFunc:
        """The program."""
        functions = list(self.sch.mod.functions.values())
        if len(functions) != 1 or not isinstance(functions[0], ir.PrimFunc):
            raise NotInterpreted("the module has several functions")
        return functions[0]

    def can_inline(self, block: object) -> bool:
        """True for a block that could be computed where it is used."""
        if block not in self._inlinable:
            sref = self.sch.get_sref(self.known[block])
            self._inlinable[block] = can_compute_inline(self.sch.state, sref)
        return self._inlinable[block]


class PreparedPrograms:
    """What steps on blocks make of a trace, by what they ask for.

    `by_value`: all decisions are cases by their values, and all steps are carried out.
    """

    def __init__(self, mod: ir.IRModule, trace: Trace, *, by_value: bool) -> None:
        self._mod = mod
        self._steps = list(itertools.takewhile(lambda i: not i.step.is_postproc, trace.insts))
        self._first = max(len(trace.fixed_steps()), _after_shapes(self._steps))
        if by_value:
            self._first = len(self._steps)
        self._made: list[tuple[ExprGraph, RecordedChoices, PreparedProgram]] = []

    def at(self, choices: Choices, graph: ExprGraph) -> PreparedProgram:
        """The program for some choices.

        Raises `NotInterpreted`, and `Undecided` where the choices leave open what is asked for.
        """
        for known, asked, made in self._made:
            if known is graph and asked.agree_with(choices):
                return made
        recorded = RecordedChoices(choices.chosen)
        found = self._prepared(recorded, graph)
        self._made.append((graph, recorded, found))
        return found

    def _prepared(self, choices: Choices, graph: ExprGraph) -> PreparedProgram:
        start = _Start(self._mod, choices, OpenDecisions(graph, choices))
        for inst in self._steps[: self._first]:
            start.run(inst)
        history = BlockHistory(start.sch.state)
        left: list[tuple[int, Instruction]] = []
        for number, inst in enumerate(self._steps[self._first :]):
            if inst.step.kind in _ON_BLOCKS and start.knows(inst):
                start.run(inst)
                history.note(number, restarts=inst.step.kind in _REPLACING)
            elif start.inlines(inst):
                history.note(number, restarts=True)
            else:
                left.append((number, inst))
                start.note_factors(inst)
        decided = tuple(start.decisions.all)
        return PreparedProgram(start.sch, start.known, history, tuple(left), decided)


def _after_shapes(steps: Sequence[Instruction]) -> int:
    """The number of steps up to the last one that makes a buffer whose shape is decided."""
    return max((n + 1 for n, inst in enumerate(steps) if isinstance(inst.step, RFactor)), default=0)


class _Start:
    """A schedule on which steps are carried out, and its handles by those of the trace."""

    def __init__(self, mod: ir.IRModule, choices: Choices, decisions: OpenDecisions) -> None:
        self.sch = Schedule(mod, error_render_level="fast")
        self.known: dict[object, Any] = {}
        self.choices = choices
        self.decisions = decisions
        self.products = SampledFactors()

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
        if not isinstance(step, ComputeAt) or not self.choices.has(step.loop, INLINE):
            return False
        self.sch.compute_inline(self.known[step.block])
        return True

    def run(self, inst: Instruction) -> None:
        try:
            known = {**self.known, **self.products.layout_factors(inst.step, self.choices)}
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

"""Runs a trace with open decisions once, on a tree of loops whose extents are expressions.

Steps on blocks and buffers are carried out on the program itself (`block_steps`). What is left is
interpreted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tilewright import ir
from tilewright.algebra.block_steps import OpenDecisions, PreparedProgram, PreparedPrograms
from tilewright.algebra.choices import Choices
from tilewright.algebra.decisions import Decision
from tilewright.algebra.expr import ExprGraph, Value
from tilewright.algebra.gpu_kernels import LegalityCheck
from tilewright.algebra.lift import lift
from tilewright.algebra.locations import candidate_loops, effective_location
from tilewright.algebra.loop_tree import LoopNode, NotInterpreted, StageNode, loops_of
from tilewright.algebra.nest_view import KnownNests, NestView, nests_of
from tilewright.algebra.postprocs import PostprocContext, reads_programs, rewrite_of
from tilewright.algebra.steps import transfer_of
from tilewright.ir.annotation_keys import WARP_EXECUTION
from tilewright.schedule import Trace
from tilewright.schedule.primitives.sample_categorical import SampleCategorical
from tilewright.schedule.primitives.sample_compute_location import SampleComputeLocation
from tilewright.schedule.primitives.sample_perfect_tile import SamplePerfectTile
from tilewright.schedule.state import BlockRV, ExprRV, LoopRV
from tilewright.schedule.trace.instruction import Instruction, Primitive
from tilewright.space.base import Postproc


@dataclasses.dataclass(frozen=True)
class BlockLoops:
    """The extents of the loops around a block, outermost first."""

    name: str
    extents: tuple[Value, ...]


@dataclasses.dataclass(frozen=True)
class Interpretation:
    """Programs of one structure as expressions over decisions: nothing of it ever changes."""

    decisions: tuple[Decision, ...]
    checks: tuple[LegalityCheck, ...]  # what post-processors verify
    blocks: tuple[BlockLoops, ...]
    nests: tuple[NestView, ...]


class TraceInterpreter:
    """Interprets a trace case by case; what cases share is worked out once."""

    def __init__(self, mod: ir.IRModule, trace: Trace, postprocs: Sequence[Postproc]) -> None:
        self._postprocs = tuple(postprocs)
        by_value = any(map(reads_programs, self._postprocs))
        self._programs = PreparedPrograms(mod, trace, by_value=by_value)
        self._nests: KnownNests = {}

    def interpret(self, choices: Choices, graph: ExprGraph) -> Interpretation:
        """What a trace and post-processors make of a program.

        Raises `NotInterpreted` with a reason, and `Undecided` where the tree depends on decisions
        in a way that `choices` does not settle.
        """
        program = self._programs.at(choices, graph)
        run = _Run(program, choices, graph)
        for number, inst in program.steps:
            run.step(number, inst)
        run.finish()
        checks: list[LegalityCheck] = []
        for postproc in self._postprocs:
            rewrite = rewrite_of(type(postproc).__name__)
            if rewrite is None:
                raise NotInterpreted(
                    f"{type(postproc).__name__} says nothing about what it does to loops"
                )
            rewrite(run.tree, PostprocContext(program.sch, program.func, choices, postproc, checks))
        return Interpretation(
            tuple(run.decisions.all),
            tuple(checks),
            tuple(map(_block_loops, run.tree.stages())),
            tuple(nests_of(run.tree, self._nests)),
        )


def _block_loops(stage: StageNode) -> BlockLoops:
    return BlockLoops(stage.name, tuple(loop.extent for loop in loops_of(stage)))


class _Run:
    def __init__(self, program: PreparedProgram, choices: Choices, graph: ExprGraph) -> None:
        self._program, self._choices = program, choices
        self.decisions = OpenDecisions(graph, choices, program.decisions)
        self.tree, nodes = lift(program.func)
        self._known: dict[object, Any] = {}
        root = program.func.body.block  # type: ignore[attr-defined]
        for rv, own in program.known.items():
            if isinstance(own, (BlockRV, LoopRV)):
                stmt: Any = program.sch.symbols[own].stmt  # type: ignore[union-attr]
                self._known[rv] = self.tree if stmt is root else nodes.get(stmt)
            else:
                self._known[rv] = program.sch.int_of(own)

        if any(WARP_EXECUTION in stage.annotations for stage in self.tree.stages()):
            self.tree.thread_axes["threadIdx.x"] = None
        self._versions = program.history.versions_of(nodes)

    def finish(self) -> None:
        """Blocks are what all steps made of them."""
        self._versions.show(None)

    def step(self, number: int, inst: Instruction) -> None:
        """Carry out a step, on blocks as they were at that time."""
        self._versions.show(number)
        step = inst.step
        if isinstance(step, SampleCategorical):
            made: list[Any] = [self.decisions.categorical(inst, step)]
        elif isinstance(step, SamplePerfectTile):
            made = list(self.decisions.tile(inst, step, self._value(step.loop).extent))
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
        decided = self.decisions.location(inst, len(loops))
        if stage is None:
            return "inlined"
        can_inline = self._program.can_inline(step.block)
        where_to = effective_location(self.tree, stage, loops, decided, can_inline)
        at = self._choices.decide(inst.outputs[0], where_to)
        return "root" if at < 0 else loops[at]

"""The open decisions of a sketch as a constraint problem, and back.

Where the algebra covers a sketch, the problem is its: limits of the target are constraints, too.
Elsewhere it is that of the decisions alone. Factors of a tile are variables whose product is the
extent, other decisions are the position of what is chosen, and what a candidate must satisfy
beyond that is left to the post-processors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.algebra.constraints import (
    Constraint,
    ConstraintProblem,
    IntegerVariable,
    Le,
    Prod,
)
from tilewright.algebra.decisions import CategoricalDecision, Decision, TileDecision
from tilewright.algebra.loop_tree import NotInterpreted
from tilewright.algebra.model import SpaceModel, StructureCase, Uncovered
from tilewright.algebra.population import random_population
from tilewright.algebra.problem import problem_of
from tilewright.errors import TuneError
from tilewright.ir import IntImm, IRModule
from tilewright.schedule import Instruction, Schedule, Trace
from tilewright.schedule.primitives.sample_categorical import SampleCategorical
from tilewright.schedule.primitives.sample_compute_location import (
    SampleComputeLocation,
    compute_locations,
)
from tilewright.schedule.primitives.sample_perfect_tile import (
    SamplePartitionedTile,
    SamplePerfectTile,
)
from tilewright.space.base import Postproc
from tilewright.space.mutators.mutate_tile_size import divisors

_SEVERAL = "its programs have more than one structure"
# Random candidates, to see whether all have one structure; mostly a few show that they have not.
_LOOKED_AT = (4, 512)


@dataclass(frozen=True, eq=False)
class SketchProblem:
    """The variables of each decision, and what numbers of theirs mean as a decision."""

    trace: Trace
    problem: ConstraintProblem
    decisions: Mapping[Instruction, tuple[tuple[str, ...], Callable[[list[int]], object]]]

    def trace_of(self, values: Mapping[str, int]) -> Trace:
        """The trace in which decisions are taken as the values say."""
        taken = {
            inst: decode([values[name] for name in names])
            for inst, (names, decode) in self.decisions.items()
        }
        return Trace(self.trace.insts, taken)

    @property
    def knobs(self) -> list[int]:
        """The columns of all variables of decisions."""
        chosen = {name for names, _ in self.decisions.values() for name in names}
        variables = enumerate(self.problem.variables)
        return [place for place, variable in variables if variable.name in chosen]


def sketch_problem(
    mod: IRModule, sketch: Schedule, postprocs: Sequence[Postproc] = ()
) -> SketchProblem:
    """The problem of a sketch, with the limits that post-processors verify where they are known."""
    if sketch.trace is None:
        raise TuneError("a sketch of the search space records no trace")
    trace = sketch.trace.simplified(remove_postproc=True)
    case = structure_of(mod, trace, postprocs)
    if isinstance(case, StructureCase):
        decoded = [(each.inst, _decoded(each)) for each in case.interpretation.decisions]
        decisions = {inst: found for inst, found in decoded if found is not None}
        if len(decisions) == len(decoded):
            return SketchProblem(Trace(trace.insts), problem_of(case).problem, decisions)
    return _decision_problem(mod, trace)


def structure_of(
    mod: IRModule, trace: Trace, postprocs: Sequence[Postproc]
) -> StructureCase | Uncovered:
    """The one structure of all programs of a sketch, or why there is not one that is known."""
    try:
        model = SpaceModel(mod, trace, postprocs)
    except NotInterpreted as why:
        return Uncovered(str(why))
    for count in _LOOKED_AT:
        population = random_population(model.decisions, count, np.random.default_rng(1))
        first, *others = (case for case, _ in model.cases(population))
        if others:
            return Uncovered(_SEVERAL)
    return first


def _decoded(
    decision: Decision,
) -> tuple[tuple[str, ...], Callable[[list[int]], object]] | None:
    """The variables of a decision of the algebra, and what their numbers mean."""
    if isinstance(decision, TileDecision):
        return decision.names, list
    if isinstance(decision, CategoricalDecision):
        values = decision.values
        return decision.names, lambda numbers: values.index(numbers[0])
    return None


def _decision_problem(mod: IRModule, trace: Trace) -> SketchProblem:
    """The problem of decisions alone; those that others depend on are as they are now."""
    reader = _Reader(Schedule(mod, seed=1))
    insts = iter(trace.insts)

    def read(
        inst: Instruction, inputs: Sequence[object], attrs: Sequence[object], decision: object
    ) -> object:
        reader.read(next(insts), inst.primitive.from_row(inputs, attrs))
        return decision

    trace.apply_to_schedule(reader.sch, remove_postproc=False, decision_provider=read)
    problem = ConstraintProblem(tuple(reader.variables), tuple(reader.constraints))
    return SketchProblem(Trace(trace.insts), problem, reader.decisions)


@dataclass
class _Reader:
    sch: Schedule
    variables: list[IntegerVariable] = field(default_factory=list)
    constraints: list[Constraint] = field(default_factory=list)
    decisions: dict[Instruction, Any] = field(default_factory=dict)

    def read(self, inst: Instruction, step: Any) -> None:
        """Take in one step of the trace, as the program is before it."""
        if inst.primitive not in _READERS:
            return
        names, decode = _READERS[inst.primitive](self, f"d{len(self.decisions)}", step)
        self.decisions[inst] = (tuple(names), decode)

    def add(self, name: str, domain: Sequence[int]) -> str:
        self.variables.append(IntegerVariable(name, tuple(domain), "tunable"))
        return name

    def tile(
        self, name: str, step: SamplePerfectTile | SamplePartitionedTile
    ) -> tuple[Iterator[str], Callable[[list[int]], object]]:
        """Factors of an extent; the last at most the limit."""
        extent = self.sch.get_sref(step.loop).loop.extent
        if not isinstance(extent, IntImm):
            raise TuneError(f"the extent {extent} of a tiled loop is no number")
        sizes = divisors(extent.value)
        names = [self.add(f"{name}.{part}", sizes) for part in range(step.n)]
        self.constraints.append(Prod(f"tile of {extent}", extent.value, tuple(names)))
        if isinstance(step, SamplePartitionedTile):
            self._partition(name, names, extent.value, step)
        elif (limit := step.max_innermost_factor) != -1:
            self.constraints.append(Le(f"max_innermost_factor={limit}", names[-1], limit))
        return iter(names), list

    def _partition(
        self, name: str, names: list[str], extent: int, step: SamplePartitionedTile
    ) -> None:
        origin = f"innerpart_factor={step.innerpart_factor}"
        inner, times = f"{name}.inner", f"{name}.times"
        for each in (inner, times):
            self.variables.append(IntegerVariable(each, tuple(divisors(extent)), "derived"))
        self.constraints.append(Prod(origin, inner, tuple(names[step.partition_pos :])))
        self.constraints.append(Prod(origin, inner, (times, step.innerpart_factor)))

    def category(self, name: str, step: Any) -> tuple[Iterator[str], Callable[[list[int]], object]]:
        """The position of a candidate."""
        return iter([self.add(name, range(len(step.candidates)))]), lambda numbers: numbers[0]

    def location(self, name: str, step: Any) -> tuple[Iterator[str], Callable[[list[int]], object]]:
        """The position of a place among those that there are now."""
        places = list(compute_locations(self.sch.state, self.sch.get_sref(step.block)))
        chosen = self.add(name, range(len(places)))
        return iter([chosen]), lambda numbers: places[numbers[0]]


_READERS: dict[type, Callable[[_Reader, str, Any], Any]] = {
    SamplePerfectTile: _Reader.tile,
    SamplePartitionedTile: _Reader.tile,
    SampleCategorical: _Reader.category,
    SampleComputeLocation: _Reader.location,
}

"""The work of `tilewright space why --constraints`: what the programs of a sketch must satisfy."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.algebra.constraints import Constraint, ConstraintProblem, Le
from tilewright.algebra.model import StructureCase, Uncovered
from tilewright.algebra.problem import problem_of
from tilewright.cli.console import make_console, print_json
from tilewright.cli.programs import load_program
from tilewright.cli.watched_rules import make_context
from tilewright.errors import TuneError
from tilewright.heron.demands import read_demand
from tilewright.search.constrained.decision_problem import structure_of
from tilewright.solver.array_solver import ArraySolver
from tilewright.solver.conflicts import Conflict, conflict_of
from tilewright.solver.forms import in_words
from tilewright.support.suggestions import did_you_mean
from tilewright.support.text import counted
from tilewright.target import Target

_FEW = 100_000  # solutions up to here are counted exactly


@dataclass(frozen=True)
class ProblemAnswer:
    """A problem by name: how many solutions it has, or the constraints that conflict."""

    name: str
    problem: ConstraintProblem
    count: float | None
    conflict: Conflict | None

    @classmethod
    def of(cls, name: str, problem: ConstraintProblem) -> ProblemAnswer:
        """Solve a problem."""
        conflict = conflict_of(problem)
        found = ArraySolver().prepare(problem).count if conflict is None else 0.0
        return cls(name, problem, found, conflict)

    def __str__(self) -> str:
        size = (
            f"{counted(len(self.problem.variables), 'variable')}, "
            f"{counted(len(self.problem.constraints), 'constraint')}"
        )
        if self.conflict is not None:
            return f"{self.name}: {size}, no solution: {self.conflict}"
        return f"{self.name}: {size}, {solutions_in_words(self.count)}"

    def as_json(self) -> dict[str, object]:
        """Plain values."""
        members = () if self.conflict is None else self.conflict.members
        return {
            "name": self.name,
            "variables": len(self.problem.variables),
            "constraints": len(self.problem.constraints),
            "solutions": self.count,
            "limits": [] if self.conflict is None else list(self.conflict.limits),
            "conflict": [{"constraint": in_words(m), "origin": m.origin} for m in members],
        }


def solutions_in_words(found: float | None) -> str:
    """How many solutions there are; None: nobody knows."""
    if found is None:
        return "an unknown number of solutions"
    few = found < _FEW
    return counted(round(found), "solution") if few else f"about {found:.3g} solutions"


def constraints(
    text: str, target: str, space: str, where: tuple[str, ...], *, as_json: bool
) -> None:
    """Say of each sketch how many candidates its limits leave, or which constraints conflict."""
    context = make_context(load_program(text).func, Target(target), space)
    sketches = context.generate_design_space()
    assert context.mod is not None
    assert context.space_generator is not None
    answers: list[ProblemAnswer | Uncovered] = []
    for number, sketch in enumerate(sketches):
        assert sketch.trace is not None
        trace = sketch.trace.simplified(remove_postproc=True)
        case = structure_of(context.mod, trace, context.space_generator.postprocs)
        if isinstance(case, StructureCase):
            problem = _with_demands(problem_of(case).problem, where)
            answers.append(ProblemAnswer.of(f"sketch {number}", problem))
        else:
            answers.append(Uncovered(f"sketch {number}: no constraints are known: {case.reason}"))
    if as_json:
        print_json([_as_json(answer) for answer in answers])
        return
    console = make_console()
    for answer in answers:
        shown = answer.reason if isinstance(answer, Uncovered) else str(answer)
        console.print(shown, soft_wrap=True)
        for line in _limits(answer):
            console.print(f"    {line}", soft_wrap=True)


def _as_json(answer: ProblemAnswer | Uncovered) -> dict[str, object]:
    return {"why": answer.reason} if isinstance(answer, Uncovered) else answer.as_json()


def _limits(answer: ProblemAnswer | Uncovered) -> list[str]:
    """The limits that a solvable problem keeps to."""
    if isinstance(answer, Uncovered) or answer.conflict is not None:
        return []
    found = [each for each in answer.problem.constraints if isinstance(each, Le)]
    return [f"{in_words(each)}    (from {each.origin})" for each in found]


def _with_demands(problem: ConstraintProblem, texts: tuple[str, ...]) -> ConstraintProblem:
    """A problem with what the user demands of its variables."""
    names = [variable.name for variable in problem.variables]
    more: list[Constraint] = []
    for text in texts:
        demand = read_demand(text)
        if demand.name not in names:
            raise TuneError(
                f"the constraint {text!r} names {demand.name!r}, which is no variable of the space"
                f"{did_you_mean(demand.name, names)}"
            )
        more.append(demand.on(demand.name))
    return replace(problem, constraints=(*problem.constraints, *more))

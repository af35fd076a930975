"""Explanations in words of why a problem has no solution: a smallest set that conflicts.

A set is smallest in that each of its constraints is needed: without any one of them there are
solutions. It is found by halving (QuickXplain): about as many solves as the set has members, times
the logarithm of how many constraints there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tilewright.algebra import constraints
from tilewright.solver.array_solver import ArraySolver
from tilewright.solver.base import Solver
from tilewright.solver.forms import in_words
from tilewright.solver.network import network_of, propagate

Conflicts = Callable[[constraints.ConstraintProblem, Sequence[constraints.Constraint]], bool]


@dataclass(frozen=True)
class Conflict:
    """Constraints that cannot hold together, whatever else is asked."""

    members: tuple[constraints.Constraint, ...]
    variables: tuple[constraints.IntegerVariable, ...]  # those that they speak of

    @property
    def limits(self) -> tuple[str, ...]:
        """Where upper and lower bounds among them come from: limits of a target, demands."""
        bounds = [
            each.origin
            for each in self.members
            if isinstance(each, constraints.Le) and len(each.names) == 1
        ]
        return tuple(dict.fromkeys(bounds))

    def __str__(self) -> str:
        if not self.members:
            empty = next(v.name for v in self.variables if not len(v.domain))
            return f"variable {empty!r} has no value to choose from"
        count = len(self.members)
        head = (
            "this constraint cannot hold:"
            if count == 1
            else f"these {count} constraints cannot hold together, any {count - 1} of them can:"
        )
        lines = [f"  {in_words(each)}    (from {each.origin})" for each in self.members]
        bounds = [f"limits among them: {'; '.join(self.limits)}"] if self.limits else []
        ranges = [f"  {v.name} is {_range_in_words(v.domain)}" for v in self.variables]
        return "\n".join([head, *lines, *bounds, "where", *ranges])


def conflict_of(
    problem: constraints.ConstraintProblem, solver: Solver | None = None
) -> Conflict | None:
    """A smallest set of constraints that conflict; None: there are solutions."""
    chosen = solver or ArraySolver()
    empty = tuple(v for v in problem.variables if not len(v.domain))
    if empty:
        return Conflict((), empty)
    needed: Sequence[constraints.Constraint] = problem.constraints
    if not _is_refuted(problem, needed):
        if chosen.is_satisfiable(problem):
            return None
    else:  # propagation alone sees a conflict, so it can tell which constraints are enough for one
        needed = _smallest(problem, (), needed, _is_refuted, has_news=False)

    def conflicts(
        whole: constraints.ConstraintProblem, kept: Sequence[constraints.Constraint]
    ) -> bool:
        return _is_refuted(whole, kept) or not chosen.is_satisfiable(_part(whole, kept))

    needed = _smallest(problem, (), needed, conflicts, has_news=False)
    kept = tuple(each for each in problem.constraints if each in needed)
    names = {name for each in kept for name in each.names}
    return Conflict(kept, tuple(v for v in problem.variables if v.name in names))


def _is_refuted(
    problem: constraints.ConstraintProblem, kept: Sequence[constraints.Constraint]
) -> bool:
    """True when propagation alone shows that some constraints conflict."""
    network = network_of(_part(problem, kept))
    propagate(network)
    return network.is_dead()


def _part(
    problem: constraints.ConstraintProblem, kept: Sequence[constraints.Constraint]
) -> constraints.ConstraintProblem:
    """Some constraints, and only the variables that they speak of: others cannot matter."""
    names = {name for each in kept for name in each.names}
    variables = tuple(v for v in problem.variables if v.name in names)
    return replace(problem, variables=variables, constraints=tuple(kept))


def _smallest(
    problem: constraints.ConstraintProblem,
    assumed: Sequence[constraints.Constraint],
    open_ones: Sequence[constraints.Constraint],
    conflicts: Conflicts,
    has_news: bool,
) -> list[constraints.Constraint]:
    """Those of `open_ones` that are needed for a conflict with what is assumed."""
    if has_news and conflicts(problem, assumed):
        return []
    if len(open_ones) == 1:
        return list(open_ones)
    half = len(open_ones) // 2
    first, second = open_ones[:half], open_ones[half:]
    needed_later = _smallest(problem, [*assumed, *first], second, conflicts, has_news=True)
    needed = _smallest(problem, [*assumed, *needed_later], first, conflicts, bool(needed_later))
    return [*needed, *needed_later]


# --- words --------------------------------------------------------------------------------------


def _range_in_words(domain: constraints.Domain) -> str:
    if len(domain) == 1:
        return str(domain[0])
    if isinstance(domain, range) and domain.step == 1:
        return f"from {domain[0]} to {domain[-1]}"
    if len(domain) <= 8:
        return "one of " + ", ".join(map(str, domain))
    return f"one of {len(domain)} values from {domain[0]} to {domain[-1]}"

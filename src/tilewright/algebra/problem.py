"""The constraint problem of a sketch: its decisions, its loops, and the limits of its target.

Nothing is written for an operator: tile decisions are products, extents of loops and quantities of
checks are what the interpretation found. Expressions with conditions in them have no constraint;
what needs one is left out, and named.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.algebra.constraints import (
    CeilDiv,
    Constraint,
    ConstraintProblem,
    In,
    IntegerVariable,
    Le,
    MaxOf,
    MinOf,
    Prod,
    SelectFrom,
    Sum,
    Term,
    VariableKind,
)
from tilewright.algebra.decisions import CategoricalDecision, Decision, TileDecision
from tilewright.algebra.expr import Expr, Value
from tilewright.algebra.model import StructureCase
from tilewright.schedule.primitives.sample_compute_location import INLINE


@dataclass(frozen=True)
class SpaceProblem:
    """A constraint problem, and what is not in it."""

    problem: ConstraintProblem
    left_out: tuple[str, ...]


def problem_of(case: StructureCase) -> SpaceProblem:
    """The problem of all programs of one structure."""
    builder = _Builder()
    for decision in case.interpretation.decisions:
        builder.decide(decision)
    for block in case.interpretation.blocks:
        for number, extent in enumerate(block.extents):
            builder.name(f"{block.name}.{number}", extent, "loop", f"loop of {block.name}")
    for check in case.interpretation.checks:
        builder.limit(check.quantity, check.most, check.origin)
    made = ConstraintProblem(tuple(builder.variables.values()), tuple(builder.constraints))
    return SpaceProblem(made, tuple(builder.left_out))


class _NoConstraintError(Exception):
    """An expression that no constraint can say."""


@dataclass
class _Builder:
    variables: dict[str, IntegerVariable] = field(default_factory=dict)
    constraints: list[Constraint] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    _terms: dict[Expr, str] = field(default_factory=dict)

    def decide(self, decision: Decision) -> None:
        if isinstance(decision, CategoricalDecision):
            values = tuple(sorted(set(decision.values)))
            self._declare(decision.name, values, "tunable")
            self.constraints.append(In("sample_categorical", decision.name, values))
        elif isinstance(decision, TileDecision):
            divisors = [n for n in range(1, decision.extent + 1) if decision.extent % n == 0]
            for name, most in zip(decision.names, decision.most, strict=True):
                self._declare(name, tuple(n for n in divisors if n <= most), "tunable")
            origin = f"sample_perfect_tile of {decision.extent} iterations"
            self.constraints.append(Prod(origin, decision.extent, decision.names))
        else:
            self._declare(decision.name, range(INLINE, max(1, decision.loops)), "tunable")

    def _declare(self, name: str, domain: range | tuple[int, ...], kind: VariableKind) -> None:
        self.variables[name] = IntegerVariable(name, domain, kind)

    def name(self, name: str, value: Value, kind: VariableKind, origin: str) -> None:
        """A variable of its own for a value."""
        if isinstance(value, Expr):
            try:
                term = self._term(value, origin)
            except _NoConstraintError:
                self.left_out.append(name)
                return
            self._declare(name, range(value.low, value.high + 1), kind)
            self.constraints.append(Prod(origin, name, (term,)))

    def limit(self, quantity: Value, most: int, origin: str) -> None:
        """A value that is at most a number."""
        try:
            term = self._term(quantity, origin)
        except _NoConstraintError:
            self.left_out.append(origin)
        else:
            self.constraints.append(Le(origin, term, most))

    def _term(self, value: Value, origin: str) -> Term:
        if not isinstance(value, Expr):
            return value
        if value.op == "variable":
            return str(value.args[0])
        if value not in self._terms:
            args = tuple(self._term(each, origin) for each in value.args)
            name = f"x{len(self._terms)}"
            made = _constraint(value.op, origin, name, args)
            self._declare(name, range(value.low, value.high + 1), "auxiliary")
            self.constraints.append(made)
            self._terms[value] = name
        return self._terms[value]


def _constraint(op: str, origin: str, name: str, args: tuple[Term, ...]) -> Constraint:
    match op:
        case "+":
            return Sum(origin, name, args)
        case "*":
            return Prod(origin, name, args)
        case "min":
            return MinOf(origin, name, args)
        case "max":
            return MaxOf(origin, name, args)
        case "ceil":
            return CeilDiv(origin, name, *args)
        case "where":
            condition, yes, no = args
            return SelectFrom(origin, name, condition, (no, yes))
    raise _NoConstraintError(op)

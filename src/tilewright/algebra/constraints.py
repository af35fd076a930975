"""Constraint problems as plain values: what a sketch and its target demand of integer variables.

Nothing here solves anything. A constraint names the variables that it speaks of; where an operand
may also be a number, it is a `Term`. Its `origin` says in words where it comes from, a schedule
primitive (`split of i`) or a limit of the target (`max_threads_per_block = 1024`), so that a
conflict can be explained.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Term = str | int  # the name of a variable, or a number
Domain = range | tuple[int, ...]  # an interval, or rising values
VariableKind = Literal["tunable", "loop", "derived", "auxiliary", "architecture"]
Assignment = Mapping[str, int]


@dataclass(frozen=True)
class IntegerVariable:
    """An integer and the values that it may take."""

    name: str
    domain: Domain
    kind: VariableKind = "derived"


@dataclass(frozen=True)
class Constraint:
    """What all constraints have in common."""

    origin: str

    @property
    def terms(self) -> tuple[Term, ...]:
        """Its operands, the result first."""
        raise NotImplementedError

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that it speaks of, each once, in order."""
        return tuple(dict.fromkeys(term for term in self.terms if isinstance(term, str)))

    def holds(self, values: Assignment) -> bool:
        """True when numbers for all its variables satisfy it."""
        return self._holds([values[t] if isinstance(t, str) else t for t in self.terms])

    def _holds(self, numbers: list[int]) -> bool:
        """The same for the values of `terms`."""
        raise NotImplementedError


@dataclass(frozen=True)
class Prod(Constraint):
    """`result` is the product of `factors`."""

    result: Term
    factors: tuple[Term, ...]

    @property
    def terms(self) -> tuple[Term, ...]:
        return (self.result, *self.factors)

    def _holds(self, numbers: list[int]) -> bool:
        return numbers[0] == math.prod(numbers[1:])


@dataclass(frozen=True)
class Sum(Constraint):
    """`result` is the sum of `addends`."""

    result: Term
    addends: tuple[Term, ...]

    @property
    def terms(self) -> tuple[Term, ...]:
        return (self.result, *self.addends)

    def _holds(self, numbers: list[int]) -> bool:
        return numbers[0] == sum(numbers[1:])


@dataclass(frozen=True)
class _OfTwo(Constraint):
    left: Term
    right: Term

    @property
    def terms(self) -> tuple[Term, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Eq(_OfTwo):
    """Two operands are equal."""

    def _holds(self, numbers: list[int]) -> bool:
        return numbers[0] == numbers[1]


@dataclass(frozen=True)
class Le(_OfTwo):
    """`left` is at most `right`."""

    def _holds(self, numbers: list[int]) -> bool:
        return numbers[0] <= numbers[1]


@dataclass(frozen=True)
class In(Constraint):
    """A variable takes one of some values."""

    variable: str
    values: tuple[int, ...]

    @property
    def terms(self) -> tuple[Term, ...]:
        return (self.variable,)

    def _holds(self, numbers: list[int]) -> bool:
        return numbers[0] in self.values


@dataclass(frozen=True)
class SelectFrom(Constraint):
    """`result` is the operand among `choices` at position `index`."""

    result: Term
    index: Term
    choices: tuple[Term, ...]

    @property
    def terms(self) -> tuple[Term, ...]:
        return (self.result, self.index, *self.choices)

    def _holds(self, numbers: list[int]) -> bool:
        result, index, *choices = numbers
        return 0 <= index < len(choices) and result == choices[index]


# --- what tiles that do not divide need ---------------------------------------------------------


@dataclass(frozen=True)
class CeilDiv(Constraint):
    """`result` is how many pieces of `divisor` cover `dividend`; both are positive."""

    result: Term
    dividend: Term
    divisor: Term

    @property
    def terms(self) -> tuple[Term, ...]:
        return (self.result, self.dividend, self.divisor)

    def _holds(self, numbers: list[int]) -> bool:
        result, dividend, divisor = numbers
        return divisor > 0 and result == -(-dividend // divisor)


@dataclass(frozen=True)
class _OfMany(Constraint):
    result: Term
    operands: tuple[Term, ...]

    @property
    def terms(self) -> tuple[Term, ...]:
        return (self.result, *self.operands)


@dataclass(frozen=True)
class MinOf(_OfMany):
    """`result` is the smallest operand."""

    def _holds(self, numbers: list[int]) -> bool:
        return numbers[0] == min(numbers[1:])


@dataclass(frozen=True)
class MaxOf(_OfMany):
    """`result` is the largest operand."""

    def _holds(self, numbers: list[int]) -> bool:
        return numbers[0] == max(numbers[1:])


@dataclass(frozen=True)
class ConstraintProblem:
    """Variables and what must hold between them."""

    variables: tuple[IntegerVariable, ...]
    constraints: tuple[Constraint, ...]

    def __post_init__(self) -> None:
        known: set[str] = set()
        for variable in self.variables:
            if variable.name in known:
                raise ValueError(f"variable {variable.name!r} is declared twice")
            known.add(variable.name)
        for constraint in self.constraints:
            for name in constraint.names:
                if name not in known:
                    raise ValueError(
                        f"a constraint from {constraint.origin!r} speaks of {name!r}, which is "
                        "not among the variables"
                    )

    def broken_by(self, values: Assignment) -> Iterator[Constraint]:
        """The constraints that an assignment does not satisfy; domains are not looked at."""
        return (constraint for constraint in self.constraints if not constraint.holds(values))


# Short names, for those who write many of them.
Variable = IntegerVariable
Select = SelectFrom
Min = MinOf
Max = MaxOf
Problem = ConstraintProblem

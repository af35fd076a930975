"""The language in which simplification rules are written.

`x, y = exprs("x y")` match any expression, `c1, c2 = consts("c1 c2")` integer constants; Python's
operators build patterns from them, and a rule pairs two patterns with a condition:

    rule((x * c1 + y) // c2, x * (c1 // c2) + y // c2, when=(c2 > 0) & (c1 % c2 == 0))

On the right side and in conditions, arithmetic on constants alone is done when the rule is applied.
A condition on expressions (`0 <= y`) holds when the analyzer can prove it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, Union

PatternLike: TypeAlias = Union["Pattern", int, bool]

# Operators whose operands may be swapped; a rule then stands for all orders.
COMMUTATIVE = frozenset({"Add", "Mul", "Min", "Max", "EQ", "NE", "And", "Or"})


class Pattern:
    """A tree to match or to build."""

    __slots__ = ()

    def __add__(self, other: PatternLike) -> Pattern:
        return op("Add", self, other)

    def __radd__(self, other: PatternLike) -> Pattern:
        return op("Add", other, self)

    def __sub__(self, other: PatternLike) -> Pattern:
        return op("Sub", self, other)

    def __rsub__(self, other: PatternLike) -> Pattern:
        return op("Sub", other, self)

    def __mul__(self, other: PatternLike) -> Pattern:
        return op("Mul", self, other)

    def __rmul__(self, other: PatternLike) -> Pattern:
        return op("Mul", other, self)

    def __floordiv__(self, other: PatternLike) -> Pattern:
        return op("FloorDiv", self, other)

    def __rfloordiv__(self, other: PatternLike) -> Pattern:
        return op("FloorDiv", other, self)

    def __mod__(self, other: PatternLike) -> Pattern:
        return op("FloorMod", self, other)

    def __rmod__(self, other: PatternLike) -> Pattern:
        return op("FloorMod", other, self)

    def __neg__(self) -> Pattern:
        return op("Sub", 0, self)

    def __lt__(self, other: PatternLike) -> Pattern:
        return op("LT", self, other)

    def __le__(self, other: PatternLike) -> Pattern:
        return op("LE", self, other)

    def __gt__(self, other: PatternLike) -> Pattern:
        return op("GT", self, other)

    def __ge__(self, other: PatternLike) -> Pattern:
        return op("GE", self, other)

    def __eq__(self, other: PatternLike) -> Pattern:  # type: ignore[override]
        return op("EQ", self, other)

    def __ne__(self, other: PatternLike) -> Pattern:  # type: ignore[override]
        return op("NE", self, other)

    __hash__ = object.__hash__

    def __and__(self, other: PatternLike) -> Pattern:
        return op("And", self, other)

    def __or__(self, other: PatternLike) -> Pattern:
        return op("Or", self, other)

    def __invert__(self) -> Pattern:
        return op("Not", self)


@dataclass(frozen=True, eq=False, slots=True)
class ExprVar(Pattern):
    """Matches any expression; the same name matches equal expressions."""

    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, slots=True)
class ConstVar(Pattern):
    """Matches an integer constant."""

    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, slots=True)
class Literal(Pattern):
    """Matches one constant."""

    value: int | bool

    def __repr__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, eq=False, slots=True)
class OperationPattern(Pattern):
    """Matches a node of the class `kind`."""

    kind: str
    args: tuple[Pattern, ...]

    def __repr__(self) -> str:
        return f"{self.kind}({', '.join(map(repr, self.args))})"


def lift(value: PatternLike) -> Pattern:
    return value if isinstance(value, Pattern) else Literal(value)


def op(kind: str, *args: PatternLike) -> OperationPattern:
    return OperationPattern(kind, tuple(lift(arg) for arg in args))


def exprs(names: str) -> tuple[Pattern, ...]:
    return tuple(ExprVar(name) for name in names.split())


def consts(names: str) -> tuple[Pattern, ...]:
    return tuple(ConstVar(name) for name in names.split())


def minimum(a: PatternLike, b: PatternLike) -> Pattern:
    return op("Min", a, b)


def maximum(a: PatternLike, b: PatternLike) -> Pattern:
    return op("Max", a, b)


def truncdiv(a: PatternLike, b: PatternLike) -> Pattern:
    return op("Div", a, b)


def truncmod(a: PatternLike, b: PatternLike) -> Pattern:
    return op("Mod", a, b)


def select(condition: PatternLike, yes: PatternLike, no: PatternLike) -> Pattern:
    return op("Select", condition, yes, no)


def if_then_else(condition: PatternLike, yes: PatternLike, no: PatternLike) -> Pattern:
    return op("if_then_else", condition, yes, no)


def ramp(base: PatternLike, stride: PatternLike, lanes: PatternLike) -> Pattern:
    return op("Ramp", base, stride, lanes)


def broadcast(value: PatternLike, lanes: PatternLike) -> Pattern:
    return op("Broadcast", value, lanes)


@dataclass(frozen=True, eq=False, slots=True)
class Rule:
    """`left` becomes `right` where `when` is known to hold."""

    left: OperationPattern
    right: Pattern
    when: Pattern | None = None

    def __repr__(self) -> str:
        condition = "" if self.when is None else f" when {self.when!r}"
        return f"{self.left!r} -> {self.right!r}{condition}"


def rule(left: Pattern, right: PatternLike, when: Pattern | None = None) -> Rule:
    if not isinstance(left, OperationPattern):
        raise TypeError(f"the left side of a rule must be an operation, not {left!r}")
    return Rule(left, lift(right), when)


def is_constant_only(pattern: Pattern) -> bool:
    """True when the pattern's value is known once its constants are."""
    match pattern:
        case ExprVar():
            return False
        case OperationPattern(_, args):
            return all(map(is_constant_only, args))
    return True


def variables(pattern: Pattern) -> Iterator[ExprVar | ConstVar]:
    """All pattern variables, in order of occurrence, with repetitions."""
    match pattern:
        case ExprVar() | ConstVar():
            yield pattern
        case OperationPattern(_, args):
            for arg in args:
                yield from variables(arg)


def orders(pattern: Pattern) -> Iterator[Pattern]:
    """The pattern with the operands of commutative operators in every order.

    Constants always stand on the right of a simplified expression, so they stay where they are.
    """
    if not isinstance(pattern, OperationPattern):
        yield pattern
        return
    for args in itertools.product(*(list(orders(arg)) for arg in pattern.args)):
        yield OperationPattern(pattern.kind, args)
        swappable = pattern.kind in COMMUTATIVE and not any(map(is_constant_only, args))
        if swappable:
            yield OperationPattern(pattern.kind, args[::-1])

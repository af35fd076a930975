"""The language in which simplification rules are written.

`x, y = exprs("x y")` match any expression, `c1, c2 = consts("c1 c2")` integer constants; Python's
operators build patterns from them, and a rule pairs two patterns with a condition:

    rule((x * c1 + y) // c2, x * (c1 // c2) + y // c2, when=(c2 > 0) & (c1 % c2 == 0))

On the right side and in conditions, arithmetic on constants alone is done when the rule is applied.
A condition on expressions (`0 <= y`) holds when the analyzer can prove it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, Union

PatternLike: TypeAlias = Union["Pattern", int, bool]

# Operators whose operands may be swapped; a rule then stands for all orders.
COMMUTATIVE = frozenset({"Add", "Mul", "Min", "Max", "EQ", "NE", "And", "Or"})


_Operator: TypeAlias = Callable[["Pattern", PatternLike], "Pattern"]


def _operator(kind: str) -> _Operator:
    return lambda left, right: op(kind, left, right)


def _reflected(kind: str) -> _Operator:
    return lambda right, left: op(kind, left, right)


class Pattern:
    """A tree to match or to build."""

    __slots__ = ()
    __add__, __radd__ = _operator("Add"), _reflected("Add")
    __sub__, __rsub__ = _operator("Sub"), _reflected("Sub")
    __mul__, __rmul__ = _operator("Mul"), _reflected("Mul")
    __floordiv__, __rfloordiv__ = _operator("FloorDiv"), _reflected("FloorDiv")
    __mod__, __rmod__ = _operator("FloorMod"), _reflected("FloorMod")
    __lt__, __le__ = _operator("LT"), _operator("LE")
    __gt__, __ge__ = _operator("GT"), _operator("GE")
    __eq__, __ne__ = _operator("EQ"), _operator("NE")  # type: ignore[assignment]
    __hash__ = object.__hash__
    __and__, __or__ = _operator("And"), _operator("Or")

    def __neg__(self) -> Pattern:
        return op("Sub", 0, self)

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


minimum, maximum = partial(op, "Min"), partial(op, "Max")
truncdiv, truncmod = partial(op, "Div"), partial(op, "Mod")
select = partial(op, "Select")
ramp, broadcast = partial(op, "Ramp"), partial(op, "Broadcast")


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

"""Every rule of the simplifier, proved by an SMT solver; a rule without a proof is named.

The proofs are about unbounded integers. Where a rule multiplies or divides by its constants, they
are instantiated with a spread of values, which keeps the statements linear in the expressions. What
the solver cannot decide in time must at least pass the search for counterexamples next door, which
also covers numbers that wrap around, and floats.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import z3

from tilewright.arith.pattern import (
    ConstVar,
    ExprVar,
    Literal,
    OperationPattern,
    Pattern,
    Rule,
    consts,
    exprs,
    is_constant_only,
    rule,
    variables,
)
from tilewright.arith.rules import ALL_RULES
from tilewright.arith.rules.table import Domain

_TIMEOUT_MS = 400
_MAX_INSTANCES = 12
_SPREAD = (2, -3, 4, 1, 8, -1, 12, 3, 6, -4)
_NONLINEAR = frozenset({"Mul", "FloorDiv", "FloorMod", "Div", "Mod", "gcd", "Min", "Max"})
_COMPARISONS = frozenset({"EQ", "NE", "LT", "LE", "GT", "GE"})
Term = Any  # z3 ships no useful types


def _rules(domain: Callable[[Domain], bool]) -> list[Any]:
    return [
        pytest.param(known, id=f"{table.name}: {known!r}")
        for table in ALL_RULES
        if domain(table.domain)
        for known in table.rules
    ]


def _floordiv(a: Term, b: Term) -> Term:
    # The solver's division leaves a non-negative remainder, which is the floor for b > 0.
    return z3.If(b > 0, a / b, (-a) / (-b))


def _truncdiv(a: Term, b: Term) -> Term:
    magnitude = z3.If(a >= 0, a, -a) / z3.If(b >= 0, b, -b)
    return z3.If((a >= 0) == (b >= 0), magnitude, -magnitude)


_INTEGERS: dict[str, Callable[..., Term]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "FloorDiv": _floordiv,
    "FloorMod": lambda a, b: a - b * _floordiv(a, b),
    "Div": _truncdiv,
    "Mod": lambda a, b: a - b * _truncdiv(a, b),
    "Min": lambda a, b: z3.If(a <= b, a, b),
    "Max": lambda a, b: z3.If(a >= b, a, b),
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
    "And": z3.And,
    "Or": z3.Or,
    "Not": z3.Not,
    "Select": z3.If,
    "if_then_else": z3.If,
    "is_integer": lambda _: z3.BoolVal(True),
}


class _Translator:
    """Patterns as integer terms, for one lane of a vector."""

    def __init__(self, constants: dict[str, int], lane: int) -> None:
        self._constants = constants
        self._lane = lane
        self.divisors: list[Term] = []

    def visit(self, pattern: Pattern, sort: str) -> Term:
        match pattern:
            case ExprVar(name):
                return z3.Bool(name) if sort == "bool" else z3.Int(name)
            case ConstVar(name):
                known = self._constants.get(name)
                return z3.Int(name) if known is None else z3.IntVal(known)
            case Literal(value):
                return z3.BoolVal(bool(value)) if sort == "bool" else z3.IntVal(int(value))
            case OperationPattern("Broadcast", (value, _)):
                return self.visit(value, sort)
            case OperationPattern("Ramp", (base, stride, _)):
                return self.visit(base, sort) + self.visit(stride, sort) * self._lane
            case OperationPattern():
                return self._operation(pattern, sort)
        raise TypeError(pattern)

    def _operation(self, pattern: OperationPattern, sort: str) -> Term:
        kind, sorts = pattern.kind, ["number"] * len(pattern.args)
        if kind in ("And", "Or", "Not"):
            sorts = ["bool"] * len(pattern.args)
        elif kind in ("Select", "if_then_else"):
            sorts = ["bool", sort, sort]
        args = [self.visit(arg, s) for arg, s in zip(pattern.args, sorts, strict=True)]
        if kind in ("FloorDiv", "FloorMod", "Div", "Mod"):
            self.divisors.append(args[1])
        return _INTEGERS[kind](*args)


def _result_sort(pattern: OperationPattern) -> str:
    return "bool" if pattern.kind in {*_COMPARISONS, "And", "Or", "Not"} else "number"


def _has_nonlinear_constants(pattern: Pattern | None) -> bool:
    match pattern:
        case OperationPattern(kind, args):
            touched = kind in _NONLINEAR and any(
                isinstance(variable, ConstVar) for variable in variables(pattern)
            )
            return touched or any(map(_has_nonlinear_constants, args))
    return False


def _instances(known: Rule) -> Iterator[dict[str, int]]:
    """Values for the constants that meet the part of the condition that is about them alone."""
    names = list(dict.fromkeys(v.name for v in variables(known.left) if isinstance(v, ConstVar)))
    sides = (known.left, known.right, known.when)
    if "n" in names:
        names = [name for name in names if name != "n"]
    elif not any(map(_has_nonlinear_constants, sides)):
        yield {}  # linear as it stands: one proof covers all constants
        return
    found = 0
    for values in itertools.product(_SPREAD, repeat=len(names)):
        constants = {**dict(zip(names, values, strict=True)), "n": 4}
        if all(_holds(part, constants) for part in _conjuncts(known.when)):
            yield constants
            found += 1
            if found == _MAX_INSTANCES:
                return


def _conjuncts(condition: Pattern | None) -> Iterator[Pattern]:
    match condition:
        case OperationPattern("And", args):
            for arg in args:
                yield from _conjuncts(arg)
        case Pattern() if is_constant_only(condition):
            yield condition


def _holds(condition: Pattern, constants: dict[str, int]) -> bool:
    translator = _Translator(constants, 0)
    term = translator.visit(condition, "bool")
    return all(not z3.is_int_value(d) or d.as_long() != 0 for d in translator.divisors) and bool(
        z3.is_true(z3.simplify(term))
    )


def _refute(known: Rule, constants: dict[str, int], lane: int) -> Any:
    """The solver's verdict on "the rule is wrong": unsat is a proof."""
    translator = _Translator(constants, lane)
    sort = _result_sort(known.left)
    solver = z3.Solver()
    solver.set("timeout", _TIMEOUT_MS)
    left = translator.visit(known.left, sort)
    if known.when is not None:
        solver.add(translator.visit(known.when, "bool"))
    for divisor in translator.divisors:
        solver.add(divisor != 0)  # a program that divides by zero has no meaning to preserve
    solver.add(left != translator.visit(known.right, sort))
    verdict = solver.check()
    if verdict == z3.sat:
        pytest.fail(f"counterexample of {known!r}: {constants} {solver.model()}")
    return verdict


# Products of unknowns: the solver may run out of time; the exhaustive search still covers them.
_MAY_TIME_OUT = frozenset({"Mul", "FloorDiv", "FloorMod"})


def _multiplies_unknowns(pattern: Pattern) -> bool:
    match pattern:
        case OperationPattern(kind, args):
            hard = kind in _MAY_TIME_OUT and not is_constant_only(args[1])
            return hard or any(map(_multiplies_unknowns, args))
    return False


def _prove(known: Rule) -> None:
    instances = list(_instances(known))
    assert instances, "no constants satisfy the condition, so nothing was proved"
    lanes = range(4) if any(v.name == "n" for v in variables(known.left)) else range(1)
    verdicts = [_refute(known, constants, lane) for constants in instances for lane in lanes]
    if not _multiplies_unknowns(known.left):
        assert all(verdict == z3.unsat for verdict in verdicts), f"no proof of {known!r}"


@pytest.mark.parametrize("known", _rules(lambda domain: True))
def test_rule_is_proved_over_the_integers(known: Rule) -> None:
    _prove(known)


def test_a_wrong_rule_has_no_proof() -> None:
    (x,), (c1,) = exprs("x"), consts("c1")
    with pytest.raises(pytest.fail.Exception, match="counterexample of"):
        _prove(rule((x // c1) * c1, x, when=c1 > 0))


def test_tables_are_not_empty() -> None:
    assert sum(len(table.rules) for table in ALL_RULES) > 300

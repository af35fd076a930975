"""Every rule of the simplifier, tried on all small numbers; a wrong rule is named.

Index rules are tried on unbounded integers, integer rules also on 8-bit numbers that wrap around,
and rules for all values on floats with their infinities and NaN.
"""

from __future__ import annotations

import operator
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.arith.pattern import (
    ConstVar,
    ExprVar,
    Literal,
    OperationPattern,
    Pattern,
    Rule,
    consts,
    exprs,
    minimum,
    rule,
    variables,
)
from tilewright.arith.rules import ALL_RULES, RuleTable
from tilewright.arith.rules.table import Domain

Array = npt.NDArray[Any]
_MAX_POINTS = 250_000
_LANES = 3
x, y = exprs("x y")
c1, c2 = consts("c1 c2")


def _rules() -> Iterator[Any]:
    for table in ALL_RULES:
        for known in table.rules:
            yield pytest.param(table, known, id=f"{table.name}: {known!r}")


def _sort_of(pattern: OperationPattern) -> str:
    is_bool = pattern.kind in ("And", "Or", "Not", "EQ", "NE", "LT", "LE", "GT", "GE")
    return "bool" if is_bool else "number"


def _sorts(pattern: Pattern, sort: str, found: dict[str, str]) -> dict[str, str]:
    """Whether each expression variable stands for a number or for a truth value."""
    match pattern:
        case ExprVar(name):
            found[name] = sort
        case OperationPattern("And" | "Or" | "Not", args):
            for arg in args:
                _sorts(arg, "bool", found)
        case OperationPattern("Select" | "if_then_else", (condition, *values)):
            _sorts(condition, "bool", found)
            for value in values:
                _sorts(value, sort, found)
        case OperationPattern("Ramp" | "Broadcast", args):
            for arg in args[:-1]:
                _sorts(arg, sort, found)
        case OperationPattern(_, args):
            for arg in args:
                _sorts(arg, "number", found)
    return found


class _Evaluator:
    """Evaluates patterns on arrays of points; notes where a left side divides by zero."""

    def __init__(self, values: dict[str, Array], wrap: Callable[[Array], Array]) -> None:
        self.values = values
        self.wrap = wrap
        self.defined: Array = np.asarray(True)

    def visit(self, pattern: Pattern) -> Array:
        match pattern:
            case ExprVar(name) | ConstVar(name):
                return self.values[name]
            case Literal(value):
                return np.asarray(value)
            case OperationPattern("Broadcast", (value, _)):
                return self.visit(value)
            case OperationPattern("Ramp", (base, stride, _)):
                lane = np.arange(_LANES)[:, None]
                return self.wrap(self.visit(base) + self.visit(stride) * lane)
            case OperationPattern("Select" | "if_then_else", (condition, yes, no)):
                return np.where(self.visit(condition), self.visit(yes), self.visit(no))
            case OperationPattern("is_integer", _):
                return np.asarray(True)
            case OperationPattern(kind, args):
                return self._operate(kind, [self.visit(arg) for arg in args])
        raise TypeError(pattern)

    def _operate(self, kind: str, args: list[Array]) -> Array:
        if kind in ("FloorDiv", "FloorMod", "Div", "Mod"):
            self.defined = self.defined & (args[1] != 0)
            args = [args[0], np.where(args[1] == 0, 1, args[1])]
        return self.wrap(_OPERATIONS[kind](*args))


def _truncdiv(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        result: Array = a / b
        return result
    result = np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)
    return result


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "FloorDiv": np.floor_divide,
    "FloorMod": np.mod, "Div": _truncdiv, "Mod": lambda a, b: a - b * _truncdiv(a, b),
    "Min": np.minimum, "Max": np.maximum, "EQ": operator.eq, "NE": operator.ne, "LT": operator.lt,
    "LE": operator.le, "GT": operator.gt, "GE": operator.ge, "And": np.logical_and,
    "Or": np.logical_or, "Not": np.logical_not, "gcd": np.gcd,
}  # fmt: skip


def _points(rule: Rule, numbers: list[Any], constants: list[Any]) -> dict[str, Array]:
    """All combinations of small values, or a fixed sample where there are too many."""
    sorts = _sorts(rule.left, _sort_of(rule.left), {})
    axes: dict[str, list[Any]] = {}
    for variable in variables(rule.left):
        if variable.name == "n":
            axes["n"] = [_LANES]
        elif isinstance(variable, ConstVar):
            axes[variable.name] = constants
        else:
            axes[variable.name] = [False, True] if sorts[variable.name] == "bool" else numbers
    axes = axes or {"unused": [0]}
    names = list(axes)
    sizes = [len(axes[name]) for name in names]
    total = int(np.prod(sizes))
    generator = np.random.default_rng(zlib.crc32(repr(rule).encode()))
    flat = np.arange(total) if total <= _MAX_POINTS else generator.integers(total, size=_MAX_POINTS)
    indices = np.unravel_index(flat, sizes)
    return {name: np.asarray(axes[name])[at] for name, at in zip(names, indices, strict=True)}


def _check(
    rule: Rule, points: dict[str, Array], wrap: Callable[[Array], Array], fits: range | None
) -> int:
    """Assert that both sides agree wherever the rule applies; the number of such points."""
    left = _Evaluator(points, wrap)
    expected = left.visit(rule.left)
    applies: Array = left.defined
    exact = _Evaluator(points, lambda value: value)
    if rule.when is not None:
        applies = applies & exact.visit(rule.when)
    if fits is not None:
        for constant in _computed_constants(rule.right):
            value = exact.visit(constant)
            applies = applies & (value >= fits.start) & (value < fits.stop)
            applies = applies & ((fits.start == 0) | (-value < fits.stop))
    actual = _Evaluator(points, wrap).visit(rule.right)
    same = (expected == actual) | ((expected != expected) & (actual != actual))
    wrong = np.argwhere(np.atleast_1d(applies & ~same))
    if len(wrong):
        at = wrong[0][-1]
        example = {name: values[at].item() for name, values in points.items()}
        pytest.fail(f"counterexample of {rule!r}: {example}")
    return int(np.sum(np.broadcast_to(applies, np.shape(same))))


def _computed_constants(pattern: Pattern) -> Iterator[Pattern]:
    """The arithmetic on constants that the rule does when it is applied."""
    if isinstance(pattern, OperationPattern):
        if all(isinstance(v, ConstVar) for v in variables(pattern)) and any(variables(pattern)):
            yield pattern
        else:
            for arg in pattern.args:
                yield from _computed_constants(arg)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("table", "known"), list(_rules()))
def test_rule_has_no_small_counterexample(table: RuleTable, known: Rule) -> None:
    numbers = list(range(-9, 10))
    constants = [-8, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 8, 12]
    applied = _check(known, _points(known, numbers, constants), lambda value: value, None)
    assert applied > 0, "the rule never applied, so nothing was tested"
    if table.domain is Domain.INTEGER:
        _check_wrapping(known, signed=True)
        _check_wrapping(known, signed=False)
    if table.domain is Domain.VALUE or _is_about_all_comparisons(table, known):
        floats = [float(v) for v in (-np.inf, -2.5, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0, np.inf, np.nan)]
        _check(known, _points(known, floats, constants), lambda value: value, None)


def _is_about_all_comparisons(table: RuleTable, rule: Rule) -> bool:
    """A rule for truth values that does not ask for integers may meet comparisons of floats."""
    constants = any(isinstance(variable, ConstVar) for variable in variables(rule.left))
    return table.domain is Domain.BOOL and rule.when is None and not constants


def _check_wrapping(rule: Rule, *, signed: bool) -> None:
    edges = (-128, -127, -65, -64, -63, -3, -2, -1, 0, 1, 2, 3, 63, 64, 65, 126, 127)
    values = [v if signed else v % 256 for v in edges]
    fits = range(-128, 128) if signed else range(256)

    def wrap(value: Array) -> Array:
        if np.asarray(value).dtype.kind == "b":
            return value
        result: Array = (value + 128) % 256 - 128 if signed else value % 256
        return result

    _check(rule, _points(rule, values, values), wrap, fits)


@pytest.mark.parametrize(
    "wrong",
    [
        rule((x * c1 + y) // c2, x * (c1 // c2), when=(c2 > 0) & (c1 % c2 == 0)),
        rule(minimum(x + c1, x), x),
        rule(x * c1 < c2, x < c2 // c1, when=c1 > 0),
    ],
    ids=repr,
)
def test_a_wrong_rule_is_found(wrong: Rule) -> None:
    points = _points(wrong, list(range(-9, 10)), list(range(-4, 5)))
    with pytest.raises(pytest.fail.Exception, match="counterexample of"):
        _check(wrong, points, lambda value: value, None)


def test_a_rule_that_forgets_wrapping_is_found() -> None:
    with pytest.raises(pytest.fail.Exception, match="counterexample of"):
        _check_wrapping(rule(x < x + 1, True), signed=True)


def test_right_sides_use_only_variables_of_the_left() -> None:
    for table in ALL_RULES:
        for known in table.rules:
            left = {variable.name for variable in variables(known.left)}
            assert {variable.name for variable in variables(known.right)} <= left

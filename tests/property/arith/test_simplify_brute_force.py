"""Thousands of random expressions, compared with brute force over small domains.

For each: every simplifier keeps all values, constant bounds and interval sets hold them, and the
modular set fits them. A third of the expressions is simplified under a random condition.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.arith import Analyzer
from tilewright.arith.numpy_eval import evaluate_on_arrays
from tilewright.ir import (
    EQ,
    FALSE,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Range,
    Select,
    Sub,
    Var,
    const,
    intrinsics,
    substitute,
)

Array = npt.NDArray[Any]
x, y, z = Var("x"), Var("y"), Var("z")
VARS = (x, y, z)
# Some are listed twice: they are what index arithmetic is made of.
KINDS = (
    "+",
    "+",
    "-",
    "*",
    "*",
    "x",
    "/",
    "/",
    "%",
    "%",
    "min",
    "max",
    "select",
    "ite",
    "div",
    "mod",
)
COMPARISONS: tuple[type[BinaryOp], ...] = (EQ, NE, LT, LE, GT, GE)


class _Generator:
    """Random expressions, rich in what schedules produce: multiples, quotients and remainders."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def integer(self, depth: int) -> PrimExpr:
        choose = self.random.choice
        if depth == 0 or self.random.random() < 0.1:
            constant = const(choose((-3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 8, 12)))
            return choose(VARS) if self.random.random() < 0.7 else constant
        kind = choose(KINDS)
        a = self.integer(depth - 1)
        match kind:
            case "*":
                return Mul(a, const(choose((-4, -2, -1, 2, 3, 4, 6, 8))))
            case "/" | "%":
                divisor = const(choose((1, 2, 3, 4, 6, 8, 12, -3)))
                return FloorDiv(a, divisor) if kind == "/" else FloorMod(a, divisor)
            case "div" | "mod":
                divisor = const(choose((1, 2, 3, 4, 6)))
                return Div(a, divisor) if kind == "div" else Mod(a, divisor)
            case "select":
                return Select(self.condition(depth - 1), a, self.integer(depth - 1))
            case "ite":
                return intrinsics.if_then_else(
                    self.condition(depth - 1), a, self.integer(depth - 1)
                )
        node: type[BinaryOp] = {"+": Add, "-": Sub, "x": Mul, "min": Min, "max": Max}[kind]
        return node(a, self.integer(depth - 1))

    def condition(self, depth: int) -> PrimExpr:
        draw = self.random.random()
        if depth > 0 and draw < 0.35:
            joined: type[BinaryOp] = self.random.choice((And, Or))
            return joined(self.condition(depth - 1), self.condition(depth - 1))
        if depth > 0 and draw < 0.45:
            return Not(self.condition(depth - 1))
        below = max(depth - 1, 0)
        return self.random.choice(COMPARISONS)(self.integer(below), self.integer(below))

    def domains(self) -> dict[Var, Range]:
        choose = self.random.choice
        return {
            v: Range(const(choose((0, 0, -3, 2))), const(choose((1, 2, 4, 5, 8)))) for v in VARS
        }


def _points(domains: dict[Var, Range]) -> dict[Var, Array]:
    axes = [
        np.arange(d.min.value, d.min.value + d.extent.value)
        for d in domains.values()
        if isinstance(d.min, IntImm) and isinstance(d.extent, IntImm)
    ]
    grid = np.meshgrid(*axes, indexing="ij")
    return {var: axis.ravel() for var, axis in zip(domains, grid, strict=True)}


def _where(points: dict[Var, Array], condition: PrimExpr) -> dict[Var, Array]:
    mask = np.broadcast_to(evaluate_on_arrays(condition, points), points[x].shape)
    return {var: values[mask] for var, values in points.items()}


def _check(analyzer: Analyzer, expr: PrimExpr, points: dict[Var, Array]) -> None:
    expected = np.broadcast_to(evaluate_on_arrays(expr, points), points[x].shape)
    for method in (analyzer.simplify, analyzer.rewrite_simplify, analyzer.canonical_simplify):
        simple = method(expr)
        actual = np.broadcast_to(evaluate_on_arrays(simple, points), points[x].shape)
        assert np.array_equal(expected, actual), f"{method.__name__}: {expr} is not {simple}"
    if not expr.dtype.is_int:
        return
    bound = analyzer.const_int_bound(expr)
    assert bound.min_value <= expected.min(), f"{expr} below {bound}"
    assert expected.max() <= bound.max_value, f"{expr} above {bound}"
    modular = analyzer.modular_set(expr)
    assert all(modular.contains(int(v)) for v in np.unique(expected)), f"{expr} not in {modular}"


@contextlib.contextmanager
def _scope(analyzer: Analyzer, condition: PrimExpr | None) -> Iterator[None]:
    with contextlib.nullcontext() if condition is None else analyzer.constraint_scope(condition):
        yield


@pytest.mark.parametrize("batch", range(16))
def test_random_expressions_keep_their_values(batch: int) -> None:
    for seed in range(batch * 400, batch * 400 + 400):
        generator = _Generator(seed)
        domains, depth = generator.domains(), 3 + seed % 2
        wants_bool = generator.random.random() < 0.35
        expr = generator.condition(depth) if wants_bool else generator.integer(depth)
        condition = generator.condition(2) if generator.random.random() < 0.33 else None
        points = _points(domains)
        if condition is not None:
            points = _where(points, condition)
            if points[x].size == 0:
                continue
        analyzer = Analyzer()
        analyzer.bind_all(domains)
        with _scope(analyzer, condition):
            _check(analyzer, expr, points)


def test_proofs_are_never_wrong() -> None:
    proved = 0
    for seed in range(1500):
        generator = _Generator(100_000 + seed)
        domains = generator.domains()
        condition = generator.condition(2)
        analyzer = Analyzer()
        analyzer.bind_all(domains)
        if analyzer.can_prove(condition):
            proved += 1
            assert np.all(evaluate_on_arrays(condition, _points(domains))), condition
    assert proved > 200


def test_interval_sets_hold_all_values() -> None:
    bounded = 0
    for seed in range(1200):
        generator = _Generator(200_000 + seed)
        expr, domains = generator.integer(3), generator.domains()
        analyzer = Analyzer()
        found = analyzer.int_set(expr, domains)
        values = np.asarray(evaluate_on_arrays(expr, _points(domains)))
        if found.has_lower_bound:
            assert isinstance(found.min_value, IntImm)
            assert found.min_value.value <= values.min(), expr
        if found.has_upper_bound:
            bounded += 1
            assert isinstance(found.max_value, IntImm)
            assert values.max() <= found.max_value.value, expr
    assert bounded > 600


def test_interval_sets_with_symbolic_ends_hold_all_values() -> None:
    """`y` stays symbolic; each of its values is checked on its own."""
    for seed in range(400):
        generator = _Generator(300_000 + seed)
        expr = generator.integer(2)
        relaxed = {var: domain for var, domain in generator.domains().items() if var is not y}
        found = Analyzer().int_set(expr, relaxed)
        for value in (-2, 0, 3):
            points = _points({**relaxed, y: Range(const(value), const(1))})
            values = np.asarray(evaluate_on_arrays(expr, points))
            at = {y: np.asarray(value)}
            if found.has_lower_bound:
                assert evaluate_on_arrays(found.min_value, at) <= values.min(), expr
            if found.has_upper_bound:
                assert values.max() <= evaluate_on_arrays(found.max_value, at), expr


def _lane(expr: PrimExpr, lane: int) -> PrimExpr:
    """The scalar expression of one lane of a vector expression."""
    match expr:
        case Ramp(base=base, stride=stride):
            return Add(base, Mul(stride, const(lane)))
        case Broadcast(value=value):
            return value
        case Not(a=a):
            return Not(_lane(a, lane))
        case Select(condition=c, true_value=a, false_value=b):
            return Select(_lane(c, lane), _lane(a, lane), _lane(b, lane))
        case BinaryOp(a=a, b=b):
            return type(expr)(_lane(a, lane), _lane(b, lane))
    return expr


def _vector(generator: _Generator, depth: int, lanes: int) -> PrimExpr:
    choose = generator.random.choice
    if depth == 0:
        if generator.random.random() < 0.5:
            stride = const(choose((1, 1, 2, 4, -1)))
            return Ramp(Mul(generator.integer(1), const(choose((1, 4, 8)))), stride, lanes)
        return Broadcast(generator.integer(1), lanes)
    a = _vector(generator, depth - 1, lanes)
    kind: type[BinaryOp] = choose((Add, Sub, Mul, FloorDiv, FloorMod, Min, Max))
    if kind in (FloorDiv, FloorMod):
        return kind(a, Broadcast(const(choose((1, 2, 4, 8))), lanes))
    return kind(a, _vector(generator, depth - 1, lanes))


def test_random_vectors_keep_their_lanes() -> None:
    for seed in range(600):
        generator = _Generator(400_000 + seed)
        domains, lanes = generator.domains(), generator.random.choice((2, 4))
        expr = _vector(generator, 2, lanes)
        if generator.random.random() < 0.3:
            expr = generator.random.choice(COMPARISONS)(expr, _vector(generator, 1, lanes))
        analyzer = Analyzer()
        analyzer.bind_all(domains)
        simple = analyzer.simplify(expr)
        points = _points(domains)
        for lane in range(lanes):
            expected = evaluate_on_arrays(_lane(expr, lane), points)
            actual = evaluate_on_arrays(_lane(simple, lane), points)
            assert np.all(expected == actual), f"lane {lane} of {expr} is not that of {simple}"


def test_bound_values_take_the_place_of_variables() -> None:
    for seed in range(300):
        generator = _Generator(500_000 + seed)
        expr, value = generator.integer(3), generator.integer(1)
        value = substitute(value, {x: z})
        domains = generator.domains()
        analyzer = Analyzer()
        analyzer.bind(y, domains[y])
        analyzer.bind(z, domains[z])
        analyzer.bind(x, value)
        points = _points({y: domains[y], z: domains[z], x: Range(const(0), const(1))})
        points[x] = np.broadcast_to(evaluate_on_arrays(value, points), points[y].shape)
        actual = evaluate_on_arrays(analyzer.simplify(expr), points)
        assert np.all(evaluate_on_arrays(expr, points) == actual), f"{expr} with x = {value}"


def test_contradicting_conditions_do_not_crash() -> None:
    analyzer = Analyzer()
    with analyzer.constraint_scope(x < 0), analyzer.constraint_scope(x > 5):
        assert isinstance(analyzer.simplify(Min(x, const(3))), PrimExpr)
    assert analyzer.simplify(And(x < 0, x > 5)) is FALSE

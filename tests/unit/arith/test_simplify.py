"""What simplification gives for the index expressions that schedules produce."""

from __future__ import annotations

import pytest

from tilewright.arith import Analyzer
from tilewright.ir import (
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    Mul,
    Not,
    Op,
    Or,
    PrimExpr,
    Ramp,
    Range,
    Select,
    SizeVar,
    Sub,
    Var,
    cast,
    const,
    intrinsics,
    maximum,
    minimum,
    truncdiv,
    truncmod,
)

i, j, k = Var("i"), Var("j"), Var("k")
x, y, z = Var("x"), Var("y"), Var("z")
n = SizeVar("n")
f = Var("f", "float32")  # type: ignore[arg-type]
u = Var("u", "uint8")  # type: ignore[arg-type]
ite = intrinsics.if_then_else


@pytest.fixture
def analyzer() -> Analyzer:
    """`i` in [0, 8), `j` in [0, 4), `k` in [0, 16); the other variables are free."""
    result = Analyzer()
    for var, extent in ((i, 8), (j, 4), (k, 16)):
        result.bind(var, Range(const(0), const(extent)))
    return result


SUMS = [
    (x + 1 + y, "x + y + 1"),
    (x * 4 + y * 2, "x * 4 + y * 2"),
    (x * 2 + y * 4, "y * 4 + x * 2"),
    ((x + y) * 4, "x * 4 + y * 4"),
    (x - 1 + y, "x + y - 1"),
    (x + y - x, "y"),
    (x - (y - z), "x + z - y"),
    (0 - x - y, "0 - x - y"),
    (x * -2 + y, "y - x * 2"),
    (0 - x * 2, "x * -2"),
    (3 - x - y, "3 - x - y"),
    (x - y * 2 + z * 3 - 4, "z * 3 + x - y * 2 - 4"),
    (k + j * 16 + i * 64, "i * 64 + j * 16 + k"),
    (x * y * 2 - y * x, "x * y"),
    (x * 2 * y, "x * y * 2"),
    (x * (y * z), "x * y * z"),
    (x * y + x * z, "(y + z) * x"),
]
DIVISIONS = [
    ((i * 4 + j) // 4, "i"),
    ((i * 4 + j) % 4, "j"),
    ((x * 16 + y) // 4, "x * 4 + y // 4"),
    ((x * 16 + y) % 4, "y % 4"),
    ((x * 4 + j) // 8, "x // 2"),
    ((x * 4 + j) % 8, "x % 2 * 4 + j"),
    ((i * 16 + j * 4 + k) // 8, "i * 2 + (j * 4 + k) // 8"),
    ((i * 16 + j * 4 + k) % 8, "(j * 4 + k) % 8"),
    (x * 6 % 4, "x % 2 * 2"),
    (x // 4 // 3, "x // 12"),
    (x % 12 % 4, "x % 4"),
    (x // 4 % 3, "x % 12 // 4"),
    (x // 4 * 4 + x % 4, "x"),
    (x // 12 * 3 + x // 4 % 3, "x // 4"),
    (y + x % 4 * 2 + x // 4 * 8, "x * 2 + y"),
    (x % 8 // 2 * 2 + x % 2, "x % 8"),
    ((x * 2 + y) // 4 * 4 + (y + x * 2) % 4, "x * 2 + y"),
    (x - x // 4 * 4, "x % 4"),
    ((x + 4) // 4, "x // 4 + 1"),
    ((x - 1) // 4, "(x - 1) // 4"),
    ((x - 1) % 4, "(x + 3) % 4"),
    ((x * 4 - 1) // 4, "x - 1"),
    ((x * 5 + y * 4 + 9) // 4, "(x * 5 + 9) // 4 + y"),
    ((x + n) // n, "x // n + 1"),
    ((x * n + y) // n, "x + y // n"),
    (x * n % n, "0"),
    (((x + y) // 2 + 3) // 4, "(x + y + 6) // 8"),
    ((x // 2 + y * 4) % 4, "x % 8 // 2"),
    ((x * 40 + y) // 17 * 17 + (x * 40 + y) % 17, "x * 40 + y"),
    ((x * 40 + y) // 17 * 17 + (x * 6 + y) % 17, "x * 40 + y"),
    ((x * 40 + y) // 17 * 17 + (x * 5 + y) % 17, "(x * 40 + y) // 17 * 17 + (x * 5 + y) % 17"),
    ((x * 40 + y) // 17 * 34 + (x * 6 + y) % 17 * 2 + z, "x * 80 + y * 2 + z"),
    (truncdiv(i * 4 + j, 4), "i"),
    (truncmod(i * 4 + j, 4), "j"),
    (truncdiv(x, 4), "T.Div(x, 4)"),
]
COMPARISONS = [
    (x >= 5, "5 <= x"),
    (x > 5, "5 < x"),
    (x + 2 < y + 3, "x <= y"),
    (x + 1 < y, "x + 1 < y"),
    (x * 4 < 10, "x < 3"),
    (x * 4 <= 10, "x <= 2"),
    (x // 4 < 3, "x < 12"),
    (x // 4 <= 3, "x <= 15"),
    (x // 4 > 3, "15 < x"),
    (x // 4 * 4 <= x, "T.bool(True)"),
    (x < x // 4 * 4 + 4, "T.bool(True)"),
    (x + y < y + 3, "x < 3"),
    (i < 8, "T.bool(True)"),
    (i * 4 + j < i * 4 + 4, "T.bool(True)"),
    (x - 1 == 3, "x == 4"),
    (5 - x == 2, "x == 3"),
    (x == x + 1, "T.bool(False)"),
    (x * 4 == y * 4 + 2, "T.bool(False)"),
    (Not(x < y), "y <= x"),
    (And(x < 5, Not(x < 5)), "T.bool(False)"),
    (Or(x < 5, x >= 5), "T.bool(True)"),
    (And(x < 5, x < 3), "x < 3"),
    (maximum(x, 0) < 0, "T.bool(False)"),
]
CHOICES = [
    (maximum(x, x + 1), "x + 1"),
    (minimum(x * 4, y * 4), "T.min(x, y) * 4"),
    (minimum(maximum(x, 2), 8), "T.min(T.max(x, 2), 8)"),
    (maximum(minimum(x, 5), 7), "7"),
    (minimum(x, minimum(y, x)), "T.min(x, y)"),
    (maximum((x + 3) // 4 * 4, x), "(x + 3) // 4 * 4"),
    (minimum(i, 7), "i"),
    (Select(x < 5, y, y), "y"),
    (ite(i < 8, x, y), "x"),
    (ite(x < 3, minimum(x, 3), y), "T.if_then_else(x < 3, x, y)"),
    (Select(Not(x < y), x, z), "T.Select(y <= x, x, z)"),
]
VECTORS = [
    (Ramp(x, const(1), 4) + Broadcast(y, 4), "T.Ramp(x + y, 1, 4)"),
    (Ramp(x, const(1), 4) * Broadcast(y, 4), "T.Ramp(x * y, y, 4)"),
    (Ramp(j * 4, const(1), 4) // Broadcast(const(4), 4), "T.Broadcast(j, 4)"),
    (Ramp(j * 4, const(1), 4) % Broadcast(const(4), 4), "T.Ramp(0, 1, 4)"),
    (Ramp(x, const(8), 4) // Broadcast(const(4), 4), "T.Ramp(x // 4, 2, 4)"),
    (Ramp(x, const(1), 4) < Broadcast(x, 4), "T.Ramp(x, 1, 4) < T.Broadcast(x, 4)"),
]
TYPES = [
    (cast("int64", x + 1), 'T.Cast("int64", x) + T.int64(1)'),
    (Cast("int64", const(5)), "T.int64(5)"),  # type: ignore[arg-type]
    (f + 0.0, "f"),
    (f * 1.0, "f"),
    (f - f, "f - f"),  # infinity minus itself is not zero
    (f * 0.0, "f * T.float32(0)"),
    (f + 1.0 + 2.0, "f + T.float32(1) + T.float32(2)"),  # addition of floats does not associate
    (Not(f < 1.0), "not f < T.float32(1)"),  # NaN is neither below nor above
    (u + 255 < u, "u + T.uint8(255) < u"),  # wraps around
    (u - u, "T.uint8(0)"),
]


@pytest.mark.parametrize(
    ("expr", "expected"),
    [*SUMS, *DIVISIONS, *COMPARISONS, *CHOICES, *VECTORS, *TYPES],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_simplified_form(analyzer: Analyzer, expr: PrimExpr, expected: str) -> None:
    assert str(analyzer.simplify(expr)) == expected


def test_simplifying_again_changes_nothing(analyzer: Analyzer) -> None:
    for expr, _ in [*SUMS, *DIVISIONS, *COMPARISONS, *CHOICES, *VECTORS, *TYPES]:
        once = analyzer.simplify(expr)
        assert analyzer.simplify(once) is once


def test_unchanged_expressions_stay_the_same_object(analyzer: Analyzer) -> None:
    for expr in (x, const(3), x * 4 + y, x // 4 + y % 4):
        assert analyzer.simplify(expr) is expr


def test_calls_with_side_effects_are_never_dropped_or_merged(analyzer: Analyzer) -> None:
    call = intrinsics.call_extern("int32", "tick")
    other = intrinsics.call_extern("int32", "tick")
    for expr in (Mul(call, const(0)), Sub(call, other), Sub(call, call), Add(call, call)):
        assert str(analyzer.simplify(expr)) == str(expr)


def test_equal_pure_calls_are_merged(analyzer: Analyzer) -> None:
    def root() -> PrimExpr:
        return Call("int32", Op.get("tir.popcount"), (x,))  # type: ignore[arg-type]

    assert str(analyzer.simplify(root() - root())) == "0"


def test_constants_that_would_overflow_are_left_alone(analyzer: Analyzer) -> None:
    for expr in (x // 65536 // 65536, x + 2147483647 + 1 < y, x * 65536 * 65536):
        assert str(analyzer.simplify(expr)) == str(expr)

"""Bounds, modular sets, bindings, conditions and proofs."""

from __future__ import annotations

import pytest

from tilewright.arith import NEG_INF, POS_INF, Analyzer, ConstIntBound, ModularSet
from tilewright.errors import ArithError
from tilewright.ir import (
    INT64,
    Broadcast,
    Div,
    DType,
    Mod,
    Not,
    PrimExpr,
    Ramp,
    Range,
    Select,
    SizeVar,
    Var,
    cast,
    const,
    intrinsics,
    logical_and,
    maximum,
    minimum,
)

x, y, z = Var("x"), Var("y"), Var("z")
n, m = SizeVar("n"), SizeVar("m")
wide = Var("wide", INT64)
byte = Var("byte", DType("uint8"))
INT32_MAX = 2**31 - 1


@pytest.fixture
def analyzer() -> Analyzer:
    """`x` in [-3, 5], `y` in [0, 4]."""
    result = Analyzer()
    result.bind(x, Range(const(-3), const(9)))
    result.bind(y, Range(const(0), const(5)))
    return result


@pytest.mark.parametrize(
    ("expr", "bound"),
    [
        (x + y, (-3, 9)),
        (x - y, (-7, 5)),
        (x * y, (-12, 20)),
        (x * -2, (-10, 6)),
        (x // 2, (-2, 2)),
        (Div(x, const(2)), (-1, 2)),
        (Mod(x, const(4)), (-3, 3)),
        (x % 4, (0, 3)),
        (y % 8, (0, 4)),
        ((y * 4 + 2) % 8, (2, 6)),
        (x // -2, (-3, 1)),
        (minimum(x, y), (-3, 4)),
        (maximum(x, 2), (2, 5)),
        (Select(x < 0, y, x), (-3, 5)),
        (x < y, (0, 1)),
        (Not(x < y), (0, 1)),
        (intrinsics.if_then_else(x < 0, x, y), (-3, 5)),
        (x & 7, (0, 7)),
        (y << 2, (0, 16)),
        (x >> 1, (-2, 2)),
        (cast("int8", y), (0, 4)),
        (cast("uint8", x), (0, 255)),
        (Ramp(y, const(2), 4), (0, 10)),
        (Broadcast(x, 4), (-3, 5)),
        (z, (-(2**31), INT32_MAX)),
        (n, (0, INT32_MAX)),
        (wide, (NEG_INF, POS_INF)),
        (wide * 2 + 1, (NEG_INF, POS_INF)),
        (wide % 7, (0, 6)),
        (byte + 1, (0, 255)),
        (byte // 2, (0, 127)),
        (const(7), (7, 7)),
    ],
)
def test_constant_bounds(analyzer: Analyzer, expr: PrimExpr, bound: tuple[int, int]) -> None:
    assert analyzer.const_int_bound(expr) == ConstIntBound(*bound)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (x * 4, (4, 0)),
        (x * 4 + 3, (4, 3)),
        (x * 4 + y * 6 + 1, (2, 1)),
        (x * 8 // 2, (4, 0)),
        ((x * 8 + 5) // 4, (2, 1)),
        (x * 6 % 4, (2, 0)),
        (x * 4 * (y * 2 + 1), (4, 0)),
        (minimum(x * 4, y * 6), (2, 0)),
        (Select(x < 0, x * 4, y * 4 + 2), (2, 0)),
        (const(5), (0, 5)),
        (x << 3, (8, 0)),
        (Div(x * 8, const(4)), (2, 0)),
        (Div(x * 8 + 3, const(4)), (1, 0)),  # towards zero, so 11 / 4 and -5 / 4 differ in kind
        (byte * 4, (1, 0)),  # wraps around at 256
        (x, (1, 0)),
    ],
)
def test_modular_sets(analyzer: Analyzer, expr: PrimExpr, expected: tuple[int, int]) -> None:
    assert analyzer.modular_set(expr) == ModularSet(*expected)


def test_binding_to_a_value_substitutes_it() -> None:
    analyzer = Analyzer()
    analyzer.bind(x, y * 4 + 1)
    assert str(analyzer.simplify(x % 4)) == "1"
    assert str(analyzer.simplify(x + z)) == "y * 4 + z + 1"


def test_binding_to_a_range_of_one_is_binding_to_its_start() -> None:
    analyzer = Analyzer()
    analyzer.bind(x, Range(y, const(1)))
    assert str(analyzer.simplify(x * 2)) == "y * 2"


def test_binding_twice_needs_permission() -> None:
    analyzer = Analyzer()
    analyzer.bind(x, Range(const(0), const(4)))
    analyzer.bind(x, Range(const(0), const(4)))
    with pytest.raises(ArithError) as caught:
        analyzer.bind(x, Range(const(0), const(8)))
    assert str(caught.value) == (
        "variable x is bound already; pass allow_override=True to bind it anew"
    )
    analyzer.bind(x, Range(const(0), const(8)), allow_override=True)
    assert analyzer.const_int_bound(x) == (0, 7)


def test_update_narrows_bounds() -> None:
    analyzer = Analyzer()
    analyzer.update(x, ConstIntBound(0, 9))
    analyzer.update(x, ConstIntBound(-5, 4))
    assert analyzer.const_int_bound(x) == (0, 4)
    analyzer.update(x, ConstIntBound(-5, 4), override=True)
    assert analyzer.const_int_bound(x) == (-5, 4)


def test_conditions_hold_inside_their_scope_only() -> None:
    analyzer = Analyzer()
    with analyzer.constraint_scope(logical_and(x >= 0, x < 4)):
        assert analyzer.const_int_bound(x) == (0, 3)
        assert str(analyzer.simplify(x // 4)) == "0"
        with analyzer.constraint_scope(x % 2 == 1):
            assert analyzer.modular_set(x) == (2, 1)
            assert str(analyzer.simplify((x + 1) % 2)) == "0"
        assert analyzer.modular_set(x) == (1, 0)
    assert str(analyzer.simplify(x // 4)) == "x // 4"


@pytest.mark.parametrize(
    ("known", "proved"),
    [
        (x * 4 + y < 13, x * 4 + y < 16),
        (x * 4 + y < 13, y + x * 4 <= 12),
        (x < y, x + 1 <= y),
        (x < y, x - y < 0),
        (x <= y, x < y + 1),
        (Not(x < y), x >= y),
        (x == 3, x * 2 + 1 == 7),
        (x == y, x - y == 0),
        (x * 8 + y < n, x * 8 + y < n + 1),
        (intrinsics.likely(x < 5), x < 6),
        (logical_and(x < 4, y < 4), x + y < 7),
    ],
)
def test_conditions_prove_others(known: PrimExpr, proved: PrimExpr) -> None:
    analyzer = Analyzer()
    assert not analyzer.can_prove(proved)
    with analyzer.constraint_scope(known):
        assert analyzer.can_prove(proved)
    assert not analyzer.can_prove(proved)


def test_symbolic_domains_prove_bounds() -> None:
    analyzer = Analyzer()
    analyzer.bind(x, Range(const(0), n))
    analyzer.bind(y, Range(const(0), const(8)))
    assert analyzer.can_prove(x < n)
    assert analyzer.can_prove(x * 8 + y < n * 8)
    assert analyzer.can_prove_less(x, n + 1)
    assert analyzer.can_prove_greater_equal(x, 0)
    assert not analyzer.can_prove(x + 1 < n)


def test_equality_of_rearranged_expressions() -> None:
    analyzer = Analyzer()
    assert analyzer.can_prove_equal((x + y) * 4, y * 4 + x * 4)
    assert analyzer.can_prove_equal(n * m, m * n)
    assert analyzer.can_prove_equal(x // 8, x // 2 // 4)
    assert not analyzer.can_prove_equal(x, y)


def test_answers_do_not_outlive_what_they_rest_on() -> None:
    analyzer = Analyzer()
    assert not analyzer.can_prove(x < 10)
    analyzer.bind(x, Range(const(0), const(10)))
    assert analyzer.can_prove(x < 10)

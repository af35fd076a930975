"""Indices as sums: what is read is what the simplifier would make of it."""

from __future__ import annotations

from tilewright.arith import Analyzer
from tilewright.arith.affine import Affine
from tilewright.features.store_value import NUM_COUNTS, count_index
from tilewright.features.tvm_oddities import bounds_while, coefficient
from tilewright.ir import (
    INT32,
    Block,
    Evaluate,
    IterType,
    IterVar,
    PrimExpr,
    Range,
    Var,
    const,
    floordiv,
    floormod,
    structural_equal,
)
from tilewright.nest.index_reader import IndexReader

i, j, k, fused = Var("i"), Var("j"), Var("k"), Var("fused")


def reader() -> IndexReader:
    made = IndexReader()
    for var, extent in ((i, 4), (j, 8), (k, 1), (fused, 64)):
        made.enter_loop(var, 0, extent)
    return made


def simplified(expr: PrimExpr) -> PrimExpr:
    analyzer = Analyzer()
    for var, extent in ((i, 4), (j, 8), (k, 1), (fused, 64)):
        analyzer.bind(var, Range(const(0), const(extent)))
    return analyzer.simplify(expr)


def check(expr: PrimExpr) -> Affine:
    read = reader().read(expr)
    assert structural_equal(read.expr(INT32), simplified(expr))
    return read


def test_sums_are_in_falling_order() -> None:
    assert str(check(j + i * 16 + 3).expr(INT32)) == "i * 16 + j + 3"
    assert str(check(i * 4 - j * 2 - 3).expr(INT32)) == "i * 4 - j * 2 - 3"
    assert str(check(const(3) - j + i).expr(INT32)) == "i + 3 - j"


def test_unit_loops_and_what_cancels_vanish() -> None:
    assert check(i * 4 + j + k - i * 4).terms == {j: 1}
    assert check(k * 7 + 2).terms == {}


def test_parts_of_a_fused_loop() -> None:
    whole = check(floordiv(fused, 8) * 8 + floormod(fused, 8))
    assert whole.terms == {fused: 1}
    apart = check(floordiv(fused, 8) * 16 + floormod(fused, 8))
    assert not apart.is_plain
    assert sorted(apart.terms.values()) == [1, 16]


def test_iterators_stand_for_their_bindings() -> None:
    iterator = IterVar(Range(const(0), const(32)), Var("v"), IterType.DATA_PAR)
    block = Block((iterator,), (), (), "b", Evaluate(const(0)))
    made = reader()
    made.enter_block(block.iter_vars, (i * 8 + j,))
    assert str(made.read(iterator.var * 2 + 1).expr(INT32)) == "i * 16 + j * 2 + 1"
    assert made.read(floormod(iterator.var, 8)).terms == {j: 1}


def test_operations_of_an_index() -> None:
    for expr, adds, muls, divisions in (
        (i * 16 + j + 3, 2, 1, 0),
        (j, 0, 0, 0),
        (i * 4, 0, 1, 0),
        (floordiv(fused, 8) * 4 + floormod(fused, 8), 1, 1, 2),
        (j - 3, 1, 0, 0),
    ):
        counts = [0] * NUM_COUNTS
        count_index(reader().read(expr), counts)
        assert (counts[8], counts[9], counts[10]) == (adds, muls, divisions), expr


def test_coefficients_forget_whose_factor_they_see() -> None:
    made = reader()
    for expr, var, expected in (
        (i * 16 + j * 4 + 1, i, 4),
        (i * 16 + j * 4 + 1, j, 4),
        (i * 16 + j, i, 16),
        (i * 16 + j, j, 1),
        (i + j, i, 1),
        (i - j * 3, i, 3),
        (i + 3, i, 1),
        (i * 4, i, 4),
        (i * 4, j, 0),
        (floormod(fused, 8), fused, 1),
        (floormod(fused, 8) * 4, fused, 4),
        (i * 16 + floormod(fused, 8), fused, 1),
        (i * 16 + floormod(fused, 8), i, 16),
        (floordiv(fused * 3, 7) + i, j, 0),
    ):
        assert coefficient(made.read(expr), var) == expected, f"{var} in {expr}"


def test_remainders_keep_their_first_value() -> None:
    made = reader()
    both = made.read(floordiv(fused, 8) * 100 + floormod(fused, 8))
    assert bounds_while(both, made.ranges, set()) == (0, 0)
    assert bounds_while(both, made.ranges, {fused}) == (0, 700)
    (remainder,) = made.read(floormod(fused, 8)).terms
    assert made.bound(remainder) == (0, 7)


def test_terms_of_every_kind_have_bounds() -> None:
    made = reader()
    shifted = made.read(floordiv(fused - 5, 3))
    assert bounds_while(shifted, made.ranges, {fused}) == (-2, 19)
    assert bounds_while(made.read(Var("n") + i), made.ranges, {i}) == (0, 3)
    assert made.bound(Var("n")) is None

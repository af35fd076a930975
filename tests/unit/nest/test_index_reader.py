"""Indices are read as the simplifier would write them."""

from __future__ import annotations

import pytest

from tilewright.arith import Analyzer
from tilewright.arith.affine import Affine, affine_of
from tilewright.ir import DType, Range, Var, const, floordiv, floormod
from tilewright.nest.index_reader import IndexReader

EXTENT = 72


@pytest.mark.parametrize("outer", [1, 2, 3, 4, 9, 12, 18])
@pytest.mark.parametrize("inner", [2, 3, 6, 9, 18])
def test_digits_of_digits(inner: int, outer: int) -> None:
    for first in (floormod, floordiv):
        for second in (floormod, floordiv):
            x = Var("x", DType("int32"))
            index = second(first(x, inner), outer)
            reader, analyzer = IndexReader(), Analyzer()
            reader.enter_loop(x, 0, EXTENT)
            analyzer.bind(x, Range(const(0), const(EXTENT)))
            read = reader.read(index).expr(x.dtype)
            expected = affine_of(analyzer.simplify(index)).expr(x.dtype)
            assert str(read) == str(expected)


@pytest.mark.parametrize("divisor", [2, 3, 8, 12])
@pytest.mark.parametrize("inner", [2, 4, 6])
def test_digits_of_sums(inner: int, divisor: int) -> None:
    x, y = (Var(name, DType("int32")) for name in "xy")
    for total in (
        floordiv(x, inner) + y,
        floordiv(x, inner) + floordiv(y, 2),
        x + floordiv(y, 2),
        x * inner + y,
    ):
        for digit in (floormod, floordiv):
            reader, analyzer = IndexReader(), Analyzer()
            for var, extent in ((x, EXTENT), (y, 8)):
                reader.enter_loop(var, 0, extent)
                analyzer.bind(var, Range(const(0), const(extent)))
            read = reader.read(digit(total, divisor))
            expected = affine_of(analyzer.simplify(digit(total, divisor)))
            assert _terms(read) == _terms(expected)


def _terms(form: Affine) -> dict[str, int]:
    return {str(term): scale for term, scale in form.terms.items()}


def test_what_was_read_reads_as_the_same_objects() -> None:
    reader = IndexReader()
    x, y = Var("x", DType("int32")), Var("y", DType("int32"))
    reader.enter_loop(x, 0, 4)
    reader.enter_loop(y, 0, 2)
    once = reader.read(floormod(floordiv(x + floordiv(y, 2), 2) * 3 + y, 2))
    again = reader.read(once.expr(x.dtype))
    assert [*map(id, again.terms)] == [*map(id, once.terms)]

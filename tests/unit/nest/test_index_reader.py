"""Indices are read as the simplifier would write them."""

from __future__ import annotations

import pytest

from tilewright.arith import Analyzer
from tilewright.arith.affine import affine_of
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

"""Conditions count the operations that the simplifier would leave of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tilewright.arith import Analyzer
from tilewright.features.store_value import never_holds, read_value
from tilewright.ir import (
    EQ,
    INT32,
    LE,
    LT,
    Buffer,
    BufferLoad,
    IntImm,
    PrimExpr,
    Range,
    Select,
    Var,
    const,
    decl_buffer,
    floordiv,
    floormod,
)
from tilewright.nest.index_reader import IndexReader

DATA: Buffer = decl_buffer((64,), "float32", "data")


def _conditions(x: Var, y: Var, limit: int) -> Iterator[PrimExpr]:
    for left, right in ((1, 1), (1, 2), (2, 2), (2, 4), (3, 6), (4, 2)):
        index = x * left + y * right
        quotients = floordiv(x, left) + floordiv(y, right)
        yield LE(const(limit), index)
        yield LT(index, const(limit))
        yield LT(floordiv(quotients, 2), const(limit))
        yield LE(const(limit), floordiv(quotients, 3))
        yield EQ(floormod(quotients, 3), const(limit))


def _counts(condition: PrimExpr, reader: IndexReader) -> list[int] | None:
    value = Select(condition, BufferLoad(DATA, (const(0),)), BufferLoad(DATA, (const(1),)))
    found = read_value(value, reader)
    return None if found is None else found.counts


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 5, 8])
@pytest.mark.parametrize("extents", [(4, 3), (6, 8), (16, 2)])
def test_conditions_count_as_in_their_simplest_form(extents: tuple[int, int], limit: int) -> None:
    x, y = Var("x", INT32), Var("y", INT32)
    for condition in _conditions(x, y, limit):
        reader, analyzer = IndexReader(), Analyzer()
        for var, extent in zip((x, y), extents, strict=True):
            reader.enter_loop(var, 0, extent)
            analyzer.bind(var, Range(const(0), const(extent)))
        simple = analyzer.simplify(condition)
        assert never_holds(condition, reader) == (isinstance(simple, IntImm) and not simple.value)
        assert _counts(condition, reader) == _counts(simple, IndexReader())

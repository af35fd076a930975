"""What is read from an index has the values of the index, whatever the index looks like."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from hypothesis import given, strategies as st

from tilewright.arith.affine import Affine
from tilewright.features.tvm_oddities import bounds_while
from tilewright.ir import (
    INT32,
    Add,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Sub,
    Var,
    const,
    floordiv,
    floormod,
    maximum,
    minimum,
)
from tilewright.nest.index_reader import IndexReader

EXTENTS = {Var("i"): 3, Var("j"): 4, Var("k"): 5}
POINTS = [
    dict(zip(EXTENTS, values, strict=True))
    for values in itertools.product(*map(range, EXTENTS.values()))
]
OPERATIONS: dict[type, Callable[[int, int], int]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    Min: min,
    Max: max,
}
numbers = st.sampled_from([1, 2, 3, 4, 6, 8, 12])


def joined(parts: st.SearchStrategy[PrimExpr]) -> st.SearchStrategy[PrimExpr]:
    return st.one_of(
        st.builds(lambda a, b: a + b, parts, parts),
        st.builds(lambda a, b: a - b, parts, parts),
        st.builds(lambda a, c: a * c, parts, numbers),
        st.builds(floordiv, parts, numbers),
        st.builds(floormod, parts, numbers),
        st.builds(minimum, parts, parts),
        st.builds(maximum, parts, parts),
    )


leaves: st.SearchStrategy[PrimExpr] = st.one_of(
    st.sampled_from(list(EXTENTS)), st.integers(0, 9).map(const)
)
indices = st.recursive(leaves, joined, max_leaves=8)


def value_at(expr: PrimExpr, point: dict[Var, int]) -> int:
    if isinstance(expr, Var):
        return point[expr]
    if isinstance(expr, IntImm):
        return expr.value
    a, b = (value_at(getattr(expr, side), point) for side in "ab")
    return OPERATIONS[type(expr)](a, b)


def reader() -> IndexReader:
    made = IndexReader()
    for var, extent in EXTENTS.items():
        made.enter_loop(var, 0, extent)
    return made


@given(indices)
def test_values_are_kept(index: PrimExpr) -> None:
    read = reader().read(index).expr(INT32)
    assert [value_at(read, point) for point in POINTS] == [
        value_at(index, point) for point in POINTS
    ]


@given(indices)
def test_bounds_hold(index: PrimExpr) -> None:
    made = reader()
    values = [value_at(index, point) for point in POINTS]
    affine = made.read(index)
    bounds = [made.bound(term) for term in affine.terms]
    low = high = affine.base
    for bound, scale in zip(bounds, affine.terms.values(), strict=True):
        assert bound is not None
        low, high = (
            low + min(scale * end for end in bound),
            high + max(scale * end for end in bound),
        )
    assert low <= min(values)
    assert max(values) <= high


@given(indices)
def test_loops_that_stand_still_leave_the_first_value(index: PrimExpr) -> None:
    ranges = {var: (0, extent - 1) for var, extent in EXTENTS.items()}
    first = value_at(index, dict.fromkeys(EXTENTS, 0))
    assert bounds_while(Affine({index: 1}), ranges, set()) == (first, first)

"""Steps of loops through quotients and remainders, against all iterations."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings, strategies as st

from tilewright import ir
from tilewright.arith.ranges import RangeEvaluator
from tilewright.nest.access import MovingRanges, ranges_of
from tilewright.nest.quotients import EVERYTHING, Joined, Quotient, step_of

F, V, W = (ir.Var(name, ir.DType("int32")) for name in "fvw")


def quotient(x: ir.PrimExpr, below: int, extent: int) -> ir.PrimExpr:
    divided = x if below == 1 else ir.FloorDiv(x, ir.const(below))
    return divided if extent == EVERYTHING else ir.FloorMod(divided, ir.const(extent))


def running(**extents: int) -> RangeEvaluator:
    return MovingRanges(ranges_of({var: extents.get(var.name, 1) for var in (F, V, W)}))


def test_what_quotients_are_made_of() -> None:
    assert Quotient.of(F // 3) == Quotient(F, 3, EVERYTHING)
    assert Quotient.of(F % 9) == Quotient(F, 1, 9)
    assert Quotient.of(F // 3 % 4) == Quotient(F, 3, 4)
    assert Quotient.of(F % 9 // 3) == Quotient(F, 3, 3)
    assert Quotient.of((rest := F % 9) // 2) == Quotient(rest, 2, EVERYTHING)
    assert Quotient.of(F + 1) is None


@pytest.mark.parametrize(
    ("term", "extents", "step"),
    [
        ((F * 64 + V) % 128, {"f": 392, "v": 64}, 1),  # halves of rows
        ((F * 96 + V) % 128, {"f": 392, "v": 64}, None),  # some begin in the middle
        ((F * 3 + V) % 3, {"f": 3, "v": 3}, 1),
        ((F * 3 + V) % 3, {"f": 3, "v": 4}, None),
        ((F * 2 + V) // 2 % 4, {"f": 4, "v": 9}, None),
        ((V * 4 + F) // 2 % 8, {"f": 4, "v": 4}, 2),
        ((V * 4 + F) // 2 % 8, {"f": 4, "v": 5}, None),
        ((V * 16 + F) // 2 % 8, {"f": 4, "v": 5}, 0),  # whole rounds
        ((V * 4 + F) // 2, {"f": 40, "v": 40}, 2),
    ],
)
def test_steps(term: ir.PrimExpr, extents: dict[str, int], step: int | None) -> None:
    assert step_of(term, V, running(**extents)) == step


def test_all_digits_of_a_number_are_the_number() -> None:
    x = F * 40 + V
    whole = [(x // 1792, 1792 * 5), (x % 1792 // 128, 128 * 5), (x % 128, 5)]
    joined = Joined.of(whole, running(f=50, v=40))
    assert joined is not None
    assert (joined.stride(V), joined.stride(F)) == (5, 200)
    joined = Joined.of(whole[1:], running(f=44, v=40))  # it never gets to 1792
    assert joined is not None
    assert joined.stride(V) == 5
    assert Joined.of(whole[1:], running(f=50, v=40)) is None
    assert Joined.of([whole[0], whole[2]], running(f=50, v=40)) is None
    assert Joined.of([], running(f=50, v=40)) is None


def steps(scales: list[int], extents: list[int], below: int, extent: int) -> set[int]:
    """All steps that a quotient makes along the first of some loops."""
    found: set[int] = set()
    for others in itertools.product(*map(range, extents[1:])):
        rest = sum(a * b for a, b in zip(scales[1:], others, strict=True))
        values = [(scales[0] * at + rest) // below % extent for at in range(extents[0])]
        found |= {b - a for a, b in itertools.pairwise(values)}
    return found


@settings(max_examples=300)
@given(
    scales=st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 12, 24]), min_size=3, max_size=3),
    extents=st.lists(st.integers(2, 6), min_size=3, max_size=3),
    below=st.sampled_from([1, 2, 3, 4, 6]),
    extent=st.sampled_from([2, 3, 4, 6, 8, EVERYTHING]),
)
def test_steps_are_those_of_all_iterations(
    scales: list[int], extents: list[int], below: int, extent: int
) -> None:
    term = quotient(V * scales[0] + F * scales[1] + W * scales[2], below, extent)
    if Quotient.of(term) is None:
        return
    known = step_of(term, V, running(v=extents[0], f=extents[1], w=extents[2]))
    if known is not None:
        assert steps(scales, extents, below, extent) == {known}

"""Footprints from the algebra of random programs equal what all their iterations touch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tilewright import te
from tilewright.algebra.loop_tree import NotInterpreted
from tilewright.ir import PrimFunc
from tilewright.target import Target
from tilewright.testing.algebra_boxes import boxes_that_differ

PLACES = {
    "cpu": ("llvm -mcpu=cascadelake -num-cores 4", "tilewright"),
    "llvm": ("llvm -mcpu=cascadelake -num-cores 4", "post-order-apply"),
    "cuda": ("nvidia/geforce-rtx-3080", "post-order-apply"),
}


def product(shape: list[int], turned: bool, more: bool) -> PrimFunc:
    """`C = A @ B` or `A.T @ B`, maybe with something done to each element after it."""
    m, n, k = shape
    a = te.placeholder((k, m) if turned else (m, k), name="A")
    b = te.placeholder((k, n), name="B")
    axis = te.reduce_axis((0, k), name="k")

    def term(i: Any, j: Any) -> Any:
        return te.sum((a[axis, i] if turned else a[i, axis]) * b[axis, j], axis=[axis])

    c = te.compute((m, n), term, name="C")
    d = te.compute((m, n), lambda i, j: c[i, j] * 2.0 + 1.0, name="D") if more else c
    return te.create_prim_func([a, b, d])


def window(shape: list[int], step: int, gap: int) -> PrimFunc:
    """Sums over windows of a padded image, some elements apart."""
    size, width, channels = shape
    last = (size - 1) * step + 2 * gap + 1
    x = te.placeholder((last, channels), name="X")
    padded = te.compute(
        (last + 2, channels),
        lambda i, c: te.if_then_else(te.all(i >= 1, i <= last), x[i - 1, c], 0.0),
        name="P",
    )
    w = te.placeholder((3, channels, width), name="W")
    r = te.reduce_axis((0, 3), name="r")
    c = te.reduce_axis((0, channels), name="c")
    out = te.compute(
        (size, width),
        lambda i, j: te.sum(padded[i * step + r * gap, c] * w[r, c, j], axis=[r, c]),
        name="O",
    )
    return te.create_prim_func([x, w, out])


sizes = st.lists(st.integers(1, 24), min_size=3, max_size=3)
programs = st.one_of(
    st.builds(product, sizes, st.booleans(), st.booleans()),
    st.builds(window, sizes, st.integers(1, 3), st.integers(1, 2)),
)


def check(func: PrimFunc, place: str, sketch: int, count: int) -> None:
    target, space = PLACES[place]
    try:
        differing = boxes_that_differ(func, Target(target), space, sketch, count)
    except NotInterpreted:
        return  # it is scored by replay
    assert differing == []


@settings(max_examples=12)
@given(func=programs, place=st.sampled_from(sorted(PLACES)), sketch=st.integers(0, 5))
def test_random_programs(func: PrimFunc, place: str, sketch: int) -> None:
    check(func, place, sketch, 2)


@pytest.mark.slow
@settings(max_examples=200)
@given(func=programs, place=st.sampled_from(sorted(PLACES)), sketch=st.integers(0, 5))
def test_many_random_programs(func: PrimFunc, place: str, sketch: int) -> None:
    check(func, place, sketch, 6)


def test_random_programs_are_interpreted() -> None:
    """The test above would say nothing if it left out everything."""
    for target, space in PLACES.values():
        for func in (product([13, 24, 7], True, True), window([9, 16, 5], 2, 2)):
            assert boxes_that_differ(func, Target(target), space, 0, 2) == []

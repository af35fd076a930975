# mypy: disable-error-code="valid-type, no-untyped-def"
"""How many innermost loops touch elements that lie side by side."""

from __future__ import annotations

import pytest

from tilewright.ir import IRModule, PrimFunc
from tilewright.nest.block_loops import first_not_spatial, nest_above
from tilewright.nest.contiguity import contiguous_loops
from tilewright.schedule import Schedule
from tilewright.script import tir as T


@T.prim_func
def plain(A: T.Buffer((4, 8, 16), "float32"), B: T.Buffer((4, 8, 16), "float32")):
    for i, j, k in T.grid(4, 8, 16):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj, vk]


@T.prim_func
def shifted_rows(A: T.Buffer((4, 20), "float32"), B: T.Buffer((4, 16), "float32")):
    for i, j in T.grid(4, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj + 2]


@T.prim_func
def strided(A: T.Buffer((64,), "float32"), B: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi * 16 + vj * 2]


@T.prim_func
def strided_apart(A: T.Buffer((64,), "float32"), B: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi + vj * 4]


@T.prim_func
def broadcast(A: T.Buffer((4,), "float32"), B: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi]


@T.prim_func
def groups(A: T.Buffer((4, 8), "float32"), B: T.Buffer((32,), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            v = T.axis.spatial(32, i * 8 + j)
            B[v] = A[v // 8, v % 8]


@T.prim_func
def halves(A: T.Buffer((16,), "float32"), B: T.Buffer((32,), "float32")):
    for i in range(32):
        with T.block("B"):
            vi = T.axis.spatial(32, i)
            B[vi] = A[vi // 2]


@T.prim_func
def joined_again(A: T.Buffer((32,), "float32"), B: T.Buffer((4, 8), "float32")):
    for i in range(32):
        with T.block("B"):
            vi = T.axis.spatial(4, i // 8)
            vj = T.axis.spatial(8, i % 8)
            B[vi, vj] = A[vi * 8 + vj]


def count(func: PrimFunc, most: int = 9) -> int:
    sch = Schedule(IRModule({"main": func}))
    block = sch.get_sref(sch.get_block("B"))
    nest = nest_above(block)
    return contiguous_loops(block.realize, nest, min(most, len(nest)))


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (plain, 3),
        (shifted_rows, 1),  # rows of 20 are left after 16 elements
        (strided, 2),  # the innermost loop may stride, and others with the same stride join it
        (strided_apart, 1),
        (broadcast, 2),  # a loop that a buffer does not depend on does no harm
        (groups, 1),  # multiples of the divisor come out of the division, the rest does not count
        (halves, 1),
        (joined_again, 1),  # one loop
    ],
)
def test_counts(func: PrimFunc, expected: int) -> None:
    assert count(func) == expected


def test_no_more_than_asked_for() -> None:
    assert count(plain, most=2) == 2
    assert count(plain, most=0) == 0


@T.prim_func
def nests(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    S = T.alloc_buffer((4,))
    for i in range(4):
        for k in range(8):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = T.float32(0)
                S[vi] = S[vi] + A[vi, vk]
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = S[vi]


def test_facts_about_loops() -> None:
    sch = Schedule(IRModule({"main": nests}))
    outer, inner = nest_above(sch.get_sref(sch.get_block("S")))
    assert (outer.extent, outer.is_spatial, outer.is_free, outer.has_one_child) == (
        4,
        True,
        True,
        False,
    )
    assert (inner.extent, inner.is_spatial, inner.has_one_child) == (8, False, True)
    assert first_not_spatial([outer, inner]) == 1
    assert first_not_spatial([outer]) is None
    sch.annotate(sch.get_loops(sch.get_block("S"))[1], "note", 1)
    assert not nest_above(sch.get_sref(sch.get_block("S")))[1].is_free

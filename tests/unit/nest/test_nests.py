"""Loop nests read from TensorIR: strides, footprints and shares against brute force."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import pytest
from hypothesis import given, settings, strategies as st

from tilewright import te, topi
from tilewright.arith import Analyzer
from tilewright.ir import (
    Block,
    BlockRealize,
    BufferLoad,
    BufferStore,
    DType,
    ForKind,
    IntImm,
    Node,
    PrimExpr,
    PrimFunc,
    Var,
    post_order_visit,
    substitute,
)
from tilewright.nest.access import MemoryAccess
from tilewright.nest.loops import Loop
from tilewright.nest.nests import StoreNest, nests_in
from tilewright.nest.reading import read
from tilewright.script import from_source
from tilewright.testing.te_workload import create_te_workload

LINE = 64
INT = DType("int32")


def parsed(source: str) -> PrimFunc:
    func = from_source("from tilewright.script import tir as T\n" + source)
    assert isinstance(func, PrimFunc)
    return func


def nests_of(func: PrimFunc) -> list[StoreNest]:
    return list(nests_in(read(func)))


# --- what is found ------------------------------------------------------------------------------


def test_matmul() -> None:
    init, update = nests_of(create_te_workload("GMM", 0))
    assert [loop.extent for loop in update.loops] == [1, 128, 128, 128]
    assert (init.is_reduction, update.is_reduction) == (False, True)
    assert update.operations == 1.0  # a multiply-add
    assert [load.buffer.name for load in update.loads] == ["X", "Y"]
    assert init.loads == ()


def test_nests_are_in_program_order_with_costs() -> None:
    found = nests_of(create_te_workload("SFM", 0))
    names = [nest.store.buffer.name for nest in found]
    assert names == [
        *["T_softmax_maxelem"] * 2,
        "T_softmax_exp",
        *["T_softmax_expsum"] * 2,
        "T_softmax_norm",
    ]
    exponential, division = found[2], found[-1]
    assert exponential.operations == 21.0
    assert division.operations == 8.0


def test_annotations_are_numbers() -> None:
    loop = Loop(Var("i", INT), 4, ForKind.SERIAL, {"width": IntImm(INT, 16), "plain": 3})
    assert (loop.annotation("width"), loop.annotation("plain"), loop.annotation("none")) == (
        16,
        3,
        0,
    )


def test_branches_and_views_are_walked() -> None:
    func = parsed(
        """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        if i < 4:
            B[i] = A[i]
        else:
            B[i] = A[7 - i] * A[i]
"""
    )
    first, second = nests_of(func)
    assert (len(first.loads), len(second.loads)) == (1, 2)
    assert second.loads[0].stride(second.loops[0]) == -1


@pytest.mark.parametrize(("size", "share"), [(16, 1.0), (13, 13 / 16), (29, 29 / 32)])
def test_share_of_tiles_that_do_not_divide(size: int, share: float) -> None:
    tiles = -(-size // 4)
    func = parsed(
        f"""
@T.prim_func
def main(A: T.Buffer(({size},), "float32"), B: T.Buffer(({size},), "float32")):
    for i, j in T.grid({tiles}, 4):
        with T.block("B"):
            v = T.axis.spatial({size}, i * 4 + j)
            T.where(i * 4 + j < {size})
            B[v] = A[v]
"""
    )
    (nest,) = nests_of(func)
    assert nest.share == pytest.approx(share)


def argmax_of_all(shape: tuple[int, ...]) -> PrimFunc:
    a = te.placeholder(shape, name="A")
    return te.create_prim_func([a, topi.argmax(a)])


def test_values_of_let_statements_are_counted() -> None:
    nests = nests_of(argmax_of_all((8, 17)))
    position, value = (nest for nest in nests if nest.is_reduction)
    assert {load.buffer.name for load in position.loads} == {"A", "A_red_temp_v1"}
    assert [load.buffer.name for load in value.loads] == ["A"]  # read four times, loaded once


@pytest.mark.parametrize(("note", "operations"), [('"skip_zero_terms": 1', 1.0), ("", 3.0)])
def test_tests_outside_of_tiles_cost_nothing(note: str, operations: float) -> None:
    func = parsed(
        f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((3, 8), "float32"),
         C: T.Buffer((8,), "float32")):
    for k in T.serial(3, annotations={{{note}}}):
        for i in range(8):
            with T.block("C"):
                vk, vi = T.axis.remap("RS", [k, i])
                C[vi] = C[vi] + T.if_then_else(vi + vk < 8, A[vi + vk], T.float32(0)) * B[vk, vi]
"""
    )
    (nest,) = nests_of(func)
    assert nest.operations == operations
    assert [load.buffer.name for load in nest.loads] == ["A", "B"]


def test_results_of_a_reduction_start_once() -> None:
    start, _, update, *_ = nests_of(argmax_of_all((8, 17)))
    assert [loop.extent for loop in start.loops] == []
    assert [loop.extent for loop in update.loops] == [8, 17]


def test_a_fused_loop_over_whole_rows_has_a_stride() -> None:
    func = parsed(
        """
@T.prim_func
def main(A: T.Buffer((1000, 17), "float32"), B: T.Buffer((1000, 17), "float32")):
    for i, j in T.grid(425, 40):
        with T.block("B"):
            r = T.axis.opaque(1000, (i * 40 + j) // 17)
            c = T.axis.opaque(17, (i * 40 + j) % 17)
            B[r, c] = A[r, 16 - c]
"""
    )
    (nest,) = nests_of(func)
    outer, inner = nest.loops
    assert (nest.store.stride(outer), nest.store.stride(inner)) == (40, 1)
    assert nest.loads[0].stride(inner) is None


def test_long_expressions_count_what_stays_in_the_innermost_loop() -> None:
    func = parsed(
        """
@T.prim_func
def main(A: T.Buffer((8, 64), "float32"), B: T.Buffer((8, 64), "float32")):
    for i, j in T.grid(8, 64):
        with T.block("B"):
            r, c = T.axis.remap("SS", [i, j])
            B[r, c] = A[r, c] / (T.Cast("float32", c) + T.float32(1)) + A[r, c] / (
                T.Cast("float32", c) + T.float32(1)
            ) * T.Cast("float32", r)
"""
    )
    (nest,) = nests_of(func)
    assert nest.operations == 1 + 1 + 8 + 1  # a cast, two sums, a division; the product is fused
    assert len(nest.loads) == 1


# --- against brute force ------------------------------------------------------------------------

INDICES = ["{0}", "{0} * 3 + {1}", "{1} * 2 + 5", "{0} + {1}", "{2}", "7"]
FUSED = ["f // {m}", "f % {m}", "f // {m} * 2 + {1}", "f % {m} + {0}"]


def touched(node: BufferLoad | BufferStore, values: Mapping[Var, PrimExpr]) -> int:
    """The element of memory that an access touches for some values of the loops."""
    position = 0
    for index, extent in zip(node.indices, node.buffer.shape, strict=True):
        found = Analyzer().simplify(substitute(index, values))
        assert isinstance(found, IntImm)
        assert isinstance(extent, IntImm)
        position = position * extent.value + found.value
    return position


def positions(
    node: BufferLoad | BufferStore,
    nest: StoreNest,
    running: list[Loop],
    bound: Mapping[Var, PrimExpr],
) -> list[int]:
    """All elements while some loops run and the others stand still."""
    found = []
    for point in itertools.product(*(range(loop.extent) for loop in running)):
        values = {loop.var: IntImm(INT, 0) for loop in nest.loops}
        values |= {
            loop.var: IntImm(INT, number) for loop, number in zip(running, point, strict=True)
        }
        inside = {var: substitute(value, values) for var, value in bound.items()}
        found.append(touched(node, {**values, **inside}))
    return found


def block_of(func: PrimFunc) -> tuple[Block, dict[Var, PrimExpr]]:
    realizes: list[BlockRealize] = []

    def look(node: Node) -> None:
        if isinstance(node, BlockRealize) and node.block.iter_vars:
            realizes.append(node)

    post_order_visit(func.body, look)
    (realize,) = realizes
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    return realize.block, {iter_var.var: value for iter_var, value in pairs}


def program(row: str, column: str, extents: tuple[int, int, int], is_fused: bool) -> PrimFunc:
    first, second, third = extents
    names = ("a", "b", "c")
    head = f"for f, a, b, c in T.grid({first * second}, {first}, {second}, {third}):"
    row, column = (text.format(*names, m=second) for text in (row, column))
    if not is_fused:
        head = f"for a, b, c in T.grid({first}, {second}, {third}):"
    return parsed(
        f"""
@T.prim_func
def main(A: T.Buffer((64, 96), "float32"), B: T.Buffer((64, 96), "float32")):
    {head}
        with T.block("B"):
            vr = T.axis.opaque(64, {row})
            vc = T.axis.opaque(96, {column})
            B[vr, vc] = A[vr, vc]
"""
    )


def check(
    access: MemoryAccess, node: BufferLoad | BufferStore, nest: StoreNest, func: PrimFunc
) -> None:
    _, bound = block_of(func)
    for loop in nest.loops:
        if loop.extent == 1:
            continue
        seen = positions(node, nest, [loop], bound)
        assert access.depends_on(loop) == (len(set(seen)) > 1)
        steps = {b - a for a, b in itertools.pairwise(seen)}
        if access.stride(loop) is not None and steps:
            assert steps == {access.stride(loop)}
    for count in range(len(nest.loops) + 1):
        running = list(nest.loops[count:])
        corners = [divmod(p, 96) for p in positions(node, nest, running, bound)]
        rows, columns = (max(axis) - min(axis) + 1 for axis in zip(*corners, strict=True))
        box = rows * math.ceil(columns * 4 / LINE) * LINE
        size = access.footprint({loop.var: loop.extent for loop in running})
        assert size >= box if not access.is_plain else size == box


@settings(max_examples=60)
@given(
    row=st.sampled_from(INDICES + FUSED),
    column=st.sampled_from(INDICES + FUSED),
    extents=st.tuples(*[st.integers(1, 5)] * 3),
)
def test_strides_and_footprints(row: str, column: str, extents: tuple[int, int, int]) -> None:
    func = program(row, column, extents, "f " in row + column)
    (nest,) = nests_of(func)
    block, _ = block_of(func)
    store = block.body
    assert isinstance(store, BufferStore)
    assert isinstance(store.value, BufferLoad)
    check(nest.store, store, nest, func)
    check(nest.loads[0], store.value, nest, func)


def test_footprints_of_a_product() -> None:
    """All of a tile's rows of X, its columns of Y, and its own elements of Z."""
    func = parsed(
        """
@T.prim_func
def main(X: T.Buffer((64, 32), "float32"), Y: T.Buffer((32, 64), "float32"),
         Z: T.Buffer((64, 64), "float32")):
    for i0, j0, k, i1, j1 in T.grid(8, 4, 32, 8, 16):
        with T.block("Z"):
            vi = T.axis.spatial(64, i0 * 8 + i1)
            vj = T.axis.spatial(64, j0 * 16 + j1)
            vk = T.axis.reduce(32, k)
            Z[vi, vj] = Z[vi, vj] + X[vi, vk] * Y[vk, vj]
"""
    )
    (nest,) = nests_of(func)
    inside = {loop.var: loop.extent for loop in nest.loops[2:]}
    assert [load.footprint(inside) for load in nest.loads] == [8 * 128, 32 * 64]
    assert nest.store.footprint(inside) == 8 * 64
    whole = {loop.var: loop.extent for loop in nest.loops}
    assert [load.footprint(whole) for load in nest.loads] == [64 * 128, 32 * 256]


def test_stride_of_a_fused_loop_beside_another_one() -> None:
    """`f` walks through memory element by element, whatever the digits of `g` are."""
    func = parsed(
        """
@T.prim_func
def main(A: T.Buffer((64, 3), "float32"), B: T.Buffer((64, 3), "float32")):
    for g, f in T.grid(16, 12):
        with T.block("B"):
            vi = T.axis.spatial(64, g // 2 * 8 + g % 2 * 4 + f // 3)
            vj = T.axis.spatial(3, f % 3)
            B[vi, vj] = A[vi, vj]
"""
    )
    (nest,) = nests_of(func)
    assert nest.store.stride(nest.loops[1]) == 1

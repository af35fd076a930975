# mypy: disable-error-code="valid-type, no-untyped-def"
"""Primitives on extents that nothing divides, under conditions, and with loops of one iteration."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tilewright.ir import PrimFunc
from tilewright.schedule import LoopRV, Schedule
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


@T.prim_func
def product(
    A: T.Buffer((13, 11), "float32"),
    B: T.Buffer((11, 17), "float32"),
    D: T.Buffer((13, 17), "float32"),
):
    C = T.alloc_buffer((13, 17), "float32")
    for i, j, k in T.grid(13, 17, 11):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(13, 17):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vi, vj], T.float32(0))


@T.prim_func
def staged_product(
    A: T.Buffer((1, 13, 11), "float32"),
    B: T.Buffer((1, 17, 11), "float32"),
    C: T.Buffer((1, 13, 17), "float32"),
):
    P = T.alloc_buffer((1, 13, 11), "float32")
    Q = T.alloc_buffer((1, 17, 11), "float32")
    R = T.alloc_buffer((1, 13, 17), "float32")
    for b, i, k in T.grid(1, 13, 11):
        with T.block("P"):
            vb, vi, vk = T.axis.remap("SSS", [b, i, k])
            P[vb, vi, vk] = A[vb, vi, vk] * T.float32(2)
    for b, j, k in T.grid(1, 17, 11):
        with T.block("Q"):
            vb, vj, vk = T.axis.remap("SSS", [b, j, k])
            Q[vb, vj, vk] = B[vb, vj, vk] + T.float32(1)
    for b, i, j, k in T.grid(1, 13, 17, 11):
        with T.block("R"):
            vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
            with T.init():
                R[vb, vi, vj] = T.float32(0)
            R[vb, vi, vj] = R[vb, vi, vj] + P[vb, vi, vk] * Q[vb, vj, vk]
    for b, i, j in T.grid(1, 13, 17):
        with T.block("C"):
            vb, vi, vj = T.axis.remap("SSS", [b, i, j])
            C[vb, vi, vj] = R[vb, vi, vj] * T.float32(3)


@T.prim_func
def update(A: T.Buffer((9, 6), "float32"), B: T.Buffer((9, 6), "float32")):
    for i, j in T.grid(9, 6):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = A[vi, vj] * T.float32(2) + B[vi, vj]


@T.prim_func
def inner_update(A: T.Buffer((9, 6), "float32"), B: T.Buffer((9, 6), "float32")):
    for i, j in T.grid(7, 4):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi + 1, vj + 1] = A[vi + 1, vj + 1] * T.float32(2)
    for i, j in T.grid(9, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]


def partition_outer(sch: Schedule) -> None:
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.loop_partition(outer, [2])


def partition_inner(sch: Schedule) -> None:
    _, inner = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.loop_partition(inner, [3])


def partition_reduction(sch: Schedule) -> None:
    sch.loop_partition(sch.get_loops("C")[2], [4])


def partition_from_behind(sch: Schedule) -> None:
    sch.loop_partition(sch.get_loops("D")[0], [2, None, 5])


def partition_and_go_on(sch: Schedule) -> None:
    first, second = sch.loop_partition(sch.get_loops("D")[0], [8])
    sch.split(first, [2, 4])
    sch.parallel(second)


def folded_cache(sch: Schedule) -> None:
    block = sch.get_block("D")
    sch.split(sch.get_loops(block)[0], [None, 4])
    sch.reindex_cache_read(block, 0, "shared", lambda i, j: (i // 4, j, i % 4))


def turned_cache(sch: Schedule) -> None:
    block = sch.get_block("D")
    sch.split(sch.get_loops(block)[1], [None, 4])
    sch.reindex_cache_write(block, 0, "shared", lambda i, j: (j, i))


def rows_read_at(sch: Schedule) -> None:
    block = sch.get_block("C")
    outer, _ = sch.split(sch.get_loops(block)[0], [None, 4])
    sch.read_at(outer, block, 0, "shared")


def tiles_read_at(sch: Schedule) -> None:
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 8])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(j0, k0, i, j1, k1)
    sch.read_at(k0, block, 1, "shared")


def sums_written_at(sch: Schedule) -> None:
    block = sch.get_block("C")
    outer, _ = sch.split(sch.get_loops(block)[0], [None, 4])
    sch.write_at(outer, block, 0, "local")


def result_written_at(sch: Schedule) -> None:
    block = sch.get_block("D")
    outer, _ = sch.split(sch.get_loops(block)[0], [None, 4])
    sch.write_at(outer, block, 0, "local")


@pytest.mark.parametrize(
    "steps",
    [
        partition_outer,
        partition_inner,
        partition_reduction,
        partition_from_behind,
        partition_and_go_on,
        folded_cache,
        turned_cache,
        rows_read_at,
        tiles_read_at,
        sums_written_at,
        result_written_at,
    ],
)
def test_results_stay(steps: Callable[[Schedule], None]) -> None:
    sch = Schedule(product, debug_mask="all")
    steps(sch)
    assert_same_result(product, sch.mod)
    verify_trace_roundtrip(sch, product)


def test_parts_declare_only_what_is_in_their_buffers() -> None:
    sch = Schedule(product, debug_mask="all")
    partition_outer(sch)
    script = sch.mod.script()
    assert "T.reads(A[0:13, 0:11], B[0:11, 0:17])" in script  # 16 rows but for the condition
    assert "T.reads(A[8:13, 0:11], B[0:11, 0:17])" in script


def in_pieces(sch: Schedule, factors: list[int | None]) -> list[LoopRV]:
    """The fused loops over the result of the product, cut into pieces with a remainder."""
    i, j, _ = sch.get_loops("C")
    return sch.split(sch.fuse(i, j), factors)


def consumer_follows(sch: Schedule) -> None:
    sch.reverse_compute_at("D", in_pieces(sch, [None, 8])[1])


def consumer_keeps_unit_loops(sch: Schedule) -> None:
    sch.reverse_compute_at("D", in_pieces(sch, [None, 8])[1], preserve_unit_loops=True)


def consumer_of_three_pieces(sch: Schedule) -> None:
    sch.reverse_compute_at("D", in_pieces(sch, [None, 3, 4])[2])


def copy_then_consumer(sch: Schedule) -> None:
    copy = sch.cache_write("C", 0, "local")
    home = in_pieces(sch, [None, 8])[1]
    sch.reverse_compute_at(copy, home)
    sch.reverse_compute_at("D", home)


def wide_pieces(sch: Schedule) -> None:
    """`% 17` simplifies what the pieces, which are longer than a row, contribute to it."""
    copy = sch.cache_write("C", 0, "local")
    sch.reverse_compute_at(copy, in_pieces(sch, [None, 32])[1])
    sch.reverse_compute_inline("D")


@pytest.mark.parametrize(
    "steps",
    [
        consumer_follows,
        consumer_keeps_unit_loops,
        consumer_of_three_pieces,
        copy_then_consumer,
        wide_pieces,
    ],
)
def test_consumers_follow_pieces_of_fused_loops(steps: Callable[[Schedule], None]) -> None:
    sch = Schedule(product, debug_mask="all")
    steps(sch)
    assert len(re.findall(r"T.where\(.* < 221\)", sch.mod.script())) >= 2
    assert_same_result(product, sch.mod)
    verify_trace_roundtrip(sch, product)


@pytest.mark.parametrize("padding", [[0, 3, 0, 5], [3, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]])
def test_padded_product(padding: list[int]) -> None:
    sch = Schedule(staged_product, debug_mask="all")
    sch.pad_einsum("R", padding)
    extents = [old + more for old, more in zip((1, 13, 17, 11), padding, strict=True)]
    loops = [sch.get_sref(loop).loop for loop in sch.get_loops("R")]
    assert [str(loop.extent) for loop in loops] == [str(extent) for extent in extents]
    assert_same_result(staged_product, sch.mod)
    verify_trace_roundtrip(sch, staged_product)


@pytest.mark.parametrize("func", [update, inner_update])
@pytest.mark.parametrize("tile", [1, 3, 4])
def test_cache_of_an_update(func: PrimFunc, tile: int) -> None:
    sch = Schedule(func, debug_mask="all")
    sch.split(sch.get_loops("A")[0], [None, tile])
    sch.cache_inplace("A", 0, "local")
    assert "for ax0, ax1 in T.grid(1, 1):" in sch.mod.script()
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(("factor", "expected"), [(2, [13, 1, 1]), (32, [13, 1, 1])])
def test_partitioned_tiles_of_a_prime(factor: int, expected: list[int]) -> None:
    sch = Schedule(product, debug_mask="all")
    loop = sch.get_loops("C")[0]
    tiles = sch.sample_partitioned_tile(loop, 3, 1, factor)
    assert [sch.get(tile) for tile in tiles] == expected
    sch.split(loop, tiles)
    assert_same_result(product, sch.mod)
    verify_trace_roundtrip(sch, product)

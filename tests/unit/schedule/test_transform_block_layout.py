"""`transform_block_layout`: other iterators for the same block."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilewright.arith import IndexMap
from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, assert_structural_equal
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip

Layout = Callable[..., Any]


@T.prim_func
def matmul(
    A: T.Buffer((16, 8), "float32"),
    B: T.Buffer((8, 12), "float32"),
    C: T.Buffer((16, 12), "float32"),
) -> None:
    for i, j, k in T.grid(16, 12, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def transformed(layout: Layout | IndexMap) -> Schedule:
    sch = Schedule(matmul, debug_mask="all")
    block = sch.get_block("C")
    sch.transform_block_layout(block, layout)
    verify_trace_roundtrip(sch, matmul)
    assert_same_result(matmul, sch.mod)
    assert len(sch.get_loops(block)) == len(sch.get(block).iter_vars)  # type: ignore[union-attr]
    return sch


def test_fused_iterators() -> None:
    @T.prim_func
    def expected(
        A: T.Buffer((16, 8), "float32"),
        B: T.Buffer((8, 12), "float32"),
        C: T.Buffer((16, 12), "float32"),
    ) -> None:
        for ax0, ax1 in T.grid(192, 8):
            with T.block("C"):
                v0, v1 = T.axis.remap("SR", [ax0, ax1])
                T.reads(A[v0 // 12, v1], B[v1, v0 % 12])
                T.writes(C[v0 // 12, v0 % 12])
                with T.init():
                    C[v0 // 12, v0 % 12] = T.float32(0)
                C[v0 // 12, v0 % 12] = C[v0 // 12, v0 % 12] + A[v0 // 12, v1] * B[v1, v0 % 12]

    sch = transformed(lambda i, j, k: (i * 12 + j, k))
    assert_structural_equal(sch.mod["main"], expected.with_attr("global_symbol", "matmul"))
    assert sch.trace is not None
    assert sch.trace.as_python()[1] == (
        "sch.transform_block_layout(block=b0, index_map=lambda i, j, k: (i * 12 + j, k,))"
    )


@pytest.mark.parametrize(
    "layout",
    [
        lambda i, j, k: (k, i, j),
        lambda i, j, k: (i // 4, j // 3, k, i % 4, j % 3),
        lambda i, j, k: (0, j * 16 + i, k // 2, k % 2),
        lambda i, j, k: (i, j, k),
    ],
)
def test_results_do_not_change(layout: Layout) -> None:
    transformed(layout)


def refused(layout: Layout | IndexMap, func: PrimFunc = matmul, prepare: Any = None) -> str:
    sch = Schedule(func, debug_mask="all", error_render_level="fast")
    block = sch.get_block("C")
    if prepare is not None:
        prepare(sch, block)
    before, steps = sch.mod, len(sch.trace.insts)  # type: ignore[union-attr]
    with pytest.raises(ScheduleError) as caught:
        sch.transform_block_layout(block, layout)
    assert sch.mod is before
    assert len(sch.trace.insts) == steps  # type: ignore[union-attr]
    return str(caught.value).removeprefix("ScheduleError: transform_block_layout: ")


def test_kinds_do_not_mix() -> None:
    assert refused(lambda i, j, k: (i, j * 8 + k)) == (
        "the new iterator `j * 8 + k` of block 'C' mixes iterators of different kinds; each new "
        "iterator must come from spatial ones only, or from reductions only"
    )


def test_maps_are_bijections() -> None:
    assert refused(lambda i, j, k: (i, k)).startswith(
        "the index map lambda i, j, k: (i, k,) is not a bijection on the iterators of block 'C': "
    )
    assert refused(lambda i, j, k: (i // 3, i % 3, j, k)).startswith(
        "the index map lambda i, j, k: (i // 3, i % 3, j, k,) is not a bijection on the iterators"
    )


def test_maps_take_every_iterator() -> None:
    assert refused(IndexMap.from_func(lambda i: (i,))) == (
        "block 'C' has 3 iterators, the index map takes 1"
    )


def test_bindings_are_plain() -> None:
    def split(sch: Schedule, block: Any) -> None:
        sch.split(sch.get_loops(block)[0], [4, 4])

    assert refused(lambda i, j, k: (k, i, j), prepare=split) == (
        "the iterators of block 'C' are not its loops, one each and without a condition; change "
        "the block's iterators before splitting and fusing its loops"
    )


def test_loops_run_over_whole_iterators() -> None:
    sch = Schedule(matmul, debug_mask="all")
    sch.loop_partition(sch.get_loops("C")[0], [1, None])
    with pytest.raises(ScheduleError) as error:
        sch.transform_block_layout("C_i0", lambda i, j, k: (j, i, k))
    assert str(error.value).splitlines()[0] == (
        "ScheduleError: transform_block_layout: loop 'i0' runs over 1 of the 16 values of iterator "
        "'vi'; the new loops would run over all of them"
    )


def test_ordered_iterators_stay() -> None:
    @T.prim_func
    def scan(C: T.Buffer((16,), "float32")) -> None:
        for i in range(16):
            with T.block("C"):
                vi = T.axis.scan(16, i)
                C[vi] = T.float32(1)

    assert refused(lambda i: (i // 4, i % 4), scan) == (
        "block 'C' has iterators that are neither spatial nor reductions; only those may run in "
        "another order"
    )


def test_nothing_else_is_in_the_loops() -> None:
    @T.prim_func
    def shared_loop(C: T.Buffer((16,), "float32"), D: T.Buffer((16,), "float32")) -> None:
        for i in range(16):
            with T.block("C"):
                vi = T.axis.spatial(16, i)
                C[vi] = T.float32(1)
            with T.block("D"):
                vi = T.axis.spatial(16, i)
                D[vi] = C[vi]

    assert refused(lambda i: (i // 4, i % 4), shared_loop) == (
        "loop 'i' holds more than block 'C'; the loops of the block are made anew, so nothing else "
        "may be in them"
    )

    @T.prim_func
    def no_loops(C: T.Buffer((16,), "float32")) -> None:
        with T.block("C"):
            C[0] = T.float32(1)

    assert refused(lambda: (), no_loops) == "block 'C' has no loops around it"

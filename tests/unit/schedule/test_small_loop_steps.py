# mypy: disable-error-code="valid-type, no-untyped-def"
"""`add_unit_loop` and `reorder_block_iter_var`."""

from __future__ import annotations

import pytest

from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, assert_structural_equal
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


def test_unit_loops_and_iterator_order(matmul: PrimFunc) -> None:
    @T.prim_func
    def main(
        A: T.Buffer((32, 24), "float32"),
        B: T.Buffer((24, 48), "float32"),
        C: T.Buffer((32, 48), "float32"),
    ):
        T.func_attr({"tir.noalias": T.bool(True)})
        for _u, i, j, k, _w in T.grid(1, 32, 48, 24, 1):
            with T.block("C"):
                vk, vi, vj = T.axis.remap("RSS", [k, i, j])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    sch = Schedule(matmul, debug_mask="all")
    block = sch.get_block("C")
    inner = sch.add_unit_loop(block)
    outer = sch.add_unit_loop(sch.get_loops(block)[0])
    sch.reorder_block_iter_var(block, [2, 0, 1])
    assert_structural_equal(sch.mod["main"], main)
    assert [sch.get(loop).extent.value for loop in (outer, inner)] == [1, 1]  # type: ignore[union-attr]
    sch.decompose_reduction(block, outer)
    assert_same_result(matmul, sch.mod)
    verify_trace_roundtrip(sch, matmul)


def test_refused(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, error_render_level="fast")
    with pytest.raises(ScheduleError) as caught:
        sch.add_unit_loop(sch.get_block("root"))
    assert str(caught.value) == (
        "ScheduleError: add_unit_loop: 'root' is the root block of its function; give a block or "
        "loop inside it"
    )
    for order in ([0, 1], [0, 1, 1], [0, 1, 3], [-1, 0, 1]):
        with pytest.raises(ScheduleError) as caught:
            sch.reorder_block_iter_var("C", order)
        assert str(caught.value) == (
            f"ScheduleError: reorder_block_iter_var: {order} does not name each of the 3 "
            "iterators of block 'C' once; give the numbers 0 to 2 in the new order"
        )
    with pytest.raises(ScheduleError, match="the root block 'root' has no iterators"):
        sch.reorder_block_iter_var("root", [])

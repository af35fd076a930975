# mypy: disable-error-code="valid-type, no-untyped-def"
"""Consumers that leave out the padding of what their producer computes in whole tiles."""

from __future__ import annotations

import pytest

from tilewright.errors import ScheduleError
from tilewright.ir import IRModule
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


@T.prim_func
def padded(A: T.Buffer((30, 40), "float32"), C: T.Buffer((30, 40), "float32")):
    B = T.alloc_buffer((2, 3, 16, 16), "float32")
    for i, j, k, l in T.grid(2, 3, 16, 16):
        with T.block("tiles"):
            vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
            B[vi, vj, vk, vl] = T.if_then_else(
                vi * 16 + vk < 30 and vj * 16 + vl < 40, A[vi * 16 + vk, vj * 16 + vl], 0.0
            )
    for i, j in T.grid(30, 40):
        with T.block("rows"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi // 16, vj // 16, vi % 16, vj % 16] + 1.0


@T.prim_func
def overlapping(A: T.Buffer((8, 16), "float32"), C: T.Buffer((30,), "float32")):
    B = T.alloc_buffer((8, 16), "float32")
    for i, j in T.grid(8, 16):
        with T.block("tiles"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for i in range(30):
        with T.block("rows"):
            vi = T.axis.spatial(30, i)
            C[vi] = B[vi // 4, vi % 16]


def test_padding_is_guarded() -> None:
    sch = Schedule(padded, debug_mask="all")
    sch.reverse_compute_inline("rows")
    tiles = sch.get_block("tiles")
    text = sch.mod.script()
    assert "T.where(i * 16 + k < 30 and j * 16 + l < 40)" in text
    assert "C[vi * 16 + vk, vj * 16 + vl]" in text or "C[vk + vi * 16, vl + vj * 16]" in text
    assert len(sch.get_loops(tiles)) == 4
    assert_same_result(IRModule({"main": padded}), sch.mod)
    verify_trace_roundtrip(sch, padded)


def test_tiles_that_overlap_are_still_refused() -> None:
    sch = Schedule(overlapping)
    with pytest.raises(ScheduleError, match="cannot be solved for its iterators"):
        sch.reverse_compute_inline("rows")

# mypy: disable-error-code="valid-type, no-untyped-def"
"""Older vocabulary: tile, compute_root, auto_inline_injective, pragma, double_buffer, pipelines."""

from __future__ import annotations

import re

import pytest

import tilewright as tw
from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc
from tilewright.schedule import Schedule, compose
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import (
    assert_same_arrays,
    assert_same_result,
    random_arguments,
    verify_trace_roundtrip,
)


@T.prim_func
def stages(A: T.Buffer((16, 12), "float32"), D: T.Buffer((16,), "float32")):
    T.func_attr({"tir.noalias": T.bool(True)})
    B = T.alloc_buffer((16, 12), "float32")
    C = T.alloc_buffer((16, 12), "float32")
    for i, j in T.grid(16, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(16, 12):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
    for i, k in T.grid(16, 12):
        with T.block("D"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                D[vi] = T.float32(0)
            D[vi] = D[vi] + C[vi, vk]


def check(sch: Schedule, func: PrimFunc) -> None:
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


def test_tile(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, debug_mask="all")
    i, j, _ = sch.get_loops("C")
    tiles = compose.tile(sch, i, j, 4, 5)
    assert [sch.get_sref(loop).name for loop in tiles] == ["i_0", "j_0", "i_1", "j_1"]
    assert "for i_0, j_0, i_1, j_1, k in T.grid(8, 10, 4, 5, 24):" in sch.mod.script()
    check(sch, matmul)


def test_auto_inline_injective() -> None:
    sch = Schedule(stages, debug_mask="all")
    assert compose.auto_inline_injective(sch) == ["B", "C"]
    assert [sch.get_sref(b).name for b in sch.get_child_blocks(sch.get_block("root"))] == ["D"]
    check(sch, stages)


def test_compute_root_undoes_compute_at() -> None:
    sch = Schedule(stages, debug_mask="all")
    loop = sch.get_loops("C")[0]
    sch.compute_at("B", loop)
    compose.compute_root(sch, "B")
    assert sch.mod.script().splitlines()[11:14] == [
        "        for ax0, ax1 in T.grid(16, 12):",
        '            with T.block("B"):',
        '                vi, vj = T.axis.remap("SS", [ax0, ax1])',
    ]
    check(sch, stages)
    assert sch.trace is not None
    assert sch.trace.as_python()[-1] == "sch.compute_root(block=b4)"
    compose.compute_root(sch, "B")  # already there
    assert len(sch.get_loops("B")) == 2


def test_compute_root_of_a_reduction() -> None:
    sch = Schedule(stages, debug_mask="all")
    sch.reverse_compute_at("D", sch.get_loops("C")[0])
    before = len(sch.get_loops("D"))
    assert before == 2
    sch.compute_at("B", sch.get_loops("C")[0])
    text = (
        "compute_root: 'C' are computed in the same loops as block 'D', which reads them; move "
        "them to the root first"
    )
    with pytest.raises(ScheduleError, match=re.escape(text)):
        compose.compute_root(sch, "D")
    check(sch, stages)


def test_compute_root_needs_a_stage() -> None:
    @T.prim_func
    def twice(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("first"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]
            with T.block("second"):
                vi = T.axis.spatial(8, i)
                B[vi] = B[vi] + T.float32(1)

    sch = Schedule(twice, error_render_level="fast")
    with pytest.raises(ScheduleError) as failure:
        compose.compute_root(sch, "second")
    assert str(failure.value) == (
        "ScheduleError: compute_root: block 'second' does not compute each of its outputs exactly "
        "once; only complete and reduction blocks have a place of their own"
    )


def test_hints() -> None:
    sch = Schedule(stages, debug_mask="all")
    loop = sch.get_loops("D")[0]
    compose.pragma(sch, loop, "auto_unroll_max_step", 16)
    compose.double_buffer(sch, sch.get_block("B"))
    compose.software_pipeline(sch, loop, [0, 1], [1, 0], async_stages=[0])
    assert sch.get(loop).annotations == {  # type: ignore[union-attr]
        "pragma_auto_unroll_max_step": 16,
        "software_pipeline_stage": [0, 1],
        "software_pipeline_order": [1, 0],
        "software_pipeline_async_stages": [0],
    }
    assert sch.get(sch.get_block("B")).annotations == {"double_buffer_scope": 0}  # type: ignore[union-attr]
    check(sch, stages)
    expected = random_arguments(stages)
    actual = [array.copy() for array in expected]
    tw.build(stages)(*expected)
    tw.build(sch.mod)(*actual)
    assert_same_arrays(stages, expected, actual)


def test_a_pipeline_that_makes_no_sense() -> None:
    sch = Schedule(stages)
    text = "stages [0, 1] and order [0, 0] do not describe the same statements"
    with pytest.raises(ScheduleError, match=re.escape(text)):
        compose.software_pipeline(sch, sch.get_loops("D")[0], [0, 1], [0, 0])

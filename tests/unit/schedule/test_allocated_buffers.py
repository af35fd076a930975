# mypy: disable-error-code="valid-type, no-untyped-def"
"""`set_scope`, `storage_align` and `unsafe_set_dtype`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, assert_structural_equal
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


@T.prim_func
def scoped(A: T.Buffer((16, 12), "float32"), C: T.Buffer((16, 12), "float32")):
    T.func_attr({"tir.noalias": T.bool(True)})
    B = T.alloc_buffer((16, 12), "float32", scope="shared")
    for i, j in T.grid(16, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(16, 12):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)


@T.prim_func
def halved(A: T.Buffer((16, 12), "float32"), C: T.Buffer((16, 12), "float32")):
    T.func_attr({"tir.noalias": T.bool(True)})
    B = T.alloc_buffer((16, 12), "float16")
    for i, j in T.grid(16, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.Cast("float16", A[vi, vj] * T.float32(2))
    for i, j in T.grid(16, 12):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.Cast("float32", B[vi, vj]) + T.float32(1)


@T.prim_func
def matched(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((8, 8), "float32")
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i in range(2):
        with T.block("C"):
            vi = T.axis.spatial(2, i)
            T.reads(B[vi * 4 : vi * 4 + 4, 0:8])
            T.writes(C[vi * 4 : vi * 4 + 4, 0:8])
            part = T.match_buffer(
                B[vi * 4 : vi * 4 + 4, 0:8], (4, 8), strides=[8, 1], offset_factor=1
            )
            for j, k in T.grid(4, 8):
                C[vi * 4 + j, k] = part[j, k]


def _refused(func: PrimFunc, primitive: str, block: str, *arguments: object) -> str:
    sch = Schedule(func, debug_mask="all", error_render_level="fast")
    before = sch.mod
    with pytest.raises(ScheduleError) as caught:
        getattr(sch, primitive)(block, *arguments)
    assert sch.mod is before
    return str(caught.value)


def test_scope_before_and_after(chain: PrimFunc) -> None:
    sch = Schedule(chain, debug_mask="all")
    consumer = sch.get_block("C")
    sch.set_scope("B", "B", "shared")
    assert_structural_equal(sch.mod["main"], scoped.with_attr("global_symbol", "main"))
    assert "B_shared = T.alloc_buffer" in str(sch.mod)
    assert len(sch.get_loops(consumer)) == 2
    sch.set_scope("B", 0, "shared")  # nothing to do
    assert_same_result(chain, sch.mod)
    verify_trace_roundtrip(sch, chain)


@pytest.mark.parametrize("scope", ["local", "shared"])
def test_matched_buffers_move_along(scope: str) -> None:
    sch = Schedule(matched, debug_mask="all")
    sch.set_scope("B", 0, scope)
    assert f"part_{scope} = T.match_buffer(B_{scope}[" in str(sch.mod)
    assert_same_result(matched, sch.mod)
    verify_trace_roundtrip(sch, matched)


def test_dtype_before_and_after(chain: PrimFunc) -> None:
    sch = Schedule(chain, debug_mask="all")
    sch.unsafe_set_dtype("B", 0, "float16")
    assert_structural_equal(sch.mod["main"], halved.with_attr("global_symbol", "main"))
    verify_trace_roundtrip(sch, chain)
    same = Schedule(chain, debug_mask="all")
    same.unsafe_set_dtype("B", 0, "float32")
    assert same.mod["main"] is chain


def test_a_cast_to_a_type_that_holds_all_numbers_goes() -> None:
    @T.prim_func
    def main(A: T.Buffer((16,), "float16"), C: T.Buffer((16,), "float32")):
        B = T.alloc_buffer((16,), "float16")
        for i in range(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                B[vi] = A[vi]
        for i in range(16):
            with T.block("C"):
                vi = T.axis.spatial(16, i)
                C[vi] = T.Cast("float32", B[vi]) * T.float32(3)

    for dtype, read in (
        ("float32", "B[vi]"),
        ("int32", 'T.Cast("float32", T.Cast("float16", B[vi]))'),
    ):
        sch = Schedule(main, debug_mask="all")
        sch.unsafe_set_dtype("B", 0, dtype)
        assert f'B[vi] = T.Cast("{dtype}", A[vi])' in str(sch.mod)
        assert f"C[vi] = {read} * T.float32(3)" in str(sch.mod)


def test_dtype_of_matched_buffers() -> None:
    sch = Schedule(matched, debug_mask="all")
    sch.unsafe_set_dtype("B", 0, "float64")
    assert 'part = T.match_buffer(B[vi * 4:vi * 4 + 4, 0:8], (4, 8), "float64"' in str(sch.mod)
    assert_same_result(matched, sch.mod)


def test_alignment_is_kept_in_order_and_replaced(chain: PrimFunc) -> None:
    sch = Schedule(chain, debug_mask="all")
    block: Any = sch.get_block("B")
    sch.storage_align(block, 0, axis=-2, factor=32, offset=8)
    sch.storage_align(block, 0, axis=1, factor=16, offset=4)
    sch.storage_align(block, 0, axis=0, factor=64, offset=1)
    annotations = sch.get(block).annotations  # type: ignore[union-attr]
    assert annotations == {"buffer_dim_align": [[0, 0, 64, 1], [0, 1, 16, 4]]}
    verify_trace_roundtrip(sch, chain)


def test_alignment_of_what_is_built(chain: PrimFunc) -> None:
    sch = Schedule(chain, debug_mask="all")
    sch.storage_align("B", 0, axis=0, factor=16, offset=5)
    a = np.random.default_rng(0).random((16, 12), dtype=np.float32)
    c = np.zeros_like(a)
    tw.build(sch.mod)(a, c)
    np.testing.assert_allclose(c, a * 2 + 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("primitive", "arguments"),
    [("set_scope", ("shared",)), ("storage_align", (0, 4, 0)), ("unsafe_set_dtype", ("int8",))],
)
def test_parameters_stay(chain: PrimFunc, primitive: str, arguments: tuple[object, ...]) -> None:
    assert _refused(chain, primitive, "C", 0, *arguments) == (
        f"ScheduleError: {primitive}: buffer 'C' is not allocated by a block: it is a parameter or "
        "a matched buffer; only buffers that a block allocates can be changed so; cache it into "
        "one first"
    )


def test_storage_align_refuses(chain: PrimFunc) -> None:
    assert _refused(chain, "storage_align", "B", 0, 2, 4, 0) == (
        "ScheduleError: storage_align: buffer 'B' has 2 dimensions, axis 2 is not among them; use "
        "a number from -2 to 2 - 1"
    )
    assert _refused(chain, "storage_align", "B", 0, 0, 0, 0) == (
        "ScheduleError: storage_align: the factor 0 of the alignment is not positive"
    )
    sch = Schedule(chain, debug_mask="all", error_render_level="fast")
    block = sch.get_block("B")
    sch.annotate(block, "buffer_dim_align", 3)
    with pytest.raises(ScheduleError) as caught:
        sch.storage_align(block, 0, 0, 4, 0)
    assert str(caught.value) == (
        "ScheduleError: storage_align: the annotation 'buffer_dim_align' of block 'B' is 3; it "
        "must be a list of [buffer_index, axis, factor, offset]"
    )


@pytest.mark.parametrize("dtype", ["float17", "handle", "float32x4"])
def test_unsafe_set_dtype_refuses(chain: PrimFunc, dtype: str) -> None:
    assert _refused(chain, "unsafe_set_dtype", "B", 0, dtype) == (
        f"ScheduleError: unsafe_set_dtype: {dtype!r} is not a type of buffer elements; use a type "
        'such as "float16" or "int8"'
    )


def test_alignment_of_a_copy_that_nobody_reads(chain: PrimFunc) -> None:
    sch = Schedule(chain, debug_mask="all")
    copy = sch.cache_write("B", 0, "local", consumer_blocks=["C"])
    sch.storage_align(copy, 0, axis=0, factor=16, offset=5)
    a = np.random.default_rng(0).random((16, 12), dtype=np.float32)
    c = np.zeros_like(a)
    tw.build(sch.mod)(a, c)
    np.testing.assert_allclose(c, a * 2 + 1, rtol=1e-6)

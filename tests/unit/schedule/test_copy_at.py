# mypy: disable-error-code="valid-type, no-untyped-def"
"""`read_at` and `write_at`: copies run as they are, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


@T.prim_func
def tiles(
    A: T.Buffer((16, 16), "float32"),
    B: T.Buffer((16, 16), "float32"),
    C: T.Buffer((16, 16), "float32"),
):
    for i_0, j_0, k_0, i_1, j_1, k_1 in T.grid(2, 2, 2, 8, 8, 8):
        with T.block("C"):
            vi = T.axis.spatial(16, i_0 * 8 + i_1)
            vj = T.axis.spatial(16, j_0 * 8 + j_1)
            vk = T.axis.reduce(16, k_0 * 8 + k_1)
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def two_stages(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    B = T.alloc_buffer((16,), "float32")
    for i_0 in range(4):
        for i_1 in range(4):
            with T.block("B"):
                vi = T.axis.spatial(16, i_0 * 4 + i_1)
                B[vi] = A[vi] * 2.0
        for i_1 in range(4):
            with T.block("C"):
                vi = T.axis.spatial(16, i_0 * 4 + i_1)
                C[vi] = B[vi] + 1.0


@T.prim_func
def guarded(A: T.Buffer((13,), "float32"), B: T.Buffer((13,), "float32")):
    for i_0, i_1 in T.grid(4, 4):
        with T.block("B"):
            vi = T.axis.spatial(13, i_0 * 4 + i_1)
            T.where(i_0 * 4 + i_1 < 13)
            B[vi] = A[vi] + 1.0


@T.prim_func
def in_place(A: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("A"):
            vi = T.axis.spatial(16, i)
            A[vi] = A[vi] + 1.0


@T.prim_func
def every_other(A: T.Buffer((8,), "float32"), B: T.Buffer((16,), "float32")):
    for i_0, i_1 in T.grid(2, 4):
        with T.block("B"):
            vi = T.axis.spatial(8, i_0 * 4 + i_1)
            B[vi * 2] = A[vi]


def _refused(func: PrimFunc, primitive: str, block: str, position: int) -> str:
    sch = Schedule(func, debug_mask="all", error_render_level="fast")
    target = sch.get_block(block)
    loop = sch.get_loops(target)[position]
    before = sch.mod
    with pytest.raises(ScheduleError) as caught:
        getattr(sch, primitive)(loop, target, 0, "local")
    assert sch.mod is before
    return str(caught.value)


@pytest.mark.parametrize("position", range(6))
def test_copies_run_at_every_loop(position: int) -> None:
    sch = Schedule(tiles, debug_mask="all")
    block = sch.get_block("C")
    loop = sch.get_loops(block)[position]
    copy = sch.read_at(loop, block, 0, "local")
    sch.read_at(loop, block, 1, "shared")
    sch.write_at(loop, block, 0, "local")
    assert "auto_copy" in str(sch.get(copy))
    verify_trace_roundtrip(sch, tiles)
    a, b = np.random.default_rng(0).random((2, 16, 16), dtype=np.float32)
    c = np.zeros_like(a)
    tw.build(sch.mod)(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@pytest.mark.parametrize(
    ("scope", "extents"),
    [
        ("shared", ["16, 8", "8, 16"]),
        ("shared.dyn", ["16, 8", "8, 16"]),
        ("warp", ["8, 8", "8, 16"]),
        ("local", ["8, 8", "8, 8"]),
        ("global", ["8, 8", "8, 8"]),
    ],
)
def test_threads_fill_what_they_share_together(scope: str, extents: list[str]) -> None:
    sch = Schedule(tiles, debug_mask="all")
    i, j, k = sch.get_loops("C")[:3]
    sch.bind(i, "threadIdx.y")
    sch.bind(j, "threadIdx.x")
    for number, extent in enumerate(extents):
        sch.read_at(k, "C", number, scope)
        assert f"for ax0, ax1 in T.grid({extent}):" in sch.mod.script()
    sch.write_at(j, "C", 0, scope)
    assert_same_result(tiles, sch.mod)
    verify_trace_roundtrip(sch, tiles)


def test_blocks_of_threads_share_nothing() -> None:
    sch = Schedule(tiles, debug_mask="all")
    i, j, k = sch.get_loops("C")[:3]
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "vthread.x")
    sch.read_at(k, "C", 0, "shared")
    sch.read_at(k, "C", 1, "shared")
    assert "T.reads(A[v0 * 8:v0 * 8 + 8, v1 * 8:v1 * 8 + 8])" in sch.mod.script()
    assert "T.reads(B[v0 * 8:v0 * 8 + 8, 0:16])" in sch.mod.script()
    assert_same_result(tiles, sch.mod)


def test_copies_after_decomposition() -> None:
    sch = Schedule(tiles, debug_mask="all")
    block = sch.get_block("C")
    loops = sch.get_loops(block)
    sch.decompose_reduction(block, loops[2])
    sch.write_at(loops[1], block, 0, "local")
    assert_same_result(tiles, sch.mod)
    verify_trace_roundtrip(sch, tiles)


def test_copies_stay_inside_the_buffer() -> None:
    sch = Schedule(guarded, debug_mask="all")
    block = sch.get_block("B")
    loop = sch.get_loops(block)[0]
    sch.read_at(loop, block, 0, "local")
    sch.write_at(loop, block, 0, "local")
    assert_same_result(guarded, sch.mod)
    verify_trace_roundtrip(sch, guarded)


def test_in_the_trace() -> None:
    sch = Schedule(two_stages, debug_mask="all")
    block = sch.get_block("C")
    sch.read_at(sch.get_loops(block)[0], block, 0, "local")
    assert_same_result(two_stages, sch.mod)
    assert sch.trace is not None
    assert sch.trace.as_json()[0][-1] == ["ReadAt", ["l1", "b0"], [0, "local"], ["b3"]]
    assert sch.trace.as_python()[-1] == (
        'b3 = sch.read_at(loop=l1, block=b0, read_buffer_index=0, storage_scope="local")'
    )


def test_refuses() -> None:
    assert _refused(in_place, "read_at", "A", 0) == (
        "ScheduleError: read_at: under loop 'i' block 'A' writes 'A' after its first read there; "
        "the copy is made before the first read; use a loop further inside"
    )
    assert _refused(two_stages, "write_at", "B", 0) == (
        "ScheduleError: write_at: under loop 'i_0' block 'C' reads 'B' after its last write there; "
        "the copy is made after the last write; use a loop further inside"
    )
    assert _refused(in_place, "write_at", "A", 0) == (
        "ScheduleError: write_at: under loop 'i' block 'A' may read values of 'A' from before the "
        "loop's body, which are not in the cache; choose a loop whose body writes everything first"
    )
    assert _refused(every_other, "write_at", "B", 0) == (
        "ScheduleError: write_at: the blocks under loop 'i_0' may leave parts of 'B' unwritten; "
        "the region that is copied back must be written completely in each iteration"
    )


def test_the_loop_must_be_around_the_block() -> None:
    sch = Schedule(two_stages, debug_mask="all", error_render_level="fast")
    loop = sch.get_loops("C")[1]
    with pytest.raises(ScheduleError) as caught:
        sch.read_at(loop, "B", 0, "local")
    assert str(caught.value) == (
        "ScheduleError: read_at: loop 'i_1' is not around block 'B'; use one of the loops that "
        "get_loops gives for it"
    )

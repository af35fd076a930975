"""`cache_read` and `cache_write`: what they refuse, what stays valid, and what traces say."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, assert_structural_equal
from tilewright.schedule import Schedule
from tilewright.script import from_source, tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


@T.prim_func
def matmul(
    A: T.Buffer((16, 16), "float32"),
    B: T.Buffer((16, 16), "float32"),
    C: T.Buffer((16, 16), "float32"),
) -> None:
    for i, j, k in T.grid(16, 16, 16):
        with T.block("update"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def old_and_new(
    A: T.Buffer((16,), "float32"),
    B: T.Buffer((16,), "float32"),
    C: T.Buffer((16,), "float32"),
    D: T.Buffer((16,), "float32"),
) -> None:
    for i in range(16):
        with T.block("before"):
            vi = T.axis.spatial(16, i)
            D[vi] = B[vi]
    for i in range(16):
        with T.block("write"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] * 2.0
    for i in range(16):
        with T.block("after"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi] + 1.0


@T.prim_func
def two_writers(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")) -> None:
    for i in range(16):
        with T.block("zero"):
            vi = T.axis.spatial(16, i)
            B[vi] = 0.0
    for i in range(16):
        with T.block("add"):
            vi = T.axis.spatial(16, i)
            B[vi] = B[vi] + A[vi]


@T.prim_func
def every_other(A: T.Buffer((16,), "float32"), B: T.Buffer((32,), "float32")) -> None:
    for i in range(16):
        with T.block("spread"):
            vi = T.axis.spatial(16, i)
            B[vi * 2] = A[vi]


@T.prim_func
def in_place(A: T.Buffer((16,), "float32")) -> None:
    for i in range(16):
        with T.block("double"):
            vi = T.axis.spatial(16, i)
            A[vi] = A[vi] * 2.0


@T.prim_func
def conditional(
    A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32"), n: T.int32
) -> None:
    B = T.alloc_buffer((16, 16), "float32")
    for i in range(16):
        if i < n:
            for j in range(16):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * 2.0
            for j in range(16):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + 1.0


@T.prim_func
def matched(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")) -> None:
    for i in range(4):
        with T.block("copy"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi * 4 : vi * 4 + 4, 0:16])
            T.writes(C[vi * 4 : vi * 4 + 4, 0:16])
            part = T.match_buffer(
                A[vi * 4 : vi * 4 + 4, 0:16], (4, 16), strides=[16, 1], offset_factor=1
            )
            for j, k in T.grid(4, 16):
                C[vi * 4 + j, k] = part[j, k]


def _refused(func: PrimFunc, primitive: str, block: str, *arguments: object) -> str:
    sch = Schedule(func, debug_mask="all", error_render_level="fast")
    before = sch.mod
    rv = sch.get_block(block)
    assert sch.trace is not None
    steps = len(sch.trace.insts)
    with pytest.raises(ScheduleError) as caught:
        getattr(sch, primitive)(rv, *arguments)
    assert sch.mod is before
    assert len(sch.trace.insts) == steps
    return str(caught.value)


@pytest.mark.parametrize("primitive", ["cache_read", "cache_write"])
def test_unknown_scope(primitive: str) -> None:
    assert _refused(matmul, primitive, "update", 0, "attic") == (
        f"ScheduleError: {primitive}: 'attic' is not a storage scope; use one of global, shared, "
        "local, warp, texture, wmma.matrix_a, wmma.matrix_b, wmma.accumulator, m16n8k8.matrixA, "
        "m16n8k8.matrixB, m16n8k8.matrixC, wgmma.accumulator, amx.tmm, metal.simdgroup, with a "
        "tag such as 'shared.dyn' where needed"
    )


@pytest.mark.parametrize("scope", ["global2", "shared.dyn", "texture:nhwc", "texture-weight"])
def test_memories_of_one_kind_are_told_apart(scope: str) -> None:
    sch = Schedule(matmul, debug_mask="all")
    sch.cache_read("update", 0, scope)
    sch.cache_write("update", 0, scope)
    assert sch.mod.script().count(f'scope="{scope}"') == 2
    assert_same_result(matmul, sch.mod)


def test_buffer_number_out_of_range() -> None:
    assert _refused(matmul, "cache_read", "update", 2, "local") == (
        "ScheduleError: cache_read: block 'update' reads 2 buffers, none has number 2; numbers "
        "start at 0, in the order of the block's reads"
    )
    assert _refused(matmul, "cache_write", "update", -1, "local") == (
        "ScheduleError: cache_write: block 'update' writes 1 buffers, none has number -1; numbers "
        "start at 0, in the order of the block's writes"
    )


@pytest.mark.parametrize("primitive", ["cache_read", "cache_write"])
def test_several_writers(primitive: str) -> None:
    assert _refused(two_writers, primitive, "add", 0, "local") == (
        f"ScheduleError: {primitive}: buffer 'B' is written by 2 blocks of this scope: 'zero', "
        "'add'; cache it before its computation is split into several blocks"
    )


def test_what_is_read_before_it_is_written() -> None:
    sch = Schedule(old_and_new, debug_mask="all")
    after = sch.get(sch.get_block("after"))
    sch.cache_read("before", 0, "local")
    assert sch.mod.script().count("B_local[") == 4  # the copy, and the block that reads early
    assert sch.get(sch.get_block("after")) is after
    sch.cache_read("after", 0, "local")
    assert_same_result(old_and_new, sch.mod)
    verify_trace_roundtrip(sch, old_and_new)


@T.prim_func
def handed_on(A: T.Buffer((16,), "float32"), B: T.Buffer((17,), "float32")) -> None:
    for i in range(16):
        with T.block("read"):
            vi = T.axis.spatial(16, i)
            A[vi] = B[vi]
        with T.block("write"):
            vi = T.axis.spatial(16, i)
            B[vi + 1] = A[vi] * 2.0


def test_a_read_of_what_the_last_iteration_wrote_cannot_be_cached() -> None:
    assert _refused(handed_on, "cache_read", "read", 0, "local") == (
        "ScheduleError: cache_read: no block that reads 'B' after it was written would read "
        "the cache; give as block or consumer_blocks those of this scope that read it after that"
    )


@T.prim_func
def changed_by_a_call(data: T.Buffer((64,), "int32")) -> None:
    for _ in range(1):
        with T.block("call"):
            T.reads(data[0:64])
            T.writes(data[0:64])
            T.evaluate(T.call_extern("int32", "change", data.data))


@T.prim_func
def called_on_copies(data: T.Buffer((64,), "int32")) -> None:
    data_local = T.alloc_buffer((64,), "int32", scope="local")
    data_global = T.alloc_buffer((64,), "int32")
    data_global_1 = T.alloc_buffer((64,), "int32")
    for ax0 in range(64):
        with T.block("data_global"):
            v0 = T.axis.spatial(64, ax0)
            data_global[v0] = data[v0]
    for _ in range(1):
        for ax0 in range(64):
            with T.block("data_local"):
                v0 = T.axis.spatial(64, ax0)
                data_local[v0] = data_global[v0]
        with T.block("call"):
            T.reads(data_local[0:64])
            T.writes(data_local[0:64])
            T.evaluate(T.call_extern("int32", "change", data_local.data))
        for ax0 in range(64):
            with T.block("data_local"):
                v0 = T.axis.spatial(64, ax0)
                data_global_1[v0] = data_local[v0]
    for ax0 in range(64):
        with T.block("data_global"):
            v0 = T.axis.spatial(64, ax0)
            data[v0] = data_global_1[v0]


def test_copies_around_a_call_that_changes_its_argument() -> None:
    sch = Schedule(changed_by_a_call, debug_mask="all")
    fill, store = sch.cache_inplace("call", 0, "local")
    sch.cache_read(fill, 0, "global", [fill])
    sch.cache_write(store, 0, "global")
    assert_structural_equal(sch.mod["main"].body, called_on_copies.body, map_free_vars=True)
    verify_trace_roundtrip(sch, changed_by_a_call)


@T.prim_func
def written_then_read(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")) -> None:
    B = T.alloc_buffer((16, 16))
    for i in range(4):
        with T.block("scope"):
            vi = T.axis.spatial(4, i)
            for a, b in T.grid(4, 16):
                with T.block("B"):
                    va, vb = T.axis.remap("SS", [a, b])
                    B[vi * 4 + va, vb] = A[vi * 4 + va, vb] * 2.0
            for a, b in T.grid(4, 16):
                with T.block("C"):
                    va, vb = T.axis.remap("SS", [a, b])
                    C[vi * 4 + va, vb] = B[vi * 4 + va, 15 - vb] + 1.0


def test_a_scope_that_reads_what_it_has_written() -> None:
    sch = Schedule(written_then_read, debug_mask="all")
    sch.cache_write("scope", 0, "shared")
    assert "T.reads(B_shared[vi * 4 + va, 15 - vb])" in sch.mod.script()
    assert_same_result(written_then_read, sch.mod)
    verify_trace_roundtrip(sch, written_then_read)


def test_a_scope_that_reads_more_than_it_has_written() -> None:
    source = written_then_read.script().replace("B[vi * 4 + va, 15 - vb]", "B[vi + va, 15 - vb]")
    func = from_source(source.replace("T.reads(A", "# T.reads(A"))
    assert isinstance(func, PrimFunc)
    assert _refused(func, "cache_write", "scope", 0, "shared") == (
        "ScheduleError: cache_write: block 'scope' reads buffer 'B', which it writes, before it "
        "is in the cache; use cache_inplace, which also fills the cache"
    )


def test_a_block_that_updates_its_buffer_in_place() -> None:
    assert _refused(in_place, "cache_write", "double", 0, "local") == (
        "ScheduleError: cache_write: block 'double' reads buffer 'A', which it writes, before it "
        "is in the cache; use cache_inplace, which also fills the cache"
    )


def test_what_a_block_leaves_alone_is_not_overwritten() -> None:
    assert _refused(every_other, "cache_write", "spread", 0, "local") == (
        "ScheduleError: cache_write: block 'spread' may leave parts of 'B' unwritten that would be "
        "copied back; cache blocks that write all of a region"
    )


def test_matched_buffers_keep_their_scope() -> None:
    assert _refused(matched, "cache_read", "copy", 0, "shared") == (
        "ScheduleError: cache_read: block 'copy' matches buffer 'part' of scope 'global' to a part "
        "of 'A', which would move to scope 'shared'; declare the matched buffer with the scope of "
        "the cache"
    )
    sch = Schedule(matched, debug_mask="all", error_render_level="fast")
    outer = sch.blockize(sch.get_loops("copy")[0])
    with pytest.raises(ScheduleError) as caught:
        sch.cache_read(outer, 0, "shared")
    assert "block 'copy' matches buffer 'part' of scope 'global'" in str(caught.value)
    sch = Schedule(matched, debug_mask="all")
    sch.cache_read("copy", 0, "global")
    assert_same_result(matched, sch.mod)
    verify_trace_roundtrip(sch, matched)


@pytest.mark.parametrize("primitive", ["cache_read", "cache_write"])
def test_the_copy_stays_under_the_condition_of_its_blocks(primitive: str) -> None:
    sch = Schedule(conditional, debug_mask="all")
    block = "C" if primitive == "cache_read" else "B"
    getattr(sch, primitive)(block, 0, "local")
    assert_same_result(conditional, sch.mod)
    verify_trace_roundtrip(sch, conditional)
    lines = [line.strip() for line in str(sch.mod["main"]).splitlines()]
    blocks = [line for line in lines if line.startswith(("if", "with"))]
    assert blocks == [
        "if i < n:",
        'with T.block("B"):',
        'with T.block("B_local"):',
        'with T.block("C"):',
    ]


def test_handles_stay_valid() -> None:
    sch = Schedule(matmul, debug_mask="all")
    update = sch.get_block("update")
    i, j, k = sch.get_loops(update)
    write = sch.cache_write(update, 0, "global")
    read = sch.cache_read(update, 0, "local")
    sch.split(i, [4, 4])
    sch.fuse(*sch.get_loops(write))
    sch.reorder(k, j)
    assert len(sch.get_loops(read)) == 2
    assert_same_result(matmul, sch.mod)
    verify_trace_roundtrip(sch, matmul)


def test_buffers_by_name_and_listed_consumers_in_the_trace() -> None:
    sch = Schedule(old_and_new, debug_mask="all")
    sch.cache_write("write", "B", "shared.dyn", consumer_blocks=["after"])
    assert_same_result(old_and_new, sch.mod)
    verify_trace_roundtrip(sch, old_and_new)
    assert sch.trace is not None
    assert sch.trace.as_python()[-1] == (
        'b2 = sch.cache_write(block=b0, write_buffer_index=0, storage_scope="shared.dyn", '
        "consumer_blocks=[b1])"
    )
    assert sch.trace.as_json()[0][-1] == ["CacheWrite", ["b0", ["b1"]], [0, "shared.dyn"], ["b2"]]


@T.prim_func
def rows(a: T.handle, b: T.handle, n: T.int32) -> None:
    A = T.match_buffer(a, (n, 16), "float32")
    B = T.match_buffer(b, (n, 16), "float32")
    for i, j in T.grid(n, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1.0


@pytest.mark.parametrize("scope", ["global", "local"])
def test_a_cache_of_unknown_size_is_built(scope: str) -> None:
    sch = Schedule(rows, debug_mask="all")
    sch.cache_read("B", 0, scope)
    sch.cache_write("B", 0, scope)
    verify_trace_roundtrip(sch, rows)
    a = np.random.default_rng(0).random((7, 16), dtype=np.float32)
    b = np.zeros_like(a)
    tw.build(sch.mod)(a, b, 7)
    np.testing.assert_allclose(b, a + 1, rtol=1e-6)


@T.prim_func
def padding_in_rows(A: T.Buffer((6, 6), "float32"), B: T.Buffer((8, 8), "float32")) -> None:
    for i in range(8):
        with T.block("row"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi - 1, -1:7])
            T.writes(B[vi, 0:8])
            for j in range(8):
                with T.block("pad"):
                    vj = T.axis.spatial(8, j)
                    T.reads(A[vi - 1, vj - 1])
                    T.writes(B[vi, vj])
                    B[vi, vj] = T.if_then_else(
                        vi >= 1 and vi < 7 and vj >= 1 and vj < 7, A[vi - 1, vj - 1], T.float32(0)
                    )


def test_only_what_lies_in_the_buffer_is_copied() -> None:
    sch = Schedule(padding_in_rows, debug_mask="all")
    sch.cache_read("pad", 0, "local")
    assert_same_result(padding_in_rows, sch.mod)
    verify_trace_roundtrip(sch, padding_in_rows)

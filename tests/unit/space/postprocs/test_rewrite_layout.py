# mypy: disable-error-code="valid-type, no-untyped-def"
"""`RewriteLayout`: weights are stored in the order in which they are read."""

from __future__ import annotations

from tilewright.ir import IntImm, IRModule, PrimFunc, assert_structural_equal
from tilewright.ir.annotation_keys import LAYOUT_REWRITE_PREPROC
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.space.postprocs import RewriteLayout
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


@T.prim_func(private=True)
def matmul(
    A: T.Buffer((16, 16), "float32"),
    B: T.Buffer((16, 16), "float32"),
    C: T.Buffer((16, 16), "float32"),
):
    T.func_attr({"layout_free_buffers": [1]})
    for i0, j, k0, i1, k1 in T.grid(4, 16, 4, 4, 4):
        with T.block("matmul"):
            vi = T.axis.spatial(16, i0 * 4 + i1)
            vj = T.axis.spatial(16, j)
            vk = T.axis.reduce(16, k0 * 4 + k1)
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def rewritten(func: PrimFunc) -> Schedule:
    module = IRModule({"main": func})
    sch = Schedule(module, debug_mask="all")
    sch.enter_postproc()
    assert RewriteLayout().apply(sch) is True
    verify_trace_roundtrip(sch, module)
    assert_same_result(module, sch.mod)
    return sch


def test_weight_follows_the_loops() -> None:
    @T.prim_func(private=True)
    def expected(
        A: T.Buffer((16, 16), "float32"),
        B: T.Buffer((16, 16), "float32"),
        C: T.Buffer((16, 16), "float32"),
    ):
        T.func_attr({"layout_free_buffers": [1]})
        B_global = T.alloc_buffer((16, 4, 4))
        for ax0, ax1 in T.grid(16, 16):
            with T.block("B_global"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                T.reads(B[v0, v1])
                T.writes(B_global[v1, v0 // 4, v0 % 4])
                T.block_attr({"meta_schedule.layout_rewrite_preproc": T.bool(True)})
                B_global[v1, v0 // 4, v0 % 4] = B[v0, v1]
        for i0, j, k0, i1, k1 in T.grid(4, 16, 4, 4, 4):
            with T.block("matmul"):
                vi = T.axis.spatial(16, i0 * 4 + i1)
                vj = T.axis.spatial(16, j)
                vk = T.axis.reduce(16, k0 * 4 + k1)
                T.reads(A[vi, vk], B_global[vj, vk // 4, vk % 4])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B_global[vj, vk // 4, vk % 4]

    assert_structural_equal(rewritten(matmul).mod["main"], expected)


def test_functions_without_free_buffers_stay() -> None:
    @T.prim_func
    def plain(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
        for i, j in T.grid(8, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vj, vi] = A[vi, vj]

    sch = Schedule(IRModule({"main": plain}))
    before = sch.mod
    assert RewriteLayout().apply(sch) is True
    assert sch.mod is before


def test_buffer_noted_on_a_block() -> None:
    @T.prim_func
    def noted(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
        for j, i in T.grid(8, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.block_attr({"layout_free_placeholders": [A]})
                C[vi, vj] = A[vi, vj] + T.float32(1)

    sch = rewritten(noted)
    assert shape_of(sch, "C") == (8, 8)
    copy = sch.get_sref(sch.get_block("A_global")).block
    assert copy.annotations == {LAYOUT_REWRITE_PREPROC: True}


def shape_of(sch: Schedule, block: str) -> tuple[int, ...]:
    """The shape of the first buffer that a block reads."""
    region = sch.get_sref(sch.get_block(block)).block.reads[0]
    return tuple(extent.value for extent in region.buffer.shape if isinstance(extent, IntImm))


def test_copies_in_between_follow() -> None:
    @T.prim_func
    def cached(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        T.func_attr({"layout_free_buffers": [0]})
        A_local = T.alloc_buffer((16, 16))
        for i, j in T.grid(16, 16):
            with T.block("A_local"):
                v0, v1 = T.axis.remap("SS", [i, j])
                A_local[v0, v1] = A[v0, v1]
        for i0, j0, i1, j1 in T.grid(4, 4, 4, 4):
            with T.block("C"):
                vi = T.axis.spatial(16, i0 * 4 + i1)
                vj = T.axis.spatial(16, j0 * 4 + j1)
                C[vi, vj] = A_local[vi, vj] + T.float32(1)

    sch = rewritten(cached)
    assert shape_of(sch, "C") == (4, 4, 4, 4)  # the copy
    assert shape_of(sch, "A_local") == (4, 4, 4, 4)  # what the copy reads, a copy of A itself
    assert shape_of(sch, "A_global") == (16, 16)
    annotations = sch.get_sref(sch.get_block("A_global")).block.annotations
    assert annotations == {LAYOUT_REWRITE_PREPROC: True}


def test_reads_without_a_layout_are_left_alone() -> None:
    @T.prim_func
    def gather(
        A: T.Buffer((16,), "float32"), I: T.Buffer((16,), "int32"), C: T.Buffer((16,), "float32")
    ):
        T.func_attr({"layout_free_buffers": [0]})
        for i in range(16):
            with T.block("C"):
                vi = T.axis.spatial(16, i)
                T.reads(A[0:16], I[vi])
                T.writes(C[vi])
                C[vi] = A[I[vi]]

    sch = Schedule(IRModule({"main": gather}))
    before = sch.mod
    assert RewriteLayout().apply(sch) is True
    assert sch.mod is before


def test_buffer_that_nobody_reads() -> None:
    @T.prim_func
    def unused(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        T.func_attr({"layout_free_buffers": [0]})
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = T.float32(1)

    rewritten(unused)


def test_blocks_inside_blocks_read_one_copy() -> None:
    module = IRModule({"main": matmul})
    sch = Schedule(module, debug_mask="all")
    sch.blockize(sch.get_loops("matmul")[3])
    sch.enter_postproc()
    assert RewriteLayout().apply(sch) is True
    copy = sch.get_sref(sch.get_block("B_global")).block
    assert [str(extent) for extent in copy.writes[0].buffer.shape] == ["16", "4", "4"]
    assert len(sch.get_loops("B_global")) == 2  # before everything else, not in the outer block
    verify_trace_roundtrip(sch, module)
    assert_same_result(module, sch.mod)


@T.prim_func(private=True)
def biased(
    A: T.Buffer((1, 4, 32), "float32"),
    bias: T.Buffer((1, 1, 32), "float32"),
    C: T.Buffer((1, 4, 32), "float32"),
):
    T.func_attr({"layout_free_buffers": [1], "tilewright.bound_weights": T.bool(True)})
    for i, j0, j1 in T.grid(4, 2, 16):
        with T.block("add"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.spatial(32, j0 * 16 + j1)
            C[0, vi, vj] = A[0, vi, vj] + bias[0, 0, vj]


def test_a_bound_bias_stays_as_it_lies() -> None:
    """Its elements are read one after the other: a copy without axes of extent 1 gains nothing."""
    sch = rewritten(biased)
    assert_structural_equal(sch.mod["main"], biased)
    free = biased.without_attr("tilewright.bound_weights")  # as TVM has it
    assert len(rewritten(free).mod["main"].body.block.alloc_buffers) == 1  # type: ignore[attr-defined]


def test_a_bound_vector_that_is_read_in_another_order_is_packed() -> None:
    @T.prim_func(private=True)
    def strided(
        bias: T.Buffer((1, 1, 32), "float32"),
        C: T.Buffer((1, 4, 32), "float32"),
    ):
        T.func_attr({"layout_free_buffers": [0], "tilewright.bound_weights": T.bool(True)})
        for i, j1, j0 in T.grid(4, 16, 2):
            with T.block("add"):
                vi = T.axis.spatial(4, i)
                vj = T.axis.spatial(32, j0 * 16 + j1)
                C[0, vi, vj] = bias[0, 0, vj]

    sch = rewritten(strided)
    (copy,) = sch.mod["main"].body.block.alloc_buffers  # type: ignore[attr-defined]
    assert copy.shape == (16, 2)

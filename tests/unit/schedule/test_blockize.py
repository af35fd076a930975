# mypy: disable-error-code="valid-type, no-untyped-def"
"""`blockize`: loops and runs of blocks as one block."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, assert_structural_equal, verify_well_formed
from tilewright.schedule import Schedule
from tilewright.schedule.state.handles import LoopRV
from tilewright.schedule.state.scope import domain_of
from tilewright.script import tir as T
from tilewright.testing.handwritten import matmul as matmul_of
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


@T.prim_func
def strided(A: T.Buffer((40, 8), "int32"), C: T.Buffer((16, 8), "int32")):
    for i, j in T.grid(16, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi * 2 + vj, vj] + vi * 3 + vj


@T.prim_func
def gather(A: T.Buffer((16,), "int32"), P: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            T.reads(A[P[vi] % 16], P[vi])
            T.writes(C[vi])
            C[vi] = A[P[vi] % 16]


def test_a_tile_with_initialization(matmul: PrimFunc) -> None:
    @T.prim_func
    def main(
        A: T.Buffer((32, 24), "float32"),
        B: T.Buffer((24, 48), "float32"),
        C: T.Buffer((32, 48), "float32"),
    ):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i_0, j, k_0 in T.grid(4, 48, 6):
            with T.block("C_o"):
                vi_o, vj_o, vk_o = T.axis.remap("SSR", [i_0, j, k_0])
                T.reads(
                    A[vi_o * 8 : vi_o * 8 + 8, vk_o * 4 : vk_o * 4 + 4],
                    B[vk_o * 4 : vk_o * 4 + 4, vj_o],
                )
                T.writes(C[vi_o * 8 : vi_o * 8 + 8, vj_o])
                with T.init():
                    for i_1 in range(8):
                        with T.block("C_init"):
                            vi_i_init = T.axis.spatial(8, i_1)
                            T.reads()
                            T.writes(C[vi_o * 8 + vi_i_init, vj_o])
                            C[vi_o * 8 + vi_i_init, vj_o] = T.float32(0)
                for i_1, k_1 in T.grid(8, 4):
                    with T.block("C"):
                        vi_i, vk_i = T.axis.remap("SR", [i_1, k_1])
                        T.reads(
                            C[vi_o * 8 + vi_i, vj_o],
                            A[vi_o * 8 + vi_i, vk_o * 4 + vk_i],
                            B[vk_o * 4 + vk_i, vj_o],
                        )
                        T.writes(C[vi_o * 8 + vi_i, vj_o])
                        T.block_attr({"note": 1})
                        C[vi_o * 8 + vi_i, vj_o] = (
                            C[vi_o * 8 + vi_i, vj_o]
                            + A[vi_o * 8 + vi_i, vk_o * 4 + vk_i] * B[vk_o * 4 + vk_i, vj_o]
                        )

    sch = Schedule(matmul, debug_mask="all")
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    sch.annotate(block, "note", 1)
    i0, i1 = sch.split(i, [None, 8])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i0, j, k0, i1, k1)
    outer = sch.blockize(i1)
    assert_structural_equal(sch.mod["main"], main)
    assert sch.get(outer).name_hint == "C_o"  # type: ignore[union-attr]
    assert sch.get_child_blocks(outer)  # the old handles still stand for the inner part
    assert sch.get(block).name_hint == "C"  # type: ignore[union-attr]
    sch.unroll(i1)
    assert_same_result(matmul, sch.mod)
    verify_trace_roundtrip(sch, matmul)


def test_indices_and_values_are_simplified() -> None:
    sch = Schedule(strided, debug_mask="all")
    i, j = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    sch.reorder(i0, j, i1)
    sch.blockize(i1)
    text = sch.mod.script()
    assert "A[vi_o * 8 + vi_i * 2 + vj_o, vj_o]" in text
    assert "vi_o * 12 + vi_i * 3" in text
    assert "T.reads(A[vi_o * 8 + vj_o:vi_o * 8 + vj_o + 7, vj_o])" in text
    assert_same_result(strided, sch.mod)
    verify_trace_roundtrip(sch, strided)


def test_an_index_that_is_data_may_be_anywhere() -> None:
    sch = Schedule(gather, debug_mask="all")
    sch.blockize(sch.get_loops("C")[0])
    assert "T.reads(A[0:16], P[0:16])" in sch.mod.script()
    assert_same_result(gather, sch.mod)


@pytest.mark.parametrize("preserve", [True, False])
def test_unit_iterators(preserve: bool) -> None:
    func = matmul_of(1, 6, 4)
    sch = Schedule(func, debug_mask="all")
    block = sch.get_child_blocks(sch.get_block("root"))[0]
    sch.blockize(sch.get_loops(block)[0], preserve_unit_iters=preserve)
    name = sch.get(block).writes[0].buffer.name  # type: ignore[union-attr]
    assert (f"{name}[0, " in sch.mod.script()) is not preserve
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


def test_a_run_of_blocks(chain: PrimFunc) -> None:
    @T.prim_func
    def main(A: T.Buffer((16, 12), "float32"), C: T.Buffer((16, 12), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((16, 12), "float32")
        for i_m in range(16):
            with T.block("outer_B_C_"):
                vi_o = T.axis.spatial(16, i_m)
                vj_o = T.axis.spatial(1, 0)  # noqa: F841
                T.reads(B[vi_o, 0:12], A[vi_o, 0:12])
                T.writes(C[vi_o, 0:12], B[vi_o, 0:12])
                for j in range(12):
                    with T.block("B"):
                        vj_i = T.axis.spatial(12, j)
                        T.reads(A[vi_o, vj_i])
                        T.writes(B[vi_o, vj_i])
                        B[vi_o, vj_i] = A[vi_o, vj_i] * T.float32(2)
                for j in range(12):
                    with T.block("C"):
                        vj_i = T.axis.spatial(12, j)
                        T.reads(B[vi_o, vj_i])
                        T.writes(C[vi_o, vj_i])
                        C[vi_o, vj_i] = B[vi_o, vj_i] + T.float32(1)

    sch = Schedule(chain, debug_mask="all")
    sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[0])
    # The order of the list does not matter: the blocks run as before.
    sch.blockize([sch.get_block("C"), sch.get_block("B")])
    assert_structural_equal(sch.mod["main"], main)
    assert_same_result(chain, sch.mod)
    verify_trace_roundtrip(sch, chain)


@pytest.mark.parametrize("preserve", [True, False])
def test_loops_that_start_elsewhere(preserve: bool) -> None:
    func = matmul_of(6, 4, 3)
    sch = Schedule(func, debug_mask="all")
    sch.loop_partition(sch.get_loops("C")[0], [2])
    block = sch.get_block("C_i1")
    sch.blockize(sch.get_loops(block)[1], preserve_unit_iters=preserve)
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


@settings(max_examples=20, deadline=None)
@given(
    order=st.permutations(range(6)),
    factors=st.tuples(*[st.integers(1, 4)] * 3),
    at=st.integers(0, 5),
    preserve=st.booleans(),
)
def test_any_tiling(
    order: list[int], factors: tuple[int, int, int], at: int, preserve: bool
) -> None:
    func = matmul_of(4, 6, 4)
    sch = Schedule(func, debug_mask="all")
    block = sch.get_child_blocks(sch.get_block("root"))[0]
    loops = []
    for loop, factor in zip(sch.get_loops(block), factors, strict=True):
        loops += sch.split(loop, [None, factor])
    sch.reorder(*(loops[index] for index in order))
    refused = ""
    try:
        sch.blockize(sch.get_loops(block)[at], preserve_unit_iters=preserve)
    except ScheduleError as error:
        refused = str(error)
    assert not refused or "mix the loops" in refused
    assert_same_result(func, sch.mod)


def _tiled(sch: Schedule) -> list[LoopRV]:
    i, j, k = sch.get_loops("C")
    i0, i1, i2 = sch.split(i, [4, 2, 4])
    j0, j1, j2 = sch.split(j, [2, 3, 8])
    k0, k1 = sch.split(k, [6, 4])
    sch.reorder(i0, j0, i1, j1, k0, i2, j2, k1)
    return [i0, j0, i1, j1, k0, i2, j2, k1]


@pytest.mark.parametrize(
    ("fused", "outer", "inner"),
    [
        (
            [(0, 2), (2, 4)],
            ["i_0_j_0_fused // 2 * 2 + i_1_j_1_fused // 3",
             "i_0_j_0_fused % 2 * 3 + i_1_j_1_fused % 3"],
            ["i_2", "j_2"],
        ),
        (
            [(5, 7)],
            ["i_0 * 2 + i_1", "j_0 * 3 + j_1"],
            ["i_2_j_2_fused // 8", "i_2_j_2_fused % 8"],
        ),
        (
            [(0, 4), (5, 8)],
            ["i_0_j_0_i_1_j_1_fused // 12 * 2 + i_0_j_0_i_1_j_1_fused % 6 // 3",
             "i_0_j_0_i_1_j_1_fused % 12 // 6 * 3 + i_0_j_0_i_1_j_1_fused % 3"],
            ["i_2_j_2_k_1_fused // 32", "i_2_j_2_k_1_fused % 32 // 4"],
        ),
    ],
)  # fmt: skip
def test_fused_loops(
    matmul: PrimFunc, fused: list[tuple[int, int]], outer: list[str], inner: list[str]
) -> None:
    sch = Schedule(matmul, debug_mask="all")
    loops = _tiled(sch)
    for first, last in fused:
        sch.fuse(*loops[first:last])
    loops = sch.get_loops("C")
    names = [sch.get_sref(loop).name for loop in loops]
    sch.blockize(next(loop for loop, name in zip(loops, names, strict=True) if name[:3] == "i_2"))
    realizes = [sch.get_sref(sch.get_block(name)).realize for name in ("C_o", "C")]
    assert [str(value) for value in realizes[0].iter_values[:2]] == outer
    assert [str(value) for value in realizes[1].iter_values[:2]] == inner
    assert_same_result(matmul, sch.mod)
    verify_trace_roundtrip(sch, matmul)


def test_parts_that_share_digits_do_not_divide() -> None:
    @T.prim_func
    def main(A: T.Buffer((16, 8), "int32"), B: T.Buffer((16, 8), "int32")):
        for f, i, j in T.grid(4, 4, 4):
            with T.block("B"):
                vi = T.axis.spatial(16, f * 4 + i)
                vj = T.axis.spatial(8, f // 2 * 4 + j)
                B[vi, vj] = A[vi, vj]

    sch = Schedule(main, error_render_level="fast")
    with pytest.raises(ScheduleError, match="mix the loops from 'i' on with those outside"):
        sch.blockize(sch.get_loops("B")[1])


@settings(max_examples=20, deadline=None)
@given(
    order=st.permutations(range(6)),
    fused=st.tuples(st.integers(0, 4), st.integers(2, 4)),
    at=st.integers(0, 5),
    preserve=st.booleans(),
)
def test_any_fusion(order: list[int], fused: tuple[int, int], at: int, preserve: bool) -> None:
    func = matmul_of(4, 6, 4)
    sch = Schedule(func, debug_mask="all")
    block = sch.get_child_blocks(sch.get_block("root"))[0]
    loops = []
    for loop in sch.get_loops(block):
        loops += sch.split(loop, [None, 2])
    sch.reorder(*(loops[index] for index in order))
    sch.fuse(*sch.get_loops(block)[fused[0] : sum(fused)])
    rest = sch.get_loops(block)
    refused = ""
    try:
        sch.blockize(rest[at % len(rest)], preserve_unit_iters=preserve)
    except ScheduleError as error:
        refused = str(error)
    assert not refused or "mix the loops" in refused
    assert_same_result(func, sch.mod)


@T.prim_func
def triangle(A: T.Buffer((8, 6), "int32"), B: T.Buffer((8, 8, 6), "int32")):
    for i in range(8):
        for x, y0, y1 in T.grid(T.max(i - 1, 0), 3, 2):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                vx = T.axis.spatial(8, x)
                vy = T.axis.spatial(6, y0 * 2 + y1)
                B[vi, vx, vy] = A[vx, vy] + vi


@pytest.mark.parametrize("preserve", [True, False])
@pytest.mark.parametrize("at", [0, 2, 3])
def test_loops_of_different_lengths(at: int, preserve: bool) -> None:
    """Iterators have domains that do not depend on loops."""
    sch = Schedule(triangle, debug_mask="all")
    made = sch.blockize(sch.get_loops("B")[at], preserve_unit_iters=preserve)
    extents = [str(domain_of(iter_var).extent) for iter_var in sch.get_sref(made).block.iter_vars]
    assert extents == {0: ["1", "1", "1"], 2: ["8", "8", "1"], 3: ["8", "8", "3"]}[at]
    verify_well_formed(sch.mod)
    verify_trace_roundtrip(sch, triangle)
    assert_same_result(triangle, sch.mod)


def test_a_loop_whose_length_depends_on_one_outside() -> None:
    sch = Schedule(triangle, error_render_level="fast")
    with pytest.raises(ScheduleError) as caught:
        sch.blockize(sch.get_loops("B")[1])
    assert str(caught.value) == (
        "ScheduleError: blockize: how often loop 'x' runs, `T.max(i - 1, 0)`, depends on loop 'i', "
        "which would lie outside of the new block; blockize from loop 'i' on, or only what is "
        "inside of loop 'x'"
    )


def test_refused(matmul: PrimFunc, chain: PrimFunc) -> None:
    sch = Schedule(matmul, error_render_level="fast")
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 5])
    sch.reorder(i0, j, k, i1)
    with pytest.raises(ScheduleError) as caught:
        sch.blockize(i1)
    assert str(caught.value) == (
        "ScheduleError: blockize: the bindings or the predicate of block 'C' mix the loops from "
        "'i_1' on with those outside; split and reorder so that each iterator is "
        "outer * extent + inner"
    )
    with pytest.raises(ScheduleError) as caught:
        sch.blockize([sch.get_block("C")])
    assert str(caught.value) == (
        "ScheduleError: blockize: block 'C' has the reduction iterator 'vk'; several blocks can "
        "be joined only if they have no reduction; blockize each first"
    )
    other = Schedule(chain, error_render_level="fast")
    merged = other.merge(other.get_loops("B")[0], other.get_loops("C")[0])
    with pytest.raises(ScheduleError) as caught:
        other.blockize(merged)
    assert str(caught.value) == (
        "ScheduleError: blockize: 2 blocks are under loop 'i_m'; blockize takes a loop around "
        "exactly one block, or a list of blocks"
    )
    with pytest.raises(ScheduleError, match="the list of blocks is empty"):
        other.blockize([])
    with pytest.raises(ScheduleError, match="block 'B' is given twice"):
        other.blockize([other.get_block("B"), other.get_block("B")])


@pytest.mark.parametrize("part", ["C_j0", "C_j1"])
def test_a_part_of_a_program_does_not_claim_all_of_it(part: str) -> None:
    """The block said that it writes the whole row, so that a cache of it was copied back whole."""
    sch = Schedule(strided, debug_mask="all")
    sch.loop_partition(sch.get_loops("C")[1], [5, None])
    made = sch.blockize(sch.get_loops(part)[-1])
    (written,) = sch.get_sref(made).block.writes
    wanted = {"C_j0": (0, 5), "C_j1": (5, 3)}[part]
    assert (str(written.region[1].min), str(written.region[1].extent)) == tuple(map(str, wanted))
    sch.cache_write(made, 0, "global")
    assert_same_result(strided, sch.mod)
    verify_trace_roundtrip(sch, strided)


def test_the_end_of_a_buffer() -> None:
    """A binding that starts behind zero was taken for one that takes all values."""

    @T.prim_func
    def tail(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        for i in range(2):
            with T.block("C"):
                vi = T.axis.spatial(8, i + 6)
                C[vi] = A[vi] * 2

    sch = Schedule(tail, debug_mask="all")
    made = sch.blockize(sch.get_loops("C")[0])
    (written,) = sch.get_sref(made).block.writes
    assert str(written) == "C[6:8]"
    sch.cache_write(made, 0, "global")
    assert_same_result(tail, sch.mod)
    verify_trace_roundtrip(sch, tail)


def test_blocks_must_follow_each_other() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("A"):
                vi = T.axis.spatial(4, i)
                A[vi] = 1
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = 2
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                C[vi] = 3

    sch = Schedule(main, error_render_level="fast")
    with pytest.raises(ScheduleError) as caught:
        sch.blockize([sch.get_block("A"), sch.get_block("C")])
    assert str(caught.value) == (
        "ScheduleError: blockize: the blocks 'A', 'C' and what is between them are not "
        "consecutive statements; give blocks of one scope that follow each other, with nothing "
        "else in between"
    )

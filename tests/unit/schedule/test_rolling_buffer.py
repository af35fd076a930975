# mypy: disable-error-code="valid-type, no-untyped-def"
"""`rolling_buffer`: windows that move over an intermediate buffer."""

from __future__ import annotations

import pytest

from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, assert_structural_equal
from tilewright.schedule import Schedule
from tilewright.script import from_source, tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip

STENCILS = """
@T.prim_func
def main(A: T.Buffer((14, 14), "int32"), C: T.Buffer((8, 8), "int32")):
    B = T.alloc_buffer((12, 12), "int32")
    for i, j in T.grid(12, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + A[vi + 1, vj + 2]
    for i, j, r, s in T.grid(8, 8, 3, 3):
        with T.block("C"):
            vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + {read}
"""


def stencils(read: str = "B[vi + vr, vj + vs]") -> PrimFunc:
    func = from_source(STENCILS.format(read=read))
    assert isinstance(func, PrimFunc)
    return func


def test_rows() -> None:
    @T.prim_func
    def main(A: T.Buffer((14, 14), "int32"), C: T.Buffer((8, 8), "int32")):
        B = T.alloc_buffer((3, 12), "int32")
        for i in range(8):
            for ax0, ax1 in T.grid(3, 10):
                with T.block("B"):
                    vi = T.axis.opaque(12, i + ax0)
                    vj = T.axis.spatial(12, ax1)
                    T.where(i < 1 or 2 <= ax0)  # noqa: SIM300
                    T.reads(A[vi : vi + 2, vj : vj + 3])
                    T.writes(B[vi % 3, vj])
                    B[vi % 3, vj] = A[vi, vj] + A[vi + 1, vj + 2]
            for j, r, s in T.grid(8, 3, 3):
                with T.block("C"):
                    vi = T.axis.opaque(8, i)
                    vj, vr, vs = T.axis.remap("SRR", [j, r, s])
                    T.reads(B[(vi + vr) % 3, vj + vs])
                    T.writes(C[vi, vj])
                    with T.init():
                        C[vi, vj] = 0
                    C[vi, vj] = C[vi, vj] + B[(vi + vr) % 3, vj + vs]

    func = stencils()
    sch = Schedule(func, debug_mask="all")
    sch.compute_at("B", sch.get_loops("C")[0])
    sch.rolling_buffer("B", 0)
    assert_structural_equal(sch.mod["main"], main)
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize("order", ["ij", "ji"])
@pytest.mark.parametrize("tile", [2, 4])
def test_tiles(order: str, tile: int) -> None:
    func = stencils()
    sch = Schedule(func, debug_mask="all")
    i, j, r, s = sch.get_loops("C")
    (i0, i1), (j0, j1) = sch.split(i, [None, tile]), sch.split(j, [None, tile])
    sch.reorder(*((i0, j0) if order == "ij" else (j0, i0)), i1, j1, r, s)
    sch.compute_at("B", sch.get_loops("C")[1])
    sch.rolling_buffer("B", 0)
    shape = f"({tile + 2}, 12)" if order == "ij" else f"(12, {tile + 2})"
    assert f'B = T.alloc_buffer({shape}, "int32")' in sch.mod.script()
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


@pytest.mark.parametrize(
    ("read", "tile", "shape"),
    [
        ("B[vi // 2 + vr, vj + vs]", 1, "(3, 12)"),
        ("B[vi // 2 + vr, vj + vs]", 3, "(4, 12)"),
        ("B[(vi + 1) // 2 + vr, vj + vs]", 1, "(3, 12)"),
        ("B[vi * 3 // 4 + vr, vj + vs]", 1, "(3, 12)"),
        ("B[vi // 2 * 2 + vr, vj + vs]", 1, "(3, 12)"),
        ("B[(vi + vr) // 2 + 1, vj + vs]", 1, "(2, 12)"),
        ("B[vi // 4 + vr, vj // 2 + vs]", 2, "(3, 12)"),
    ],
)
def test_windows_that_move_in_uneven_steps(read: str, tile: int, shape: str) -> None:
    func = stencils(read)
    sch = Schedule(func, debug_mask="all")
    i, *_ = sch.get_loops("C")
    outer, _ = sch.split(i, [None, tile])
    sch.compute_at("B", outer)
    sch.rolling_buffer("B", 0)
    assert f'B = T.alloc_buffer({shape}, "int32")' in sch.mod.script()
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


def test_only_new_rows_are_computed_where_steps_are_uneven() -> None:
    sch = Schedule(stencils("B[vi // 2 + vr, vj + vs]"))
    sch.compute_at("B", sch.get_loops("C")[0])
    sch.rolling_buffer("B", 0)
    script = sch.mod.script()
    assert "vi = T.axis.opaque(12, i // 2 + ax0)" in script
    assert "T.where(i < 1 or 2 <= ax0)" in script
    assert "B[(vi // 2 + vr) % 3, vj + vs]" in script


def test_windows_of_different_sizes_do_not_roll() -> None:
    sch = Schedule(stencils("B[vi // 4 + vr, vj + vs]"), error_render_level="fast")
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 3])
    sch.compute_at("B", outer)
    with pytest.raises(ScheduleError) as caught:
        sch.rolling_buffer("B", 0)
    assert str(caught.value).startswith(
        "ScheduleError: rolling_buffer: no dimension of 'B' moves along with a loop in overlapping "
        "windows: dimension 0 has windows of `"
    )
    assert str(caught.value).endswith("`, not all of one size")


@pytest.mark.parametrize("factor", [2, 4])
def test_a_split_window_is_as_large_as_before(factor: int) -> None:
    """The split was taken for a window that is a multiple of its factor."""
    func = stencils()
    sch = Schedule(func, debug_mask="all")
    loop = sch.get_loops("C")[0]
    sch.compute_at("B", loop)
    sch.split(sch.get_loops("B")[1], [None, factor])
    sch.rolling_buffer("B", 0)
    assert 'B = T.alloc_buffer((3, 12), "int32")' in sch.mod.script()
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


def test_split_rows_that_do_not_overlap() -> None:
    sch = Schedule(stencils("B[vi, vj + vs]"), error_render_level="fast")
    sch.compute_at("B", sch.get_loops("C")[0], preserve_unit_loops=True)
    sch.split(sch.get_loops("B")[1], [None, 4])
    with pytest.raises(ScheduleError, match="windows of consecutive iterations do not overlap"):
        sch.rolling_buffer("B", 0)


def test_iterations_must_run_in_order() -> None:
    sch = Schedule(stencils(), error_render_level="fast")
    outer = sch.get_loops("C")[0]
    sch.parallel(outer)
    sch.compute_at("B", outer)
    with pytest.raises(ScheduleError) as caught:
        sch.rolling_buffer("B", 0)
    assert str(caught.value) == (
        "ScheduleError: rolling_buffer: no dimension of 'B' moves along with a loop in overlapping "
        "windows: the iterations of loop 'i' do not run in order from 0"
    )


def test_refused(chain: PrimFunc) -> None:
    sch = Schedule(stencils(), error_render_level="fast")
    with pytest.raises(ScheduleError) as caught:
        sch.rolling_buffer("B", 0)
    assert str(caught.value) == (
        "ScheduleError: rolling_buffer: block 'B' and the consumers of 'B' have no loop in common; "
        "use compute_at to bring the block into a loop of its consumer"
    )
    with pytest.raises(ScheduleError) as caught:
        sch.rolling_buffer("B", 1)
    assert str(caught.value) == (
        "ScheduleError: rolling_buffer: block 'B' writes 1 buffers, none has number 1"
    )
    with pytest.raises(ScheduleError, match="buffer 'C' is not allocated by a block"):
        sch.rolling_buffer("C", 0)
    sch.split(sch.get_loops("C")[0], [2, 4])
    sch.compute_at("B", sch.get_loops("C")[1])
    with pytest.raises(ScheduleError) as caught:
        sch.rolling_buffer("B", 0)
    assert str(caught.value) == (
        "ScheduleError: rolling_buffer: no dimension of 'B' moves along with a loop in overlapping "
        "windows: dimension 0 starts at `i_0 * 4 + i_1`, not at steps of one loop variable"
    )
    other = Schedule(chain, error_render_level="fast")
    other.compute_at("B", other.get_loops("C")[0])
    with pytest.raises(ScheduleError) as caught:
        other.rolling_buffer("B", 0)
    assert str(caught.value) == (
        "ScheduleError: rolling_buffer: no dimension of 'B' moves along with a loop in overlapping "
        "windows: windows of consecutive iterations do not overlap"
    )


def test_a_diagonal_does_not_roll() -> None:
    func = stencils("B[vi + vr, vi + vs]")
    sch = Schedule(func, debug_mask="all", error_render_level="fast")
    sch.compute_at("B", sch.get_loops("C")[0])
    with pytest.raises(ScheduleError, match="two dimensions move along with the same loop"):
        sch.rolling_buffer("B", 0)
    assert_same_result(func, sch.mod)


@pytest.mark.parametrize("tile", [1, 2])
def test_a_block_that_fills_its_window_at_once(tile: int) -> None:
    """Part of its window is new in each iteration, so that it runs in all of them."""
    func = stencils()
    sch = Schedule(func, debug_mask="all")
    if tile > 1:
        sch.split(sch.get_loops("C")[0], [None, tile])
    made = sch.read_at(sch.get_loops("C")[0], "C", 0, "global")
    sch.rolling_buffer(made, 0)
    root = sch.get_sref(sch.get_block("root")).block
    (buffer,) = [b for b in root.alloc_buffers if b.name == "B_global"]
    assert [getattr(extent, "value", None) for extent in buffer.shape] == [tile + 2, 12]
    verify_trace_roundtrip(sch, func)
    assert_same_result(func, sch.mod)


POOLINGS = """
@T.prim_func
def main(A: T.Buffer((23, 23), "int32"), D: T.Buffer((8, 8), "int32")):
    B = T.alloc_buffer((21, 21), "int32")
    C = T.alloc_buffer((10, 10), "int32")
    for i, j, r, s in T.grid(21, 21, 3, 3):
        with T.block("B"):
            vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
            with T.init():
                B[vi, vj] = -128
            B[vi, vj] = T.max(B[vi, vj], A[vi + vr, vj + vs])
    for i, j, r, s in T.grid(10, 10, 3, 3):
        with T.block("C"):
            vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
            with T.init():
                C[vi, vj] = -128
            C[vi, vj] = T.max(C[vi, vj], B[vi * 2 + vr, vj * 2 + vs])
    for i, j, r, s in T.grid(8, 8, 3, 3):
        with T.block("D"):
            vi, vj, vr, vs = T.axis.remap("SSRR", [i, j, r, s])
            with T.init():
                D[vi, vj] = -128
            D[vi, vj] = T.max(D[vi, vj], C[vi + vr, vj + vs])
"""


@pytest.mark.parametrize("order", ["BC", "CB"])
@pytest.mark.parametrize("tile", [1, 3, 4])
@pytest.mark.parametrize("columns", [False, True])
def test_several_buffers_roll_along_one_loop(order: str, tile: int, columns: bool) -> None:
    func = from_source(POOLINGS)
    assert isinstance(func, PrimFunc)
    sch = Schedule(func, debug_mask="all")
    rows, inner = sch.split(sch.get_loops("D")[0], [None, tile])
    if columns:
        column = sch.get_loops("D")[2]
        outer, _ = sch.split(column, [None, 4])
        sch.reorder(rows, outer, inner)
        rows = outer
    sch.compute_at("C", rows)
    sch.compute_at("B", rows)
    for name in order:
        sch.rolling_buffer(name, 0)
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


def test_a_buffer_rolls_once() -> None:
    func = from_source(POOLINGS)
    assert isinstance(func, PrimFunc)
    sch = Schedule(func, debug_mask="all", error_render_level="fast")
    sch.compute_at("C", sch.get_loops("D")[0])
    sch.rolling_buffer("C", 0)
    with pytest.raises(ScheduleError, match="cannot be a producer of a rolling buffer"):
        sch.rolling_buffer("C", 0)


def test_rolling_twice_would_compute_something_else() -> None:
    """TVM 0.25 rolls a buffer a second time, into this: rows of the last columns are taken for
    rows of the first ones. So the refusal above stays.
    """

    @T.prim_func
    def plain(A: T.Buffer((12, 14), "int8"), C: T.Buffer((8, 10), "int8")):
        B = T.alloc_buffer((10, 12), "int8")
        for i, j, ki, kj in T.grid(10, 12, 3, 3):
            with T.block("B"):
                vi, vj, vki, vkj = T.axis.remap("SSRR", [i, j, ki, kj])
                with T.init():
                    B[vi, vj] = T.int8(-128)
                B[vi, vj] = T.max(B[vi, vj], A[vi + vki, vj + vkj])
        for i, j, ki, kj in T.grid(8, 10, 3, 3):
            with T.block("C"):
                vi, vj, vki, vkj = T.axis.remap("SSRR", [i, j, ki, kj])
                with T.init():
                    C[vi, vj] = T.int8(-128)
                C[vi, vj] = T.max(C[vi, vj], B[vi + vki, vj + vkj])

    @T.prim_func
    def rolled_twice(A: T.Buffer((12, 14), "int8"), C: T.Buffer((8, 10), "int8")):
        B = T.alloc_buffer((4, 4), "int8")
        for i_0, j_0 in T.grid(4, 5):
            for ax0, ax1, ax2, ax3 in T.grid(4, 4, 3, 3):
                with T.block("B"):
                    vi = T.axis.opaque(10, i_0 * 2 + ax0)
                    vj = T.axis.opaque(12, j_0 * 2 + ax1)
                    vki, vkj = T.axis.remap("RR", [ax2, ax3])
                    T.where((i_0 < 1 or 2 <= ax0) and (j_0 < 1 or 2 <= ax1))  # noqa: SIM300
                    with T.init():
                        B[vi % 4, vj % 4] = T.int8(-128)
                    B[vi % 4, vj % 4] = T.max(B[vi % 4, vj % 4], A[vi + vki, vj + vkj])
            for i_1, j_1, ki, kj in T.grid(2, 2, 3, 3):
                with T.block("C"):
                    vi = T.axis.opaque(8, i_0 * 2 + i_1)
                    vj = T.axis.opaque(10, j_0 * 2 + j_1)
                    vki, vkj = T.axis.remap("RR", [ki, kj])
                    with T.init():
                        C[vi, vj] = T.int8(-128)
                    C[vi, vj] = T.max(C[vi, vj], B[(vi + vki) % 4, (vj + vkj) % 4])

    with pytest.raises(AssertionError):
        assert_same_result(plain, rolled_twice)

"""Region cover, stage pipeline, and the check of cached flags."""

from __future__ import annotations

import pytest

from tilewright import te
from tilewright.ir import PrimFunc
from tilewright.schedule import Schedule
from tilewright.schedule.state.flag_check import verify_cached_flags
from tilewright.schedule.state.flags import is_stage_pipeline, region_cover
from tilewright.testing.placement_programs import (
    guarded_writer,
    half_written,
    halves,
    matmul_relu,
    overwritten,
    padding,
    two_stages,
)
from tilewright.testing.schedule_checks import assert_same_result

COVERED = [
    (two_stages, True),
    (matmul_relu, True),
    (halves, True),
    (padding, True),
    (guarded_writer, True),
    (half_written, False),
]


@pytest.mark.parametrize(("func", "covered"), COVERED)
def test_region_cover(func: PrimFunc, covered: bool) -> None:
    sch = Schedule(func, debug_mask="all")
    last = "D" if func is matmul_relu else "C"
    block = sch.get_sref(sch.get_block(last))
    assert region_cover(sch.state, block) is covered
    assert sch.state.info(block).region_cover is covered
    root = sch.get_sref(sch.get_block("root"))
    assert is_stage_pipeline(sch.state, root) is covered
    assert sch.state.info(root).stage_pipeline is covered


def test_overwriting_is_no_pipeline() -> None:
    sch = Schedule(overwritten, debug_mask="all")
    root = sch.get_sref(sch.get_block("root"))
    assert not is_stage_pipeline(sch.state, root)


def test_without_checks_anything_goes() -> None:
    sch = Schedule(half_written, enable_check=False)
    sch.compute_at("B", sch.get_loops("C")[0])
    assert "for i in range(8)" in sch.mod.script()


@pytest.mark.parametrize("tile", [2, 3, 4, 5])
def test_cover_within_tiles(tile: int) -> None:
    sch = Schedule(matmul_relu, debug_mask="all")
    outer, _ = sch.split(sch.get_loops("C")[0], [None, tile])
    sch.reverse_compute_at("D", outer)
    assert region_cover(sch.state, sch.get_sref(sch.get_block("D")))


def test_wrong_flags_are_found() -> None:
    sch = Schedule(half_written)
    block = sch.get_sref(sch.get_block("C"))
    sch.state.info(block).region_cover = True
    with pytest.raises(AssertionError, match="region_cover of block 'C' is out of date"):
        verify_cached_flags(sch.state)
    sch = Schedule(two_stages)
    block = sch.get_sref(sch.get_block("C"))
    sch.state.info(block).region_cover = False
    with pytest.raises(AssertionError, match="region_cover of block 'C' is out of date"):
        verify_cached_flags(sch.state)
    sch.state.info(block).region_cover = None
    sch.state.info(block).affine_binding = False
    with pytest.raises(AssertionError, match="affine_binding of block 'C' is out of date"):
        verify_cached_flags(sch.state)


@pytest.mark.parametrize("threads", [16, 32, 64])
def test_a_copy_under_the_same_test_of_outer_loops_covers_its_reader(threads: int) -> None:
    """Indices modulo the extents of axes have another form where threads do not divide them."""
    a = te.placeholder((2, 7, 7, 32), name="A")
    func = te.create_prim_func([a, te.compute(a.shape, lambda *i: a(*i) + 1.0, name="B")])
    sch = Schedule(func)
    *outer, last = sch.get_loops("B")
    vectors, _ = sch.split(last, [None, 4])
    _, thread = sch.split(sch.fuse(*outer, vectors), [None, threads])
    copy = sch.cache_read("B", 0, "local", ["B"])
    sch.compute_at(copy, thread, preserve_unit_loops=True)
    sch.reverse_compute_at(sch.cache_write("B", 0, "local"), thread, preserve_unit_loops=True)
    assert_same_result(func, sch.mod)

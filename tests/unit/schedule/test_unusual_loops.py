# mypy: disable-error-code="valid-type, no-untyped-def"
"""Loops beside others that are not affine, loops that others run up to, tiles in opaque blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc
from tilewright.schedule import Schedule
from tilewright.script import from_source, tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


def same_afterwards(func: PrimFunc, step: Callable[[Schedule], object]) -> str:
    """The script after a step, which computes the same and replays."""
    sch = Schedule(func, debug_mask="all")
    step(sch)
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)
    return sch.mod.script()


def refused(func: PrimFunc, step: Callable[[Schedule], object]) -> str:
    sch = Schedule(func, debug_mask="all", error_render_level="fast")
    with pytest.raises(ScheduleError) as caught:
        step(sch)
    return str(caught.value)


# --- bindings that are not affine -----------------------------------------------------------------


@T.prim_func
def squares(X: T.Buffer((40, 4)), Y: T.Buffer((40, 4))):
    for a, b, c in T.grid(6, 4, 4):
        with T.block("Y"):
            i = T.axis.spatial(40, a * a + b)
            j = T.axis.spatial(4, c)
            Y[i, j] = X[i, j]


def test_affine_loops_change_places_below_another() -> None:
    text = same_afterwards(squares, lambda sch: sch.reorder(*sch.get_loops("Y")[:0:-1]))
    assert "for a, c, b in T.grid(6, 4, 4):" in text
    assert refused(squares, lambda sch: sch.reorder(*sch.get_loops("Y")[::-1])) == (
        "ScheduleError: reorder: block 'Y' under the loops has bindings that are not affine"
    )


# --- loops that others run up to ------------------------------------------------------------------


@T.prim_func
def triangle(A: T.Buffer((8, 8)), B: T.Buffer((8,))):
    for i in range(8):
        for k in range(i):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.reduce(i, k)
                with T.init():
                    B[vi] = 0.0
                B[vi] = B[vi] + A[vi, vk]


def test_a_domain_that_a_loop_decides() -> None:
    assert 'T.axis.remap("SR", [i, k])' in triangle.script()
    assert from_source(triangle.script()).script() == triangle.script()
    a, b = np.random.default_rng(0).random((8, 8), np.float32), np.empty(8, np.float32)
    tw.build(triangle)(a, b)
    np.testing.assert_allclose(b, np.tril(a, -1).sum(axis=1), rtol=1e-5)
    text = same_afterwards(triangle, lambda sch: sch.split(sch.get_loops("B")[0], [2, 4]))
    assert "vk = T.axis.reduce(i_0 * 4 + i_1, k)" in text
    text = same_afterwards(triangle, lambda sch: sch.split(sch.get_loops("B")[1], [None, 3]))
    assert "vk = T.axis.reduce(i, k_0 * 3 + k_1)" in text


def test_such_loops_are_not_independent() -> None:
    assert "its bindings are not affine" in refused(
        triangle, lambda sch: sch.decompose_reduction("B", sch.get_loops("B")[1])
    )
    assert "may leave parts of 'B' unwritten" in refused(
        triangle, lambda sch: sch.write_at(sch.get_loops("B")[1], "B", 0, "local")
    )
    assert "depend on loop 'i', which would come inside it" in refused(
        triangle, lambda sch: sch.reorder(*sch.get_loops("B")[::-1])
    )


def test_a_stage_whose_domain_a_loop_decides_stays_where_it_is() -> None:
    @T.prim_func
    def main(A: T.Buffer((8, 8)), C: T.Buffer((8, 8))):
        for i in range(8):
            for j in range(i):
                with T.block("B"):
                    vi = T.axis.spatial(8, i)
                    vj = T.axis.spatial(i, j)
                    C[vi, vj] = A[vi, vj] * 2.0

    assert "the domains of its iterators depend on loops around it" in refused(
        main, lambda sch: sch.parallel(sch.get_loops("B")[0])
    )


# --- tiles ----------------------------------------------------------------------------------------


def tiles(written: str) -> PrimFunc:
    func = from_source(f"""@T.prim_func
def main(X: T.Buffer((16, 16)), Y: T.Buffer((16, 16))):
    for i, j in T.grid(4, 4):
        with T.block("tile"):
            T.reads(X[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4])
            T.writes({written})
            for a, b in T.grid(4, 4):
                with T.block("Y"):
                    vi = T.axis.spatial(16, i * 4 + a)
                    vj = T.axis.spatial(16, j * 4 + b)
                    Y[vi, vj] = X[vi, vj] * 2.0
""")
    assert isinstance(func, PrimFunc)
    return func


def test_blocks_without_iterators_that_write_tiles_of_their_own_run_in_parallel() -> None:
    func = tiles("Y[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4]")
    for fused in (False, True):

        def step(sch: Schedule, fused: bool = fused) -> None:
            loops = sch.get_loops("tile")
            sch.parallel(sch.fuse(*loops) if fused else loops[0])

        assert "T.parallel" in same_afterwards(func, step)


@pytest.mark.parametrize("written", ["Y[0:16, 0:16]", "Y[i * 2 : i * 2 + 4, j * 4 : j * 4 + 4]"])
def test_tiles_that_may_overlap_do_not(written: str) -> None:
    assert "all iterations of loop 'i' write the same elements of 'Y'" in refused(
        tiles(written), lambda sch: sch.parallel(sch.get_loops("tile")[0])
    )

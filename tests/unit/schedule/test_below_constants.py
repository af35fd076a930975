# mypy: disable-error-code="valid-type, no-untyped-def"
"""Blocks below `T.allocate_const` are scheduled like others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.errors import ScheduleError
from tilewright.ir import assert_structural_equal
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


@T.prim_func
def with_constants(
    X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32"), Z: T.Buffer((8,), "float32")
) -> None:
    for i in range(8):
        with T.block("Z"):
            v = T.axis.spatial(8, i)
            Z[v] = X[v]
    c = T.allocate_const([0.5, 1.5], "float32", [2])
    C = T.Buffer((2,), "float32", data=c)
    M = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("M"):
            v = T.axis.spatial(8, i)
            M[v] = X[v] + C[v % 2]
    for i in range(8):
        with T.block("Y"):
            v = T.axis.spatial(8, i)
            Y[v] = M[v] * C[v % 2]


STEPS: dict[str, Callable[[Schedule], object]] = {
    "split first": lambda sch: sch.split(sch.get_loops("M")[0], [2, 4]),
    "split last": lambda sch: sch.split(sch.get_loops("Y")[0], [2, 4]),
    "cache_write": lambda sch: sch.cache_write("Y", 0, "global"),
    "cache_write to a stage": lambda sch: sch.cache_write("M", 0, "global"),
    "cache_read": lambda sch: sch.cache_read("Y", 0, "global"),
    "cache_read of the constant": lambda sch: sch.cache_read("Y", 1, "global"),
    "compute_at": lambda sch: sch.compute_at("M", sch.get_loops("Y")[0]),
    "reverse_compute_at": lambda sch: sch.reverse_compute_at("Y", sch.get_loops("M")[0]),
    "compute_inline": lambda sch: sch.compute_inline("M"),
    "reverse_compute_inline": lambda sch: sch.reverse_compute_inline("Y"),
}


@pytest.mark.parametrize("step", STEPS)
def test_blocks_below_constants(step: str) -> None:
    sch = Schedule(with_constants, debug_mask="all")
    before = sch.mod
    STEPS[step](sch)
    assert sch.mod is not before
    assert_same_result(with_constants, sch.mod)
    verify_trace_roundtrip(sch, with_constants)


def test_copies_go_below_a_constant_around_everything() -> None:
    @T.prim_func
    def main(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
        c = T.allocate_const([0.5, 1.5], "float32", [2])
        C = T.Buffer((2,), "float32", data=c)
        for i in range(8):
            with T.block("Y"):
                v = T.axis.spatial(8, i)
                Y[v] = X[v] + C[v % 2]

    @T.prim_func
    def expected(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
        X_global = T.alloc_buffer((8,))
        Y_global = T.alloc_buffer((8,))
        c = T.allocate_const([0.5, 1.5], "float32", [2])
        C = T.Buffer((2,), "float32", data=c)
        for ax0 in range(8):
            with T.block("X_global"):
                v0 = T.axis.spatial(8, ax0)
                X_global[v0] = X[v0]
        for i in range(8):
            with T.block("Y"):
                v = T.axis.spatial(8, i)
                Y_global[v] = X_global[v] + C[v % 2]
        for ax0 in range(8):
            with T.block("Y_global"):
                v0 = T.axis.spatial(8, ax0)
                Y[v0] = Y_global[v0]

    sch = Schedule(main, debug_mask="all")
    sch.cache_read("Y", 0, "global")
    sch.cache_write("Y", 0, "global")
    assert_structural_equal(sch.mod["main"].body, expected.body, map_free_vars=True)
    assert_same_result(main, sch.mod)


def test_a_block_stays_below_the_constant_that_it_needs() -> None:
    @T.prim_func
    def main(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
        M = T.alloc_buffer((8,))
        N = T.alloc_buffer((8,))
        with T.allocate_const([0.5, 1.5], "float32", [2]) as c:
            C = T.Buffer((2,), "float32", data=c)
            for i in range(8):
                with T.block("M"):
                    v = T.axis.spatial(8, i)
                    M[v] = X[v] + C[v % 2]
            for i in range(8):
                with T.block("N"):
                    v = T.axis.spatial(8, i)
                    N[v] = X[v] * C[v % 2]
        for i in range(8):
            with T.block("Y"):
                v = T.axis.spatial(8, i)
                Y[v] = M[v] * N[v]

    sch = Schedule(main, debug_mask="all", error_render_level="fast")
    with pytest.raises(ScheduleError) as caught:
        sch.compute_inline("M")
    assert str(caught.value) == (
        "ScheduleError: compute_inline: block 'M' is inside a AllocateConst statement, which would "
        "be lost; only blocks directly inside loops can be taken away"
    )


def test_compute_root_does_not_leave_the_constant_behind() -> None:
    sch = Schedule(with_constants, debug_mask="all", error_render_level="fast")
    sch.reverse_compute_at("Z", sch.get_loops("M")[0])
    with pytest.raises(ScheduleError, match="block 'M' is inside a AllocateConst statement"):
        sch.compute_root("M")

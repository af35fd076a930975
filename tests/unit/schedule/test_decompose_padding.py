# mypy: disable-error-code="valid-type, no-untyped-def"
"""`decompose_padding`: a fill and a copy instead of a padded copy."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, assert_structural_equal
from tilewright.schedule import Schedule
from tilewright.script import from_source, tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip

PADDED = """
@T.prim_func
def main(x: T.Buffer((6, 9), "int32"), y: T.Buffer((10, 12), "int32")):
    for i, j in T.grid(10, 12):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(x[vi - 2, vj - 1])
            T.writes(y[vi, vj])
            y[vi, vj] = {value}
"""
INSIDE = "vi >= 2 and vi < 8 and 1 <= vj and vj - 1 < 9"
ELEMENT = "x[vi - 2, vj - 1]"


def padded(value: str = f"T.if_then_else({INSIDE}, {ELEMENT} + vi, 7)") -> PrimFunc:
    func = from_source(PADDED.format(value=value))
    assert isinstance(func, PrimFunc)
    return func


def test_loops_shrink_where_they_can() -> None:
    @T.prim_func
    def main(x: T.Buffer((6, 9), "int32"), y: T.Buffer((10, 12), "int32")):
        for i_0, i_1, j in T.grid(4, 3, 12):
            with T.block("y_pad_const"):
                vi = T.axis.spatial(10, i_0 * 3 + i_1)
                vj = T.axis.spatial(12, j)
                T.where(i_0 * 3 + i_1 < 10)
                T.reads()
                T.writes(y[vi, vj])
                y[vi, vj] = 7
        for i_0, i_1 in T.grid(4, 3):
            for j in T.vectorized(9):
                with T.block("y"):
                    vi = T.axis.spatial(6, i_0 * 3 + i_1 - 2)
                    vj = T.axis.spatial(9, j)
                    T.where(
                        2 <= i_0 * 3 + i_1  # noqa: SIM300
                        and i_0 * 3 + i_1 < 8
                        and i_0 * 3 + i_1 < 10
                    )
                    T.reads(x[vi, vj])
                    T.writes(y[vi + 2, vj + 1])
                    y[vi + 2, vj + 1] = vi + x[vi, vj] + 2

    func = padded()
    sch = Schedule(func, debug_mask="all")
    i, j = sch.get_loops("y")
    i0, _ = sch.split(i, [None, 3])
    sch.vectorize(j)
    fill = sch.decompose_padding("y", i0)
    assert_structural_equal(sch.mod["main"], main)
    assert sch.get(fill).name_hint == "y_pad_const"  # type: ignore[union-attr]
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)


@settings(max_examples=20, deadline=None)
@given(
    factors=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    swap=st.booleans(),
    at=st.integers(0, 3),
)
def test_any_tiling(factors: tuple[int, int], swap: bool, at: int) -> None:
    func = padded()
    sch = Schedule(func, debug_mask="all")
    i, j = sch.get_loops("y")
    (i0, i1), (j0, j1) = sch.split(i, [None, factors[0]]), sch.split(j, [None, factors[1]])
    if swap:
        sch.reorder(j0, i0, j1, i1)
    sch.decompose_padding("y", sch.get_loops("y")[at])
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func, text_format="json")


def test_loops_shared_with_others_keep_their_extents() -> None:
    @T.prim_func
    def main(x: T.Buffer((6,), "int32"), z: T.Buffer((8,), "int32")):
        y = T.alloc_buffer((8,), "int32")
        for i in range(8):
            with T.block("y"):
                vi = T.axis.spatial(8, i)
                T.reads(x[vi - 1])
                T.writes(y[vi])
                y[vi] = T.if_then_else(vi >= 1 and vi < 7, x[vi - 1], 5)
            with T.block("z"):
                vi = T.axis.spatial(8, i)
                z[vi] = y[vi] * 2

    sch = Schedule(main, debug_mask="all")
    sch.decompose_padding("y", sch.get_loops("y")[0])
    assert "T.where(1 <= i and i < 7)" in sch.mod.script()
    assert_same_result(main, sch.mod)
    verify_trace_roundtrip(sch, main)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (ELEMENT, "the stored value is not an if_then_else"),
        (
            f"T.if_then_else({INSIDE}, {ELEMENT}, vi)",
            "the value out of bounds is not a constant",
        ),
        (f"T.if_then_else(vi >= 0, {ELEMENT}, 0)", "everything is in bounds"),
        (f"T.if_then_else(vi >= 10, {ELEMENT}, 0)", "nothing is in bounds"),
        (
            f"T.if_then_else(vi + vj < 9, {ELEMENT}, 0)",
            "the condition `vi + vj < 9` is not a bound of one iterator with constant domain",
        ),
        (
            f"T.if_then_else(vi % 2 == 0, {ELEMENT}, 0)",
            "the condition `vi % 2 == 0` is not a bound of one iterator with constant domain",
        ),
    ],
)
def test_no_padding(value: str, why: str) -> None:
    sch = Schedule(padded(value), error_render_level="fast")
    loop = sch.get_loops("y")[0]
    assert not sch.can_decompose_padding("y", loop)
    with pytest.raises(ScheduleError) as caught:
        sch.decompose_padding("y", loop)
    assert str(caught.value) == (
        f"ScheduleError: decompose_padding: block 'y' is not a padding: {why}; its body must be "
        "`B[...] = T.if_then_else(in bounds, value, constant)`"
    )


def test_refused(chain: PrimFunc, matmul: PrimFunc) -> None:
    sch = Schedule(chain, error_render_level="fast")
    with pytest.raises(ScheduleError) as caught:
        sch.decompose_padding("C", sch.get_loops("B")[0])
    assert str(caught.value) == (
        "ScheduleError: decompose_padding: loop 'i' is not around block 'C'; give one of the loops "
        "that get_loops returns for the block"
    )
    other = Schedule(matmul, error_render_level="fast")
    with pytest.raises(ScheduleError) as caught:
        other.decompose_padding("C", other.get_loops("C")[0])
    assert str(caught.value) == (
        "ScheduleError: decompose_padding: block 'C' is not a complete block: it has iterators "
        "that are not spatial"
    )
    good = Schedule(padded())
    assert good.can_decompose_padding("y", good.get_loops("y")[0])

# mypy: disable-error-code="valid-type, no-untyped-def"
"""`merge`: nests that may run together, and those that may not."""

from __future__ import annotations

import pytest

from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, assert_structural_equal
from tilewright.schedule import Schedule
from tilewright.script import from_source, tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip

TWO_STAGES = """
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    B = T.alloc_buffer((10, 10), "int32")
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            {write} = A[vi, vj] + 1
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = {read} * 2
"""


def two_stages(write: str, read: str) -> PrimFunc:
    func = from_source(TWO_STAGES.format(write=write, read=read))
    assert isinstance(func, PrimFunc)
    return func


def test_all_loops_of_two_nests(chain: PrimFunc) -> None:
    @T.prim_func
    def main(A: T.Buffer((16, 12), "float32"), C: T.Buffer((16, 12), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((16, 12), "float32")
        for i_m in range(16):
            for j_m in T.unroll(12):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i_m, j_m])
                    B[vi, vj] = A[vi, vj] * T.float32(2)
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i_m, j_m])
                    C[vi, vj] = B[vi, vj] + T.float32(1)

    sch = Schedule(chain, debug_mask="all")
    merged = sch.merge(sch.get_loops("B")[1], sch.get_loops("C")[1])
    sch.unroll(merged)
    assert_structural_equal(sch.mod["main"], main)
    assert_same_result(chain, sch.mod)
    verify_trace_roundtrip(sch, chain)


@pytest.mark.parametrize(
    ("write", "read", "depth", "legal"),
    [
        ("B[vi, vj]", "B[vi, vj]", 1, True),
        ("B[vj, vi]", "B[vj, vi]", 1, True),
        ("B[vi, vj]", "B[vi, 7 - vj]", 0, True),
        ("B[vi, vj]", "B[vi, 7 - vj]", 1, False),
        ("B[vi, vj]", "B[vj, vi]", 0, False),
        ("B[vi + 1, vj]", "B[vi, vj]", 0, False),
        ("B[vi + 2, vj]", "B[vi + 2, vj]", 1, True),
        ("B[vi % 4, vj]", "B[vi % 4, vj]", 1, False),
    ],
)
def test_only_within_an_iteration(write: str, read: str, depth: int, legal: bool) -> None:
    func = two_stages(write, read)
    sch = Schedule(func, debug_mask="all", error_render_level="fast")
    loops = [sch.get_loops(name)[depth] for name in "BC"]
    if legal:
        sch.merge(*loops)
        assert_same_result(func, sch.mod)
        verify_trace_roundtrip(sch, func)
        return
    names = [sch.get(loop).loop_var.name for loop in loops]  # type: ignore[union-attr]
    before = sch.mod
    with pytest.raises(ScheduleError) as caught:
        sch.merge(*loops)
    assert str(caught.value) == (
        f"ScheduleError: merge: the nests of loops {names[0]!r} and {names[1]!r} both access 'B', "
        "which one of them writes, and not within the same iteration; loops can be merged if what "
        "an iteration reads was made in the same iteration"
    )
    assert sch.mod is before


def test_the_given_order_must_not_turn_dependencies_around(chain: PrimFunc) -> None:
    sch = Schedule(chain, error_render_level="fast")
    with pytest.raises(ScheduleError, match="both access 'B'"):
        sch.merge(sch.get_loops("C")[0], sch.get_loops("B")[0])


@T.prim_func
def three(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = vi
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + 1
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] + 2


def test_nests_with_something_between() -> None:
    sch = Schedule(three, debug_mask="all", error_render_level="fast")
    first, second, third = (sch.get_loops(name)[0] for name in "ABC")
    with pytest.raises(ScheduleError) as caught:
        sch.merge(first, third)
    assert str(caught.value) == (
        "ScheduleError: merge: a statement between the nests accesses 'A' too, which one of them "
        "writes"
    )
    sch.merge(first, second, third)
    assert_same_result(three, sch.mod)
    verify_trace_roundtrip(sch, three)


def test_independent_nests_take_the_given_order() -> None:
    sch = Schedule(three, debug_mask="all")
    sch.merge(sch.get_loops("C")[0], sch.get_loops("B")[0])
    text = sch.mod.script()
    assert text.index('T.block("C")') < text.index('T.block("B")')
    assert_same_result(three, sch.mod)


def test_refused(chain: PrimFunc, matmul: PrimFunc) -> None:
    sch = Schedule(chain, error_render_level="fast")
    (b0, b1), (c0, c1) = sch.get_loops("B"), sch.get_loops("C")
    for loops, reason in (
        ((b0,), "1 loops were given; merge takes two or more"),
        ((b0, c1), "loop 'j' is loop number 2 of its nest, loop 'i' number 1"),
        ((b0, b1), "loops 'i', 'j' are not in nests that follow each other in one sequence"),
        ((b0, b0), "loops 'i', 'i' are not in nests that follow each other in one sequence"),
    ):
        with pytest.raises(ScheduleError) as caught:
            sch.merge(*loops)
        assert str(caught.value) == f"ScheduleError: merge: {reason}"
    sch.split(c0, [None, 4])
    with pytest.raises(ScheduleError) as caught:
        sch.merge(b0, sch.get_loops("C")[0])
    assert str(caught.value) == ("ScheduleError: merge: loop 'i_0' has extent 4, loop 'i' has 16")
    sch.annotate(b0, "note", 1)
    with pytest.raises(ScheduleError, match="loop 'i' has annotations or is bound to a thread"):
        sch.merge(b0, sch.get_loops("C")[0])

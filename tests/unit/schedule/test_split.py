# mypy: disable-error-code="valid-type, no-untyped-def"
"""`split`: exact, with a remainder, symbolic, and refused."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, assert_structural_equal
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing.handwritten import matmul as matmul_of
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


def split_first(func: PrimFunc, factors: Sequence[int | None], **flags: bool) -> Schedule:
    sch = Schedule(func, debug_mask="all")
    sch.split(sch.get_loops("C")[0], factors, **flags)
    verify_trace_roundtrip(sch, func)
    return sch


def test_exact(chain: PrimFunc) -> None:
    @T.prim_func
    def main(A: T.Buffer((16, 12), "float32"), C: T.Buffer((16, 12), "float32")):
        T.func_attr({"tir.noalias": T.bool(True)})
        B = T.alloc_buffer((16, 12), "float32")
        for i, j in T.grid(16, 12):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i_0, i_1, i_2, j in T.grid(2, 2, 4, 12):
            with T.block("C"):
                vi = T.axis.spatial(16, i_0 * 8 + i_1 * 4 + i_2)
                vj = T.axis.spatial(12, j)
                C[vi, vj] = B[vi, vj] + T.float32(1)

    sch = split_first(chain, [2, None, 4])
    assert_structural_equal(sch.mod["main"], main)
    assert_same_result(chain, sch.mod)


def test_a_remainder_is_guarded(chain: PrimFunc) -> None:
    sch = split_first(chain, [None, 2, 3])
    text = sch.mod.script()
    assert "for i_0, i_1, i_2, j in T.grid(3, 2, 3, 12):" in text
    assert "vi = T.axis.spatial(16, i_0 * 6 + i_1 * 3 + i_2)" in text
    assert "T.where((i_0 * 2 + i_1) * 3 + i_2 < 16)" in text
    assert_same_result(chain, sch.mod)


def test_guards_add_up(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, debug_mask="all")
    i, j, k = sch.get_loops("C")
    sch.split(sch.split(i, [None, 5])[0], [None, 3])
    sch.split(j, [5, None])
    sch.split(k, [None, 7])
    assert "T.where((i_0_0 * 3 + i_0_1) * 5 + i_1 < 32" in sch.mod.script()
    assert_same_result(matmul, sch.mod)
    verify_trace_roundtrip(sch, matmul)


def test_without_predicate(chain: PrimFunc) -> None:
    sch = split_first(chain, [4, 4], disable_predication=True)
    assert "T.where" not in sch.mod.script()
    sch = split_first(chain, [None, 5], disable_predication=True)
    assert "T.where" not in sch.mod.script()
    assert sch.trace is not None
    assert "disable_predication=True" in sch.trace.as_python()[-1]
    assert sch.trace.as_json()[0][-1][2] == [1, 1]


def test_unit_iterators(chain: PrimFunc) -> None:
    kept = split_first(chain, [1, 16, 1])
    assert "vi = T.axis.spatial(16, i_0 * 16 + i_1 + i_2)" in kept.mod.script()
    dropped = split_first(chain, [1, 16, 1], preserve_unit_iters=False)
    assert 'vi, vj = T.axis.remap("SS", [i_1, j])' in dropped.mod.script()
    assert_same_result(chain, dropped.mod)
    assert dropped.trace is not None
    assert dropped.trace.as_json()[0][-1][2] == [0]


def test_symbolic_extent(symbolic: PrimFunc) -> None:
    sch = Schedule(symbolic, debug_mask="all")
    i, _ = sch.get_loops("B")
    sch.split(i, [None, 8])
    text = sch.mod.script()
    assert "for i_0, i_1, j in T.grid((n + 7) // 8, 8, 16):" in text
    assert "T.where(i_0 * 8 + i_1 < n)" in text
    for rows in (1, 7, 8, 17):
        assert_same_result(symbolic, sch.mod, sizes={"n": rows})
    verify_trace_roundtrip(sch, symbolic)


def test_sampled_factors(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, seed=42, debug_mask="all")
    i, _, _ = sch.get_loops("C")
    outer, inner = sch.sample_perfect_tile(i, 2, decision=[4, 8])
    sch.split(i, [outer, inner])
    j = sch.get_loops("C")[2]
    steps = sch.trace
    assert steps is not None
    sch.split(j, [None, inner * 2])
    assert "for i_0, i_1, j_0, j_1, k in T.grid(4, 8, 3, 16, 24):" in sch.mod.script()
    assert_same_result(matmul, sch.mod)
    assert steps.as_python()[-1].endswith("factors=[None, v5 * 2], preserve_unit_iters=True)")
    verify_trace_roundtrip(sch, matmul, text_format="python")
    again = Schedule(matmul)
    steps.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)
    # Arithmetic over sampled integers replays in memory; JSON has no form for it.
    with pytest.raises(ScheduleError, match="over random variables has no JSON form"):
        verify_trace_roundtrip(sch, matmul, text_format="json")


def test_a_loop_keeps_no_kind(matmul: PrimFunc) -> None:
    sch = Schedule(matmul)
    i, _, _ = sch.get_loops("C")
    sch.parallel(i)
    sch.split(i, [4, 8])
    assert "parallel" not in sch.mod.script()


CASES = {
    "SeveralInferredFactors": (
        [None, None],
        "split: 2 factors of loop 'i' are None; at most one factor can be inferred",
    ),
    "zero": ([0, 4], "split: factor 0 of loop 'i' is not positive"),
    "negative": ([None, -2], "split: factor -2 of loop 'i' is not positive"),
    "too small": (
        [3, 4],
        "split: the factors [3, 4] of loop 'i' make 12, which is not known to reach its extent 32; "
        "make one factor None to have it inferred",
    ),
    "text": (
        ["4"],
        "split: `4` is not a number known to this schedule; use integers and what the sampling "
        "primitives of this schedule returned",
    ),
    "none at all": ([], "split: no factors were given for loop 'i'"),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(case: str, matmul: PrimFunc) -> None:
    factors, text = CASES[case]
    sch = Schedule(matmul, error_render_level="fast")
    loop = sch.get_loops("C")[0]
    before, steps = sch.mod, str(sch.trace)
    with pytest.raises(ScheduleError) as failure:
        sch.split(loop, factors)  # type: ignore[arg-type]
    assert str(failure.value) == f"ScheduleError: {text}"
    assert sch.mod is before
    assert str(sch.trace) == steps


def test_refused_loops(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, error_render_level="fast")
    i, j, _ = sch.get_loops("C")
    sch.annotate(i, "note", 1)
    sch.bind(j, "threadIdx.x")
    text = (
        "split: loop {!r} has annotations or is bound to a thread; transform it before annotating "
        "or binding it, or unannotate it first"
    )
    for loop, name in ((i, "i"), (j, "j")):
        with pytest.raises(ScheduleError, match=re.escape(text.format(name))):
            sch.split(loop, [None, 4])


def test_a_symbolic_product_must_reach_the_extent(symbolic: PrimFunc) -> None:
    sch = Schedule(symbolic, error_render_level="fast")
    text = "the factors [4, 4] of loop 'i' make 16, which is not known to reach its extent n"
    with pytest.raises(ScheduleError, match=re.escape(text)):
        sch.split(sch.get_loops("B")[0], [4, 4])


def test_a_loop_that_starts_elsewhere() -> None:
    @T.prim_func
    def shifted(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(2, 8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]

    sch = Schedule(shifted, error_render_level="fast")
    with pytest.raises(ScheduleError, match="split: loop 'i' starts at 2, not at 0"):
        sch.split(sch.get_loops("B")[0], [None, 2])


@given(
    st.integers(1, 20),
    st.lists(st.integers(1, 7), min_size=1, max_size=3),
    st.integers(0, 3),
    st.booleans(),
)
def test_any_split_computes_the_same(
    extent: int, factors: list[int], inferred: int, keep_units: bool
) -> None:
    func = matmul_of(extent, 3, 2)
    wanted: list[int | None] = list(factors)
    wanted.insert(min(inferred, len(wanted)), None)
    sch = Schedule(func, debug_mask="all")
    sch.split(sch.get_loops("C")[0], wanted, preserve_unit_iters=keep_units)
    assert_same_result(func, sch.mod)

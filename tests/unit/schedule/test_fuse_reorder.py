# mypy: disable-error-code="valid-type, no-untyped-def"
"""`fuse` and `reorder`."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, strategies as st

from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc
from tilewright.schedule import LoopRV, Schedule
from tilewright.script import tir as T
from tilewright.testing.handwritten import matmul as matmul_of
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


@T.prim_func
def triangle(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in range(i + 1):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                vj = T.axis.spatial(8, j)
                B[vi, vj] = A[vi, vj] * T.float32(2)


@T.prim_func
def two_in_one(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = B[vi, vj] * T.float32(2)


@T.prim_func
def opaque_iterator(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi = T.axis.opaque(8, i)
            vj = T.axis.spatial(8, j)
            B[vi, vj] = A[vi, vj]


@T.prim_func
def not_affine(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.spatial(8, (i + j) % 8)
            B[vi, vj] = A[vi, vj]


def refused(sch: Schedule, step: Callable[[], object], text: str) -> None:
    before, steps = sch.mod, str(sch.trace)
    with pytest.raises(ScheduleError) as failure:
        step()
    assert str(failure.value) == f"ScheduleError: {text}"
    assert sch.mod is before
    assert str(sch.trace) == steps


# --- fuse ---------------------------------------------------------------------------------------


def test_fuse_all(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, debug_mask="all")
    fused = sch.fuse(*sch.get_loops("C"))
    assert sch.mod.script().splitlines()[9:13] == [
        "        for i_j_k_fused in range(36864):",
        '            with T.block("C"):',
        "                vi = T.axis.spatial(32, i_j_k_fused // 1152)",
        "                vj = T.axis.spatial(48, i_j_k_fused % 1152 // 24)",
    ]
    assert sch.get_sref(fused).name == "i_j_k_fused"
    assert_same_result(matmul, sch.mod)
    verify_trace_roundtrip(sch, matmul)


def test_fuse_undoes_split(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, debug_mask="all")
    i, _, _ = sch.get_loops("C")
    sch.fuse(*sch.split(i, [2, 4, 4]))
    assert 'vi, vj, vk = T.axis.remap("SSR", [i_0_i_1_i_2_fused, j, k])' in sch.mod.script()
    assert_same_result(matmul, sch.mod)
    verify_trace_roundtrip(sch, matmul)


def test_fuse_one_loop_renames_it(matmul: PrimFunc) -> None:
    sch = Schedule(matmul)
    sch.fuse(sch.get_loops("C")[0])
    assert "for i_fused, j, k in T.grid(32, 48, 24):" in sch.mod.script()


def test_fuse_symbolic(symbolic: PrimFunc) -> None:
    sch = Schedule(symbolic, debug_mask="all")
    sch.fuse(*sch.get_loops("B"))
    assert "vi = T.axis.spatial(n, i_j_fused // 16)" in sch.mod.script()
    for rows in (1, 5):
        assert_same_result(symbolic, sch.mod, sizes={"n": rows})


def test_fuse_two_bodies() -> None:
    sch = Schedule(two_in_one, debug_mask="all", error_render_level="fast")
    i, j = sch.get_loops("B")
    refused(
        sch,
        lambda: sch.fuse(i, j),
        "fuse: loop 'j' is not the only statement in loop 'i'; give loops from the outside in, "
        "each directly inside the one before",
    )


def test_fuse_refused(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, error_render_level="fast")
    i, j, k = sch.get_loops("C")
    refused(sch, sch.fuse, "fuse: no loops were given")
    order = "give loops from the outside in, each directly inside the one before"
    for a, b, inner, outer in ((j, i, "i", "j"), (i, k, "k", "i"), (i, i, "i", "i")):
        text = f"fuse: loop {inner!r} is not the only statement in loop {outer!r}; {order}"
        refused(sch, functools.partial(sch.fuse, a, b), text)
    sch.annotate(i, "note", 1)
    text = (
        "fuse: loop 'i' has annotations or is bound to a thread; transform it before annotating or "
        "binding it, or unannotate it first"
    )
    refused(sch, lambda: sch.fuse(i, j), text)


def test_fuse_a_triangle() -> None:
    sch = Schedule(triangle, error_render_level="fast")
    text = "fuse: the extent of loop 'j' depends on loop 'i', which is fused too"
    i, j = sch.get_loops("B")
    refused(sch, lambda: sch.fuse(i, j), text)


# --- reorder ------------------------------------------------------------------------------------


def test_every_order(matmul: PrimFunc) -> None:
    small = matmul_of(4, 3, 2)
    for order in itertools.permutations(range(3)):
        sch = Schedule(small, debug_mask="all")
        loops = sch.get_loops("C")
        sch.reorder(*(loops[position] for position in order))
        names = [sch.get_sref(loop).name for loop in sch.get_loops("C")]
        assert names == ["ijr"[position] for position in order]
        assert_same_result(small, sch.mod)
        verify_trace_roundtrip(sch, small)


def test_loops_between_stay(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, debug_mask="all")
    i, j, k = sch.get_loops("C")
    sch.parallel(i)
    sch.reorder(k, i)
    assert [sch.get_sref(loop).name for loop in sch.get_loops("C")] == ["k", "j", "i"]
    assert "for i in T.parallel(32):" in sch.mod.script()
    sch.reorder(i)
    sch.reorder()
    assert [sch.get_sref(loop).name for loop in (i, j, k)] == ["i", "j", "k"]
    verify_trace_roundtrip(sch, matmul)


def test_reorder_refused(matmul: PrimFunc) -> None:
    sch = Schedule(matmul, error_render_level="fast")
    i, j, _ = sch.get_loops("C")
    refused(sch, lambda: sch.reorder(i, j, i), "reorder: loop 'i' is given twice")


def test_reorder_needs_one_nest(chain: PrimFunc) -> None:
    sch = Schedule(chain, error_render_level="fast")
    i, _ = sch.get_loops("B")
    _, j = sch.get_loops("C")
    remedy = "reorder takes loops of one block, each with a single loop or block inside"
    text = f"reorder: loops 'i', 'j' are not in one nest without branches; {remedy}"
    refused(sch, lambda: sch.reorder(i, j), text)
    branched = Schedule(two_in_one, error_render_level="fast")
    outer, inner = branched.get_loops("C")
    text = f"reorder: loops 'j', 'i' are not in one nest without branches; {remedy}"
    refused(branched, lambda: branched.reorder(inner, outer), text)


def test_reorder_needs_iterators_that_commute() -> None:
    sch = Schedule(opaque_iterator, error_render_level="fast")
    i, j = sch.get_loops("B")
    text = (
        "reorder: block 'B' under the loops has iterators that are neither spatial nor reductions"
    )
    refused(sch, lambda: sch.reorder(j, i), text)
    sch = Schedule(not_affine, error_render_level="fast")
    i, j = sch.get_loops("B")
    text = "reorder: block 'B' under the loops has bindings that are not affine"
    refused(sch, lambda: sch.reorder(j, i), text)


def test_reorder_a_triangle() -> None:
    sch = Schedule(triangle, error_render_level="fast")
    i, j = sch.get_loops("B")
    text = "reorder: the bounds of loop 'j' depend on loop 'i', which would come inside it"
    with pytest.raises(ScheduleError, match=re.escape(text)):
        sch.reorder(j, i)


# --- both ---------------------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from([2, 3, 4]), min_size=3, max_size=3),
    st.permutations(range(6)),
    st.integers(0, 4),
)
def test_tiling_computes_the_same(tiles: list[int], order: Sequence[int], fused: int) -> None:
    func = matmul_of(6, 5, 4)
    sch = Schedule(func, debug_mask="all")
    loops: list[LoopRV] = []
    for loop, tile in zip(sch.get_loops("C"), tiles, strict=True):
        loops += sch.split(loop, [None, tile])
    ordered = [loops[position] for position in order]
    sch.reorder(*ordered)
    sch.fuse(*ordered[fused : fused + 2])
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)

# mypy: disable-error-code="valid-type, no-untyped-def"
"""Loops and buffers that a primitive takes away are named nowhere afterwards.

What uses them may be a block without iterators, a condition, a bound of a loop, the domain of an
iterator, an index inside a region, or an annotation. `debug_mask="all"` notices what is left over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilewright.errors import ScheduleError
from tilewright.ir import Block, PrimFunc, assert_structural_equal, replace
from tilewright.schedule import BlockRV, Primitive, Schedule
from tilewright.schedule.state.sref import StmtSRef
from tilewright.schedule.trace.instruction import given
from tilewright.script import from_source, tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


def applied(func: PrimFunc, *steps: Callable[[Schedule], object]) -> Schedule:
    """What a schedule makes of a function: it parses back, replays and computes the same."""
    sch = Schedule(func, debug_mask="all")
    for step in steps:
        step(sch)
    assert_structural_equal(from_source(sch.mod.script()), sch.mod)
    assert_same_result(func, sch.mod)
    verify_trace_roundtrip(sch, func)
    return sch


# --- loops ----------------------------------------------------------------------------------------


@T.prim_func
def nested(X: T.Buffer((16, 15)), Y: T.Buffer((16, 15))):
    for i, j in T.grid(16, 15):
        with T.block("outer"):
            T.reads(X[i, j])
            T.writes(Y[i, j])
            with T.block("inner"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] + 1.0


def test_fuse_around_a_block_without_iterators() -> None:
    sch = Schedule(nested, debug_mask="all")
    outer, inner = sch.get_block("outer"), sch.get_block("inner")
    sch.fuse(*sch.get_loops(outer))
    text = sch.mod.script()
    assert "T.reads(X[i_j_fused // 15, i_j_fused % 15])" in text
    assert "vi = T.axis.spatial(16, i_j_fused // 15)" in text
    assert isinstance(sch.get(outer), Block)  # both are still known by their handles
    assert isinstance(sch.get(inner), Block)
    assert_same_result(nested, sch.mod)
    verify_trace_roundtrip(sch, nested)


def test_split_around_a_block_without_iterators() -> None:
    sch = applied(nested, lambda sch: sch.split(sch.get_loops("outer")[1], [None, 4]))
    text = sch.mod.script()
    assert (
        text.count("T.where(j_0 * 4 + j_1 < 15)") == 1
    )  # of the outer block: inside it holds, too
    assert "T.writes(Y[i, j_0 * 4 + j_1])" in text


@T.prim_func
def sized_by_a_loop(X: T.Buffer((8, 8)), Y: T.Buffer((8,))):
    for i in range(8):
        with T.block("outer"):
            T.reads(X[i, 0:8])
            T.writes(Y[i])
            row = T.match_buffer(X[i, 0:8], (8,), offset_factor=1)
            for k in T.serial(i + 1, annotations={"until": i}):
                with T.block("sum"):
                    vi = T.axis.spatial(8, i)
                    vk = T.axis.reduce(i + 1, k)
                    T.block_attr({"place": [vi, {"first": vk}]})
                    with T.init():
                        Y[vi] = 0.0
                    Y[vi] = Y[vi] + row[vk]


@pytest.mark.parametrize("factors", [[2, 4], [None, 3]])
def test_names_in_views_bounds_domains_and_annotations(factors: list[Any]) -> None:
    sch = applied(
        sized_by_a_loop,
        lambda sch: sch.split(sch.get_loops("outer")[0], factors),
        lambda sch: sch.fuse(*sch.get_loops("outer")),
    )
    assert "until" in sch.mod.script()


def test_annotations_follow_the_iterators_of_a_block() -> None:
    @T.prim_func
    def main(X: T.Buffer((8, 8)), Y: T.Buffer((8, 8))):
        for i, j in T.grid(8, 8):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.block_attr({"row": vi, "both": [vi + vj]})
                Y[vi, vj] = X[vi, vj]

    sch = applied(main, lambda sch: sch.transform_block_layout("Y", lambda i, j: (i * 8 + j,)))
    assert '"row": ' in sch.mod.script()
    applied(main, lambda sch: sch.blockize(sch.get_loops("Y")[1]))


# --- statements between loops and blocks ----------------------------------------------------------


@T.prim_func
def in_a_branch(X: T.Buffer((10,)), Y: T.Buffer((10,))):
    for i in range(10):
        if i < 9:
            with T.block("Y"):
                v = T.axis.spatial(10, i)
                Y[v] = X[v] + 1.0


def test_a_guard_reaches_blocks_inside_a_branch() -> None:
    sch = applied(in_a_branch, lambda sch: sch.split(sch.get_loops("Y")[0], [None, 4]))
    assert "T.where(i_0 * 4 + i_1 < 10)" in sch.mod.script()


# --- buffers --------------------------------------------------------------------------------------


@T.prim_func
def guarded(X: T.Buffer((16,)), Y: T.Buffer((16,))):
    M = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("M"):
            v = T.axis.spatial(16, i)
            M[v] = X[v] * 2.0
    for i in range(16):
        with T.block("Y"):
            v = T.axis.spatial(16, i)
            T.where(M[i] < 10.0)
            Y[v] = M[v] + 1.0


@T.prim_func
def guarded_inlined(X: T.Buffer((16,)), Y: T.Buffer((16,))):
    for i in range(16):
        with T.block("Y"):
            v = T.axis.spatial(16, i)
            T.where(X[i] * 2.0 < 10.0)
            Y[v] = X[v] * 2.0 + 1.0


@T.prim_func
def indirect(P: T.Buffer((1,), "int32"), X: T.Buffer((4, 4), "int32")):
    Q = T.alloc_buffer((1,), "int32")
    with T.block("Q"):
        Q[0] = P[0] % 4
    for j in range(4):
        with T.block("X"):
            v = T.axis.spatial(4, j)
            X[Q[0], v] = 7


@T.prim_func
def counted(P: T.Buffer((1,), "int32"), X: T.Buffer((8,), "int32")):
    """A stage says how often a loop runs."""
    Q = T.alloc_buffer((1,), "int32")
    with T.block("Q"):
        Q[0] = P[0] % 8
    for j in range(Q[0]):
        with T.block("X"):
            v = T.axis.spatial(8, j)
            X[v] = 7


@T.prim_func
def declared_only(X: T.Buffer((4,)), Y: T.Buffer((4,))):
    """The consumer declares a read that it does not make."""
    M = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("M"):
            v = T.axis.spatial(4, i)
            M[v] = X[v] * 2.0
    for i in range(4):
        with T.block("Y"):
            v = T.axis.spatial(4, i)
            T.reads(M[v], X[v])
            T.writes(Y[v])
            Y[v] = X[v]


def test_inline_into_a_condition() -> None:
    sch = applied(guarded, lambda sch: sch.compute_inline("M"))
    assert_structural_equal(sch.mod["main"].body, guarded_inlined.body, map_free_vars=True)


@pytest.mark.parametrize("func", [indirect, counted, declared_only])
def test_inline_what_is_used_elsewhere(func: PrimFunc) -> None:
    name = "M" if func is declared_only else "Q"
    sch = applied(func, lambda sch: sch.compute_inline(name))
    assert f"{name}[" not in sch.mod.script()


CHANGES: dict[str, Callable[[Schedule, str], object]] = {
    "layout": lambda sch, name: sch.transform_layout(name, ("write", 0), lambda i: [i, i - i]),
    "separator": lambda sch, name: sch.set_axis_separator(name, ("write", 0), [0]),
    "scope": lambda sch, name: sch.set_scope(name, 0, "shared"),
    "dtype": lambda sch, name: sch.unsafe_set_dtype(name, 0, "int16"),
    "cache_write": lambda sch, name: sch.cache_write(name, 0, "local"),
    "cache_read": lambda sch, name: sch.cache_read("X", 0, "local"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_buffers_that_are_indices(change: str) -> None:
    applied(indirect, lambda sch: CHANGES[change](sch, "Q"))


@pytest.mark.parametrize("change", ["layout", "separator", "scope"])
def test_buffers_that_are_conditions(change: str) -> None:
    applied(guarded, lambda sch: CHANGES[change](sch, "M"))


def test_reverse_inline_keeps_what_a_bound_needs() -> None:
    @T.prim_func
    def main(P: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32"), Y: T.Buffer((8,), "int32")):
        Q = T.alloc_buffer((8,), "int32")
        for i in range(8):
            with T.block("Q"):
                v = T.axis.spatial(8, i)
                Q[v] = P[v] % 8
        for i in range(8):
            with T.block("X"):
                v = T.axis.spatial(8, i)
                X[v] = Q[v] + 1
        for j in range(Q[0]):
            with T.block("Y"):
                v = T.axis.spatial(8, j)
                Y[v] = 7

    sch = Schedule(main, debug_mask="all", error_render_level="fast")
    with pytest.raises(ScheduleError) as caught:
        sch.reverse_compute_inline("X")
    assert str(caught.value) == (
        "ScheduleError: reverse_compute_inline: buffer 'Q', which block 'X' reads, decides which "
        "iterations run; bounds of loops, bindings and conditions would still need it"
    )


# --- what would name loops that are out of reach --------------------------------------------------


@T.prim_func
def stairs(A: T.Buffer((8, 8)), C: T.Buffer((8, 8))):
    for i in range(8):
        for j in range(i + 1):
            with T.block("stair"):
                vi = T.axis.spatial(8, i)
                vj = T.axis.spatial(i + 1, j)
                C[vi, vj] = A[vi, vj] * 2.0


WRAPPED: dict[str, tuple[PrimFunc, str, Callable[[Schedule], object]]] = {
    "blockize": (nested, "outer", lambda sch: sch.blockize(sch.get_loops("outer")[1])),
    "loop_partition": (
        stairs,
        "stair",
        lambda sch: sch.loop_partition(sch.get_loops("stair")[0], [3, None]),
    ),
    "transform_block_layout": (
        stairs,
        "stair",
        lambda sch: sch.transform_block_layout("stair", lambda i, j: (j, i)),
    ),
}


@pytest.mark.parametrize("primitive", WRAPPED)
def test_blocks_that_name_loops_stay_below_them(primitive: str) -> None:
    func, block, step = WRAPPED[primitive]
    sch = Schedule(func, debug_mask="all", error_render_level="fast")
    with pytest.raises(ScheduleError) as caught:
        step(sch)
    assert str(caught.value) == (
        f"ScheduleError: {primitive}: block {block!r} uses loop 'i' around it directly, not by an "
        "iterator of its own; bind the loop to an iterator of the block"
    )


def test_caches_below_a_block_without_iterators() -> None:
    for step in (
        lambda sch: sch.cache_read("inner", 0, "local"),
        lambda sch: sch.cache_write("inner", 0, "local"),
    ):
        sch = applied(nested, step)
        assert "_local = T.alloc_buffer((16, 15)" in sch.mod.script()


def test_caches_of_what_a_triangle_of_loops_touches() -> None:
    sch = Schedule(stairs, debug_mask="all", error_render_level="fast")
    with pytest.raises(ScheduleError, match="may leave parts of 'C' unwritten"):
        sch.cache_write("stair", 0, "local")
    applied(stairs, lambda sch: sch.cache_read("stair", 0, "local"))


def test_copies_below_a_block_without_iterators_are_bound_to_all_loops() -> None:
    @T.prim_func
    def main(X: T.Buffer((4, 4)), Y: T.Buffer((4, 4))):
        for i in range(4):
            with T.block("outer"):
                T.reads(X[i, 0:4])
                T.writes(Y[i, 0:4])
                for j in range(4):
                    with T.block("inner"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        Y[vi, vj] = X[vi, vj] + 1.0

    applied(main, lambda sch: sch.write_at(sch.get_loops("inner")[0], "inner", 0, "local"))
    applied(main, lambda sch: sch.read_at(sch.get_loops("inner")[0], "inner", 0, "local"))
    sch = Schedule(main, debug_mask="all", error_render_level="fast")
    sch.cache_read("inner", 0, "local")
    with pytest.raises(ScheduleError, match="uses loop 'i' around it directly"):
        sch.reverse_compute_inline("inner")


def test_what_says_how_often_a_loop_runs_stays_in_front_of_it() -> None:
    sch = Schedule(counted, debug_mask="all", error_render_level="fast")
    with pytest.raises(ScheduleError) as caught:
        sch.reverse_compute_at("Q", sch.get_loops("X")[0])
    assert str(caught.value) == (
        "ScheduleError: reverse_compute_at: what block 'Q' writes, 'Q', says how often a loop runs"
        "; it has to stay in front of that loop"
    )


def test_annotations_keep_loops_in_their_order() -> None:
    @T.prim_func
    def main(X: T.Buffer((8, 8)), Y: T.Buffer((8, 8))):
        for i in range(8):
            for j in T.serial(8, annotations={"row": i}):
                with T.block("Y"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    Y[vi, vj] = X[vi, vj]

    sch = Schedule(main, debug_mask="all", error_render_level="fast")
    with pytest.raises(ScheduleError, match="depend on loop 'i', which would come inside it"):
        sch.reorder(*sch.get_loops("Y")[::-1])


# --- what debug_mask notices ----------------------------------------------------------------------

Damage = Callable[[Schedule, StmtSRef], None]


def rename_the_loop(sch: Schedule, block: StmtSRef) -> None:
    """A loop gets a new variable, which nobody is told."""
    assert block.parent is not None
    loop = block.parent.loop
    renamed = replace(loop, loop_var=replace(loop.loop_var, name="renamed"))
    sch.state.replace(block.parent, renamed)


def exchange_the_buffer(sch: Schedule, block: StmtSRef) -> None:
    """A buffer is allocated anew, and its users keep the old one."""
    assert block.parent is not None
    root = block.parent.parent
    assert root is not None
    (old,) = root.block.alloc_buffers
    changed = replace(root.block, alloc_buffers=(replace(old, axis_separators=(0,)),))
    sch.state.replace(root, changed, {root.block: changed})


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (rename_the_loop, "damage broke the program: .*variable 'i' is used but nothing defines"),
        (exchange_the_buffer, "damage left uses of buffers that are no longer there: 'M'"),
    ],
)
def test_debug_mask_notices_stale_names(damage: Damage, text: str) -> None:
    class Damaging(Primitive[None]):
        method = "damage"
        block: BlockRV = given()

        def run(self, sch: Schedule) -> None:
            damage(sch, sch.get_sref(self.block))

    for mask in ("none", 3):
        careless = Schedule(guarded, debug_mask=mask)
        careless.run(Damaging(careless.get_block("M")))
    sch = Schedule(guarded, debug_mask="all")
    with pytest.raises(AssertionError, match=text):
        sch.run(Damaging(sch.get_block("M")))


def test_debug_mask_blames_no_primitive_for_a_program_that_was_broken() -> None:
    body = guarded.body.block  # type: ignore[attr-defined]
    broken = replace(guarded, body=replace(guarded.body, block=replace(body, alloc_buffers=())))
    sch = Schedule(broken, debug_mask="all")
    sch.annotate(sch.get_block("M"), "note", 1)
    assert '"note": 1' in sch.mod.script()

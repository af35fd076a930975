"""`transform_layout` and `set_axis_separator`: accesses, shapes, padding, and every refusal."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.arith import IndexMap
from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc, assert_structural_equal
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing import oracle
from tilewright.testing.schedule_checks import (
    assert_same_result,
    random_arguments,
    verify_trace_roundtrip,
)

Layout = Callable[..., Any] | IndexMap


@T.prim_func
def two(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")) -> None:
    B = T.alloc_buffer((16, 16))
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)


@T.prim_func
def copy14(A: T.Buffer((14,), "int32"), C: T.Buffer((14,), "int32")) -> None:
    B = T.alloc_buffer((14,), "int32")
    for i in range(14):
        with T.block("B"):
            vi = T.axis.spatial(14, i)
            B[vi] = A[vi]
    for i in range(14):
        with T.block("C"):
            vi = T.axis.spatial(14, i)
            C[vi] = B[vi]


@T.prim_func
def sums(A: T.Buffer((14, 8), "int32"), C: T.Buffer((14,), "int32")) -> None:
    B = T.alloc_buffer((14,), "int32")
    for i, k in T.grid(14, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]
    for i in range(14):
        with T.block("C"):
            vi = T.axis.spatial(14, i)
            C[vi] = B[vi]


def by_four(i: Any) -> Any:
    return i // 4, i % 4


def transformed(
    func: PrimFunc, block: str, buffer: tuple[str, int], layout: Layout, **more: Any
) -> Schedule:
    sch = Schedule(func, debug_mask="all")
    sch.transform_layout(sch.get_block(block), buffer, layout, **more)
    verify_trace_roundtrip(sch, func)
    return sch


def check(sch: Schedule, expected: PrimFunc, original: PrimFunc) -> None:
    assert_structural_equal(
        sch.mod["main"], expected.with_attr("global_symbol", original.attrs["global_symbol"])
    )


# --- without padding ----------------------------------------------------------------------------


def test_intermediate_buffer() -> None:
    @T.prim_func
    def expected(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")) -> None:
        B = T.alloc_buffer((4, 4, 4, 4))
        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi, vj])
                T.writes(B[vi // 4, vj // 4, vi % 4, vj % 4])
                B[vi // 4, vj // 4, vi % 4, vj % 4] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(16, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(B[vi // 4, vj // 4, vi % 4, vj % 4])
                T.writes(C[vi, vj])
                C[vi, vj] = B[vi // 4, vj // 4, vi % 4, vj % 4] + T.float32(1)

    sch = transformed(two, "B", ("write", 0), lambda i, j: (i // 4, j // 4, i % 4, j % 4))
    check(sch, expected, two)
    assert_same_result(two, sch.mod)
    assert sch.trace is not None
    assert sch.trace.as_python()[1] == (
        'sch.transform_layout(block=b0, buffer=("write", 0), '
        "index_map=lambda i, j: (i // 4, j // 4, i % 4, j % 4,), pad_value=None, "
        "assume_injective_transform=False)"
    )
    kind, inputs, attrs, outputs = sch.trace.as_json()[0][1]
    assert (kind, inputs[0], attrs, outputs) == ("TransformLayout", "b0", [0, 1, None, False], [])


LAYOUTS: list[Layout] = [
    lambda i, j: (j, i),
    lambda i, j: (i * 16 + j,),
    lambda i, j: (i // 8, j, i % 8),
    lambda i, j: (j % 2, i, j // 2),
    lambda i, j: ((i * 16 + j) // 32, (i * 16 + j) % 32),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("block", "buffer"), [("B", ("write", 0)), ("C", ("read", 0))])
def test_results_do_not_change(block: str, buffer: tuple[str, int], layout: Layout) -> None:
    assert_same_result(two, transformed(two, block, buffer, layout).mod)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parameters_change_the_signature(layout: Layout) -> None:
    sch = transformed(two, "B", ("read", 0), layout)
    sch.transform_layout(sch.get_block("C"), ("write", 0), layout)
    func = sch.mod["main"]
    index_map = layout if isinstance(layout, IndexMap) else IndexMap.from_func(layout)
    shapes = [[int(e.value) for e in b.shape] for b in func.buffer_map.values()]  # type: ignore[attr-defined]
    assert shapes == [[int(e.value) for e in index_map.map_shape([16, 16])]] * 2  # type: ignore[attr-defined]
    a, c = random_arguments(two)
    moved = [index_map.map_ndarray(a), index_map.map_ndarray(c)]
    oracle.run(two, a, c)
    oracle.run(func, *moved)
    np.testing.assert_array_equal(moved[1], index_map.map_ndarray(c))


def test_tiled_indices_are_simplified() -> None:
    sch = Schedule(two, debug_mask="all")
    block = sch.get_block("B")
    i, j = sch.get_loops(block)
    i_0, i_1 = sch.split(i, [4, 4])
    sch.blockize(i_1)
    sch.transform_layout(sch.get_block("B_o"), ("write", 0), lambda i, j: (i // 4, i % 4, j))
    verify_trace_roundtrip(sch, two)
    writes = [line.strip() for line in sch.mod.script().splitlines() if "T.writes(B" in line]
    assert writes == ["T.writes(B[vi_o, 0:4, 0:16])", "T.writes(B[vi_o, vi_i, vj_i])"]
    assert_same_result(two, sch.mod)
    del j, i_0


def test_handles_survive() -> None:
    sch = Schedule(two, debug_mask="all")
    block, consumer = sch.get_block("B"), sch.get_block("C")
    loops = sch.get_loops(block)
    sch.transform_layout(block, ("write", 0), lambda i, j: (j, i))
    sch.reorder(*reversed(loops))
    sch.compute_at(block, sch.get_loops(consumer)[0])
    verify_trace_roundtrip(sch, two)
    assert_same_result(two, sch.mod)


def test_maps_may_bring_their_inverse() -> None:
    layout = IndexMap.from_func(
        lambda i, j: (j // 4, i, j % 4), inverse_index_map=lambda a, b, c: (b, a * 4 + c)
    )
    sch = transformed(two, "B", ("write", 0), layout)
    assert_same_result(two, sch.mod)
    assert sch.trace is not None
    assert (
        "index_map=tir.IndexMap.from_func(lambda i, j: (j // 4, i, j % 4,), "
        "inverse_index_map=lambda a, b, c: (b, a * 4 + c,))" in sch.trace.as_python()[1]
    )


def test_axis_separators_are_a_step_of_their_own() -> None:
    separator = IndexMap.AXIS_SEPARATOR
    sch = transformed(two, "B", ("write", 0), lambda i, j: (i, separator, j))
    assert sch.trace is not None
    assert sch.trace.as_python()[1:] == [
        'sch.transform_layout(block=b0, buffer=("write", 0), index_map=lambda i, j: (i, j,), '
        "pad_value=None, assume_injective_transform=False)",
        'sch.set_axis_separator(block=b0, buffer=("write", 0), axis_separators=[1])',
    ]
    assert "B = T.alloc_buffer((16, 16), axis_separators=[1])" in sch.mod.script()


def test_axis_separators_of_a_parameter() -> None:
    sch = Schedule(two, debug_mask="all")
    sch.set_axis_separator("B", ("read", 0), [1])
    verify_trace_roundtrip(sch, two)
    buffers = list(sch.mod["main"].buffer_map.values())
    assert [buffer.axis_separators for buffer in buffers] == [(1,), ()]
    with pytest.raises(ScheduleError) as caught:
        Schedule(two, error_render_level="fast").set_axis_separator("B", ("read", 0), [2, 1])
    assert str(caught.value) == (
        "ScheduleError: set_axis_separator: the axis separators [2, 1] do not divide the 2 "
        "dimensions of 'A'; give ascending positions from 0 to the number of dimensions"
    )


# --- with padding -------------------------------------------------------------------------------


def test_the_block_that_computes_the_buffer_writes_the_padding() -> None:
    @T.prim_func
    def expected(A: T.Buffer((14,), "int32"), C: T.Buffer((14,), "int32")) -> None:
        B = T.alloc_buffer((4, 4), "int32")
        for axis0, axis1 in T.grid(4, 4):
            with T.block("B"):
                v_axis0, v_axis1 = T.axis.remap("SS", [axis0, axis1])
                T.reads(A[v_axis0 * 4 + v_axis1])
                T.writes(B[v_axis0, v_axis1])
                B[v_axis0, v_axis1] = T.if_then_else(
                    v_axis0 == 3 and 2 <= v_axis1,  # noqa: SIM300
                    7,
                    A[v_axis0 * 4 + v_axis1],
                )
        for i in range(14):
            with T.block("C"):
                vi = T.axis.spatial(14, i)
                T.reads(B[vi // 4, vi % 4])
                T.writes(C[vi])
                C[vi] = B[vi // 4, vi % 4]

    sch = transformed(copy14, "B", ("write", 0), by_four, pad_value=7)
    check(sch, expected, copy14)
    assert_same_result(copy14, sch.mod)
    assert sch.trace is not None
    assert "pad_value=lambda indices_0, indices_1: (7,)" in sch.trace.as_python()[1]


def test_padding_of_a_reduction() -> None:
    sch = transformed(sums, "B", ("write", 0), by_four, pad_value=0)
    assert_same_result(sums, sch.mod)
    assert "for axis0, axis1, k in T.grid(4, 4, 8):" in sch.mod.script()
    assert (
        "B[v_axis0, v_axis1] = T.if_then_else(v_axis0 == 3 and 2 <= v_axis1, 0, "
        "B[v_axis0, v_axis1] + A[v_axis0 * 4 + v_axis1, vk])" in sch.mod.script()
    )


def test_padding_is_filled_behind_a_nest_that_is_not_plain() -> None:
    @T.prim_func
    def expected(A: T.Buffer((14,), "int32"), C: T.Buffer((14,), "int32")) -> None:
        B = T.alloc_buffer((4, 4), "int32")
        for i_0, i_1 in T.grid(2, 7):
            with T.block("B"):
                vi = T.axis.spatial(14, i_0 * 7 + i_1)
                T.reads(A[vi])
                T.writes(B[vi // 4, vi % 4])
                B[vi // 4, vi % 4] = A[vi]
        for axis0, axis1 in T.grid(4, 4):
            with T.block("buffer_B_padding"):
                v_axis0, v_axis1 = T.axis.remap("SS", [axis0, axis1])
                T.where(axis0 == 3 and 2 <= axis1)  # noqa: SIM300
                T.reads()
                T.writes(B[v_axis0, v_axis1])
                B[v_axis0, v_axis1] = v_axis0 + v_axis1
        for i in range(14):
            with T.block("C"):
                vi = T.axis.spatial(14, i)
                T.reads(B[vi // 4, vi % 4])
                T.writes(C[vi])
                C[vi] = B[vi // 4, vi % 4]

    sch = Schedule(copy14, debug_mask="all")
    block = sch.get_block("B")
    sch.split(sch.get_loops(block)[0], [2, 7])
    sch.transform_layout(block, ("write", 0), by_four, pad_value=lambda io, ii: io + ii)
    verify_trace_roundtrip(sch, copy14)
    check(sch, expected, copy14)
    assert_same_result(copy14, sch.mod)


def test_padding_of_an_output() -> None:
    sch = transformed(copy14, "C", ("write", 0), by_four, pad_value=-1)
    a = np.arange(14, dtype=np.int32)
    c = np.zeros((4, 4), np.int32)
    oracle.run(sch.mod["main"], a, c)
    np.testing.assert_array_equal(c.reshape(-1), [*range(14), -1, -1])


def test_padding_of_an_input_is_assumed() -> None:
    sch = transformed(copy14, "B", ("read", 0), by_four, pad_value=0)
    assert 'with T.block("buffer_A_assumptions"):' in sch.mod.script()
    assert (
        "T.assume(not (v_axis0 == 3 and 2 <= v_axis1) or A[v_axis0, v_axis1] == 0)"
        in sch.mod.script()
    )
    a = np.zeros((4, 4), np.int32)
    a.reshape(-1)[:14] = np.arange(14)
    c = np.zeros(14, np.int32)
    tw.build(sch.mod)(a, c)
    np.testing.assert_array_equal(c, np.arange(14))


@pytest.mark.parametrize(
    "more", [{"assume_injective_transform": True}, {"pad_value": lambda i, j: T.undef("int32")}]
)
def test_padding_may_stay_unwritten(more: dict[str, Any]) -> None:
    sch = Schedule(copy14, debug_mask="all")
    sch.transform_layout("B", ("write", 0), by_four, **more)
    assert "if_then_else" not in sch.mod.script()
    assert "buffer_B_padding" not in sch.mod.script()
    assert_same_result(copy14, sch.mod)


# --- refusals -----------------------------------------------------------------------------------


def refused(func: PrimFunc, block: str, buffer: Any, layout: Layout, **more: Any) -> str:
    sch = Schedule(func, debug_mask="all", error_render_level="fast")
    handle = sch.get_block(block)
    before, steps = sch.mod, str(sch.trace)
    with pytest.raises(ScheduleError) as caught:
        sch.transform_layout(handle, buffer, layout, **more)
    assert sch.mod is before
    assert str(sch.trace) == steps
    return str(caught.value).removeprefix("ScheduleError: transform_layout: ")


def test_padding_needs_a_value() -> None:
    assert refused(copy14, "B", ("write", 0), by_four) == (
        "the index map lambda i: (i // 4, i % 4,) takes buffer 'B' from shape (14) to (4, 4) and "
        "adds elements where axis0 == 3 and 2 <= axis1; say with pad_value what they hold, or "
        "pass assume_injective_transform=True"
    )


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (0.5, "is of type float32, the buffer holds int32"),
        (lambda i, j: (i, j), "has 2 results, it must have one"),
        (
            IndexMap.from_func(lambda i: i),
            "takes 1 indices, the new layout has 2",
        ),
    ],
)
def test_padding_values_must_fit(value: Any, why: str) -> None:
    message = refused(copy14, "B", ("write", 0), by_four, pad_value=value)
    assert message == f"the pad_value of buffer 'B' {why}"


def test_padding_values_read_nothing() -> None:
    buffer = copy14.buffer_map[copy14.params[0]]
    message = refused(copy14, "B", ("write", 0), by_four, pad_value=lambda i, j: buffer[0])
    assert message == (
        "the pad_value of buffer 'B' reads a buffer; it may only depend on the indices"
    )


def test_maps_must_fit_the_buffer() -> None:
    assert refused(two, "B", ("write", 0), lambda i: (i,)) == (
        "the index map does not fit: the function takes 1 indices, but ndim is 2"
    )
    assert refused(two, "B", ("write", 0), IndexMap.from_func(lambda i: (i,))) == (
        "buffer 'B' has 2 dimensions, the index map takes 1"
    )
    assert refused(two, "B", ("write", 0), lambda i, j: (i + j,)).startswith(
        "the index map lambda i, j: (i + j,) cannot be inverted on buffer 'B': "
    )


@pytest.mark.parametrize(
    ("layout", "why"),
    [
        (lambda i, j: (i // 2, j), "it may send several elements to one place"),
        (lambda i, j: (i // 4, i % 2, j), "it may send several elements to one place"),
        (lambda i, j: (i - 3, j), "its indices may be negative"),
        (lambda i, j: (i + 3, j), "it leaves gaps in the new layout"),
        (lambda i, j: (i * 2, j), "the map cannot be inverted: an index advances in steps of 2"),
    ],
)
def test_no_element_is_lost_or_left_out(layout: Layout, why: str) -> None:
    message = refused(two, "B", ("write", 0), layout, pad_value=0)
    assert "cannot be inverted on buffer 'B': " + why in message


def test_what_resists_proof_is_tried_out() -> None:
    def layout(i: Any, j: Any) -> Any:
        return (i * 16 + j) // 24, (i * 16 + j) % 24

    assert_same_result(two, transformed(two, "B", ("write", 0), layout, pad_value=0).mod)


def test_views_and_pointers_cannot_follow() -> None:
    @T.prim_func
    def view(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")) -> None:
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                T.reads(A[vi * 4 : vi * 4 + 4, 0:16])
                T.writes(C[vi * 4 : vi * 4 + 4, 0:16])
                rows = T.match_buffer(A[vi * 4 : vi * 4 + 4, 0:16], (4, 16), offset_factor=1)
                for k, j in T.grid(4, 16):
                    with T.block("row"):
                        vk, vj = T.axis.remap("SS", [k, j])
                        C[vi * 4 + vk, vj] = rows[vk, vj]

    assert refused(view, "C", ("read", 0), lambda i, j: (j, i)) == (
        "buffer 'A' is accessed through its view 'rows', which cannot follow a change of its "
        "layout; change the layout before tensorizing, vectorizing or passing the buffer on"
    )
    assert refused(view, "row", ("read", 0), lambda i, j: (j, i)) == (
        "buffer 'rows' is a view of another one, made by match_buffer; change the buffer behind "
        "it instead"
    )

    @T.prim_func
    def pointer(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")) -> None:
        with T.block("C"):
            T.reads(A[0:16])
            T.writes(C[0:16])
            T.evaluate(T.call_extern("int32", "f", A.data, C.data))

    assert "accessed through its pointer" in refused(
        pointer, "C", ("read", 0), lambda i: (i // 4, i % 4)
    )


def test_strided_buffers_stay() -> None:
    @T.prim_func
    def strided(a: T.handle, C: T.Buffer((16, 16), "float32")) -> None:
        A = T.match_buffer(a, (16, 16), "float32", strides=(20, 1))
        for i, j in T.grid(16, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj]

    assert refused(strided, "C", ("read", 0), lambda i, j: (j, i)) == (
        "buffer 'A' has strides or an offset of its own; only compact buffers can change their "
        "layout"
    )


def test_padding_may_be_computed_from_the_indices(chain: PrimFunc) -> None:
    sch = Schedule(chain, debug_mask="all")
    layout, padding = (
        lambda i, j: (i // 5, i % 5, j),
        lambda a, b, c: (a * 12 + c).astype("float32"),
    )
    sch.transform_layout("B", ("write", 0), layout, pad_value=padding)
    assert 'T.Cast("float32", v_axis0 * 12 + v_axis2)' in sch.mod.script()
    verify_trace_roundtrip(sch, chain)
    assert_same_result(chain, sch.mod)

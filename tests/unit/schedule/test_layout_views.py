"""Layouts of views by `match_buffer`, of symbolic shapes, and without block iterators."""
# mypy: disable-error-code="valid-type, no-untyped-def, misc"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.errors import ScheduleError
from tilewright.ir import PrimFunc
from tilewright.schedule import Schedule
from tilewright.script import from_source, tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


@T.prim_func
def points(A: T.Buffer((16, 16)), C: T.Buffer((16, 16))) -> None:
    B = T.alloc_buffer((16, 16))
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(B[vi, vj])
            one = T.match_buffer(B[vi, vj], (), offset_factor=1)
            one[()] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(B[vi, vj])
            T.writes(C[vi, vj])
            same = T.match_buffer(B[vi, vj], (), offset_factor=1)
            C[vi, vj] = same[()] + T.float32(1)


@T.prim_func
def tiles(A: T.Buffer((16, 16)), C: T.Buffer((16, 16))) -> None:
    for i, j in T.grid(4, 2):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi * 4 : vi * 4 + 4, vj * 8 : vj * 8 + 8])
            T.writes(C[vi * 4 : vi * 4 + 4, vj * 8 : vj * 8 + 8])
            tile = T.match_buffer(A[vi * 4 : vi * 4 + 4, vj * 8 : vj * 8 + 8], (4, 8))
            for y, x in T.grid(4, 8):
                C[vi * 4 + y, vj * 8 + x] = tile[y, x]


@T.prim_func
def by_pointer(A: T.Buffer((16, 16)), C: T.Buffer((16, 16))) -> None:
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi * 4 : vi * 4 + 4, 0:16])
            T.writes(C[vi * 4 : vi * 4 + 4, 0:16])
            rows = T.match_buffer(A[vi * 4 : vi * 4 + 4, 0:16], (4, 16), offset_factor=1)
            T.evaluate(T.call_extern("int32", "f", rows.data, C.data))


@T.prim_func
def dynamic(a: T.handle, c: T.handle) -> None:
    n = T.int32()
    A = T.match_buffer(a, (n, 16))
    C = T.match_buffer(c, (n, 16))
    B = T.alloc_buffer((n, 16))
    for i, j in T.grid(n, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(n, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * T.float32(2)


def transformed(func: PrimFunc, block: str, buffer: Any, layout: Any, **options: Any) -> Schedule:
    sch = Schedule(func, debug_mask="all")
    sch.transform_layout(block, buffer, layout, **options)
    from_source(sch.mod.script())
    return sch


@pytest.mark.parametrize(
    "layout",
    [
        lambda i, j: (j, i),
        lambda i, j: (i * 16 + j,),
        lambda i, j: (i // 4, j // 8, i % 4, j % 8),
        lambda *axes, j: (j, te.AXIS_SEPARATOR, *axes),
    ],
)
def test_a_view_of_one_element_follows_any_layout(layout: Callable[..., Any]) -> None:
    sch = transformed(points, "B", "B", layout)
    verify_trace_roundtrip(sch, points)
    assert_same_result(points, sch.mod)


def test_a_view_of_a_tile_follows_where_it_stays_a_tile() -> None:
    sch = transformed(tiles, "C", "A", lambda i, j: (i // 4, j // 8, i % 4, j % 8))
    assert "tile = T.match_buffer(A[vi, vj, 0:4, 0:8], (4, 8))" in sch.mod.script()
    packed = np.arange(256, dtype="float32").reshape(4, 2, 4, 8)
    result = np.empty((16, 16), "float32")
    tw.build(sch.mod)(packed, result)
    np.testing.assert_array_equal(result, packed.transpose(0, 2, 1, 3).reshape(16, 16))


@pytest.mark.parametrize(
    "layout",
    [
        lambda i, j: (j, i),
        lambda i, j: (j // 8, i // 4, j % 8, i % 4),
        lambda i, j: (i // 4, j // 4, i % 4, j % 4),
        lambda i, j: (i * 16 + j,),
        lambda i, j: (i // 4, j // 8, i % 4, 7 - j % 8),
    ],
)
def test_a_view_that_would_be_torn_is_refused(layout: Callable[..., Any]) -> None:
    with pytest.raises(ScheduleError, match="accessed through its view 'tile', which cannot"):
        transformed(tiles, "C", "A", layout)


def test_a_view_known_by_its_pointer_keeps_its_rows() -> None:
    with pytest.raises(ScheduleError, match="accessed through the pointer of 'rows', which cannot"):
        transformed(by_pointer, "C", "A", lambda i, j: (i // 4, i % 4, j))


def test_views_get_the_separators_of_the_buffer() -> None:
    sch = Schedule(points, debug_mask="all")
    sch.set_axis_separator("B", ("write", 0), [1])
    text = sch.mod.script()
    assert "B = T.alloc_buffer((16, 16), axis_separators=[1])" in text
    for name in ("one", "same"):
        view = f"{name} = T.match_buffer(B[vi, vj], (), offset_factor=1, axis_separators=[1])"
        assert view in text
    from_source(text)
    assert_same_result(points, sch.mod)


@pytest.mark.parametrize(
    "layout",
    [
        lambda i, j: (j, i),
        lambda i, j: (i * 16 + j,),
        lambda i, j: (j * dynamic.buffer_map[dynamic.params[0]].shape[0] + i,),
        lambda *axes, j: (j, *axes),
        lambda i, j: (i // 4, j, i % 4),
        lambda i, j: ((i + 3) // 5, j, (i + 3) % 5),
    ],
)
def test_symbolic_shapes(layout: Callable[..., Any]) -> None:
    sch = transformed(dynamic, "B", "B", layout, pad_value=0.0)
    for rows in (1, 4, 10):
        given = np.random.default_rng(rows).random((rows, 16), "float32")
        result = np.empty_like(given)
        tw.build(sch.mod)(given, result)
        np.testing.assert_allclose(result, (given + 1) * 2, rtol=1e-6)
        assert_same_result(dynamic, sch.mod, sizes={"n": rows})


def test_padding_of_a_symbolic_extent() -> None:
    sch = transformed(dynamic, "B", "B", lambda i, j: (i // 4, j, i % 4), pad_value=0.0)
    text = sch.mod.script()
    assert "B = T.alloc_buffer(((n - n % -4) // 4, 16, 4))" in text
    assert "T.if_then_else(n % -4 != 0 and v_axis0 == n // 4 and n % 4 <= v_axis2" in text
    with pytest.raises(ScheduleError, match="adds elements where n % -4 != 0 and axis0 == n // 4"):
        transformed(dynamic, "B", "B", lambda i, j: (i // 4, j, i % 4))


@T.prim_func
def with_number(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32"), n: T.int32) -> None:
    B = T.alloc_buffer((16,), "int32")
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi]
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi]


def test_rows_of_a_length_that_is_an_argument() -> None:
    n = with_number.params[2]
    sch = transformed(with_number, "B", "B", lambda i: (i // n, i % n), pad_value=0)
    text = sch.mod.script()
    assert "B = T.alloc_buffer(((-16 % n + 16) // n, n), " in text
    place = "v_axis1 + v_axis0 * n"
    padding = f"-16 % n != 0 and ({place}) // n == 16 // n and 16 % n <= ({place}) % n"
    assert f"B[v_axis0, v_axis1] = T.if_then_else({padding}, 0, A[{place}])" in text
    given = np.arange(16, dtype="int32")
    for length in (1, 3, 4, 16, 20):
        result = np.zeros_like(given)
        tw.build(sch.mod)(given, result, length)
        np.testing.assert_array_equal(result, given)


def loop_sums(body: str) -> PrimFunc:
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((14, 8), "int32"), C: T.Buffer((14,), "int32"), D: T.Buffer((14,), "int32")):
    B = T.alloc_buffer((14,), "int32")
    for i in range(14):
        {body}
    for i in range(14):
        with T.block("C"):
            vi = T.axis.spatial(14, i)
            C[vi] = B[vi]
            D[vi] = vi
""")
    assert isinstance(func, PrimFunc)
    return func


SUM = """B[i] = 0
        for k in range(8):
            with T.block("B"):
                B[i] = B[i] + A[i, k]"""


def test_loops_without_iterators_run_over_the_padding() -> None:
    func = loop_sums(SUM)
    sch = transformed(func, "B", "B", lambda i: (i // 4, i % 4), pad_value=7)
    text = sch.mod.script()
    assert "B[axis0, axis1] = T.if_then_else(axis0 == 3 and 2 <= axis1, 7, 0)" in text
    assert "T.reads(B[axis0, axis1], A[axis0 * 4 + axis1, k])" in text
    assert "_padding" not in text
    assert_same_result(func, sch.mod)


@pytest.mark.parametrize(
    "body",
    [
        SUM + "\n        D[i] = 1",  # another buffer
        SUM + "\n        B[13 - i] = 1",  # other places
        SUM.replace("B[i] = 0", "B[i] = 0\n        T.evaluate(0)"),
        "for k in T.unroll(1):\n            with T.block('B'):\n                B[i + k] = A[i, k]",
    ],
)
def test_otherwise_the_padding_is_written_afterwards(body: str) -> None:
    func = loop_sums(body)
    sch = transformed(func, "B", "B", lambda i: (i // 4, i % 4), pad_value=7)
    assert 'with T.block("buffer_B_padding"):' in sch.mod.script()
    assert_same_result(func, sch.mod)


@pytest.mark.parametrize("buffer", [("write", 1), ("read", -1), ("both", 0), 0, "Z"])
@pytest.mark.parametrize("step", ["transform_layout", "set_axis_separator", "reindex"])
def test_a_buffer_that_is_not_there_fails_as_with_tvm(step: str, buffer: Any) -> None:
    more = {"transform_layout": [lambda i, j: (j, i)], "set_axis_separator": [[1]], "reindex": []}
    with pytest.raises(AssertionError) as caught:
        getattr(Schedule(points), step)("B", buffer, *more[step])
    assert isinstance(caught.value, ScheduleError)

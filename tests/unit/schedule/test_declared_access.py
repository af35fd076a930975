"""`annotate_buffer_access` and `unsafe_hide_buffer_access`."""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from typing import Any

import pytest

from tilewright.errors import ScheduleError
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip


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
            C[vi, vj] = B[vi, vj] + A[vi, vj]


def lines_of(sch: Schedule, *words: str) -> list[str]:
    return [
        line.strip()
        for line in sch.mod.script().splitlines()
        if any(word in line for word in words)
    ]


def test_region_in_ranges_and_points() -> None:
    sch = Schedule(two, debug_mask="all")
    sch.annotate_buffer_access("C", 0, "read", lambda i, j: ((i - 1, i + 1), j))
    sch.annotate_buffer_access("C", 1, "read", lambda i, j: ((i, i + 2), (j, j + 4)))
    sch.annotate_buffer_access("C", 0, "write", lambda i, j: (i, j))
    verify_trace_roundtrip(sch, two)
    assert_same_result(two, sch.mod)
    assert lines_of(sch, "T.reads(B", "block_attr", "T.writes(C") == [
        "T.reads(B[vi - 1:vi - 1 + 2, vj], A[vi:vi + 2, vj:vj + 4])",
        "T.writes(C[vi, vj])",
        'T.block_attr({"explicit_read_region": [0, 1], "explicit_write_region": [0]})',
    ]
    assert sch.trace is not None
    assert sch.trace.as_python()[1] == (
        'sch.annotate_buffer_access(block=b0, buffer_index=0, buf_type="read", '
        "gen_new_ranges=lambda vi, vj: [(vi - 1, vi + 1), (vj, vj + 1)])"
    )
    kind, inputs, attrs, _ = sch.trace.as_json()[0][1]
    assert (kind, inputs[:3], attrs) == ("AnnotateBufferAccess", ["b0", 0, 0], [])


def test_hidden_regions_are_gone() -> None:
    sch = Schedule(two, debug_mask="all")
    sch.unsafe_hide_buffer_access("C", "read", [0])
    sch.unsafe_hide_buffer_access("C", "write", [])
    verify_trace_roundtrip(sch, two)
    assert_same_result(two, sch.mod)
    assert lines_of(sch, "T.reads") == ["T.reads(A[vi, vj])", "T.reads(A[vi, vj])"]
    assert sch.get_producers(sch.get_block("C")) == []
    assert sch.trace is not None
    assert sch.trace.as_json()[0][1] == [
        "UnsafeHideBufferAccess",
        ["b0", '"read"', [0]],
        [],
        [],
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda sch: sch.unsafe_hide_buffer_access("C", "rd", [0]),
            "unsafe_hide_buffer_access: buf_type is 'read' or 'write', got 'rd'",
        ),
        (
            lambda sch: sch.unsafe_hide_buffer_access("C", "read", [2]),
            "unsafe_hide_buffer_access: block 'C' reads 2 buffers, none has number 2",
        ),
        (
            lambda sch: sch.annotate_buffer_access("C", 1, "write", lambda i, j: (i, j)),
            "annotate_buffer_access: block 'C' writes 1 buffers, none has number 1",
        ),
        (
            lambda sch: sch.annotate_buffer_access("C", 0, "both", lambda i, j: (i, j)),
            "buf_type is 'read' or 'write', got 'both'",
        ),
        (
            lambda sch: sch.annotate_buffer_access("C", 0, "read", lambda i, j: (i,)),
            "annotate_buffer_access: buffer 'B' has 2 dimensions, the new region gives 2 bounds; "
            "give a begin and an end for each dimension",
        ),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    sch = Schedule(two, debug_mask="all", error_render_level="fast")
    before = sch.mod
    with pytest.raises(ScheduleError) as caught:
        call(sch)
    assert str(caught.value) == f"ScheduleError: {message}"
    assert sch.mod is before


def test_ranges_are_pairs() -> None:
    sch = Schedule(two, debug_mask="all")
    with pytest.raises(ScheduleError) as caught:
        sch.annotate_buffer_access("C", 0, "read", lambda i, j: ((i, i + 1, 2), j))
    assert str(caught.value).startswith("a range of a region is a pair (begin, end), got (")

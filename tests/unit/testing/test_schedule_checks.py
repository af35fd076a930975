# mypy: disable-error-code="valid-type, no-untyped-def"
"""The checks of schedule tests notice what they are there to notice."""

from __future__ import annotations

import re

import pytest

from tilewright.ir import PrimFunc, StructuralMismatchError
from tilewright.schedule import Schedule
from tilewright.script import tir as T
from tilewright.testing.handwritten import matmul
from tilewright.testing.schedule_checks import (
    assert_same_result,
    random_arguments,
    verify_trace_roundtrip,
)


def doubled(factor: int) -> PrimFunc:
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 4), "int8")
        B = T.match_buffer(b, (n, 4), "int8")
        for i, j in T.grid(n, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.int8(factor)

    return main


def test_roundtrip_returns_the_repeated_schedule() -> None:
    func = matmul(8, 8, 8)
    sch = Schedule(func, seed=3)
    i, _, _ = sch.get_loops("C")
    sch.split(i, sch.sample_perfect_tile(i, 2))
    again = verify_trace_roundtrip(sch, func)
    assert again is not sch
    assert str(again.trace) == str(sch.trace)


def test_roundtrip_notices_another_program() -> None:
    sch = Schedule(matmul(8, 8, 8))
    sch.fuse(*sch.get_loops("C")[:2])
    with pytest.raises(StructuralMismatchError):
        verify_trace_roundtrip(sch, matmul(8, 4, 8), text_format="json")


def test_roundtrip_notices_an_unknown_format() -> None:
    sch = Schedule(matmul(8, 8, 8))
    text = "text_format is 'python', 'json' or both, got 'yaml'"
    with pytest.raises(AssertionError, match=re.escape(text)):
        verify_trace_roundtrip(sch, sch.mod, text_format="yaml")


def test_same_result_notices_a_difference() -> None:
    assert_same_result(doubled(2), doubled(2), seed=1)
    with pytest.raises(AssertionError, match="buffer B"):
        assert_same_result(doubled(2), doubled(3), seed=1)


def test_arguments_follow_the_signature() -> None:
    a, b = random_arguments(doubled(2), seed=5, sizes={"n": 3})
    assert a.shape == b.shape == (3, 4)
    assert a.dtype == "int8"
    again, _ = random_arguments(doubled(2), seed=5, sizes={"n": 3})
    assert (a == again).all()

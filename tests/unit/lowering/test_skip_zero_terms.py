"""Terms that are zero by construction are skipped where the schedule says so, and only there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tilewright.driver import lower
from tilewright.ir import PrimFunc
from tilewright.lowering.skip_zero_terms import SkipZeroTerms
from tilewright.script import from_source
from tilewright.testing.oracle import run

MARK = ', annotations={"skip_zero_terms": 1}'


def program(term: str, mark: str = MARK, first: str = "C[i]") -> PrimFunc:
    func = from_source(
        f"""
from tilewright.script import tir as T
@T.prim_func
def main(A: T.Buffer((9,), "float32"), B: T.Buffer((6,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        C[i] = T.float32(0)
        for k in T.serial(6{mark}):
            C[i] = {first} + {term}
"""
    )
    assert isinstance(func, PrimFunc)
    return func


def skipped(func: PrimFunc) -> list[str]:
    text = str(SkipZeroTerms().run_function(func)).splitlines()
    return [line.strip() for line in text[text.index("        C[i] = T.float32(0)") + 1 :]]


GUARDED = "T.if_then_else((i + k) % 2 == 0, A[i + k], T.float32(0))"


def test_guard_becomes_a_branch() -> None:
    assert skipped(program(f"{GUARDED} * B[k]")) == [
        "for k in range(6):",
        "if (i + k) % 2 == 0:",
        "C[i] = C[i] + A[i + k] * B[k]",
    ]


def test_either_factor_may_be_guarded() -> None:
    assert skipped(program(f"B[k] * {GUARDED}"))[-1] == "C[i] = C[i] + B[k] * A[i + k]"


def test_loops_without_the_mark_are_left() -> None:
    func = program(f"{GUARDED} * B[k]", mark="")
    assert SkipZeroTerms().run_function(func).body is func.body


PADDED = """
from tilewright.script import tir as T
@T.prim_func
def main(A: T.Buffer((12, 10), "float32"), W: T.Buffer((9,), "float32"),
         C: T.Buffer((12, 10), "float32")):
    for i, j in T.grid(12, 2):
        for t in T.unroll(5):
            C[i, j * 5 + t] = T.float32(0)
        for r in T.serial(3, annotations={"skip_zero_terms": 1}):
            for s in T.unroll(3):
                for t in T.unroll(5):
                    C[i, j * 5 + t] = C[i, j * 5 + t] + T.if_then_else(
                        1 <= i + r and i + r < 13 and 1 <= j * 5 + t + s and j * 5 + t + s < 11,
                        A[i + r - 1, j * 5 + t + s - 1], T.float32(0)) * W[r * 3 + s]
"""


def test_parts_of_a_guard_go_to_the_loops_they_depend_on() -> None:
    func = from_source(PADDED)
    assert isinstance(func, PrimFunc)
    text = str(SkipZeroTerms().run_function(func)).splitlines()
    assert [line.strip() for line in text[-6:]] == [
        "for r in range(3):",
        "if 1 <= i + r and i + r < 13:",
        "for s in T.unroll(3):",
        "for t in T.unroll(5):",
        "if T.likely(1 <= j * 5 + t + s and j * 5 + t + s < 11):",
        "C[i, j * 5 + t] = C[i, j * 5 + t] + A[i + r - 1, j * 5 + t + s - 1] * W[r * 3 + s]",
    ]


def test_padded_window() -> None:
    """Borders are cut off, and all that is left is right."""
    func = from_source(PADDED)
    assert isinstance(func, PrimFunc)
    rng = np.random.default_rng(0)
    a, w = (rng.integers(-4, 5, shape).astype("float32") for shape in ((12, 10), (9,)))
    expected, found = np.zeros((12, 10), "float32"), np.full((12, 10), np.nan, "float32")
    run(func, a, w, expected)
    lowered = lower(func)
    run(lowered, a, w, found)
    np.testing.assert_array_equal(found, expected)
    assert str(lowered).count("if ") == 2  # one test of rows for each half of the columns


@pytest.mark.parametrize(
    ("term", "first"),
    [
        (GUARDED, "C[i]"),  # no product
        ("T.if_then_else(k < 3, A[k], T.float32(1)) * B[k]", "C[i]"),  # not zero elsewhere
        (f"{GUARDED} * B[k]", "A[i]"),  # not added to what was there
        (f"{GUARDED} * B[k]", "C[3 - i]"),
        ("A[i + k] * B[k]", "C[i]"),
    ],
)
def test_other_terms_are_left(term: str, first: str) -> None:
    lines = skipped(program(term, first=first))
    assert len(lines) == 2
    assert not any(line.startswith("if ") for line in lines)


@settings(max_examples=40)
@given(
    period=st.integers(1, 4),
    offset=st.integers(0, 3),
    limit=st.integers(-2, 12),
    is_left=st.booleans(),
    is_lowered=st.booleans(),
)
def test_results_stay(
    period: int, offset: int, limit: int, is_left: bool, is_lowered: bool
) -> None:
    condition = f"(i + k + {offset}) % {period} == 0 and i + k < {limit}"
    guarded = f"T.if_then_else({condition}, A[i + k], T.float32(0))"
    func = program(f"{guarded} * B[k]" if is_left else f"B[k] * {guarded}")
    rng = np.random.default_rng(period)
    a, b = (rng.integers(-4, 5, size).astype("float32") for size in (9, 6))
    expected, found = np.zeros(4, "float32"), np.full(4, np.nan, "float32")
    run(func, a, b, expected)
    run(lower(func) if is_lowered else SkipZeroTerms().run_function(func), a, b, found)
    np.testing.assert_array_equal(found, expected)

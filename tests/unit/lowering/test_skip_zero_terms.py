"""Terms that are zero by construction are skipped where the schedule says so, and only there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tilewright.ir import PrimFunc
from tilewright.lowering import lower
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

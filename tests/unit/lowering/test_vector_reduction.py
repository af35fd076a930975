"""Reductions in vectors compute what the loop computes, for every length and width."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.driver import build, lower
from tilewright.ir import PrimFunc
from tilewright.script import from_source
from tilewright.testing.oracle import run

# reducer -> (start, one step); terms are small integers, so that their order does not matter
STEPS = {
    "sum": ("T.float32(0)", "B[i] + A[i, j, k]"),
    "sum, swapped": ("T.float32(0)", "A[i, j, k] + B[i]"),
    "product": ("T.float32(1)", "B[i] * A[i, j, k]"),
    "largest": ("T.float32(-100)", "T.max(B[i], A[i, j, k])"),
    "smallest": ("T.float32(100)", "T.min(B[i], A[i, j, k])"),
    "squares": ("T.float32(0)", "B[i] + A[i, j, k] * A[i, j, k]"),
}


def program(start: str, step: str, rows: int, length: int, width: int) -> PrimFunc:
    func = from_source(
        f"""
@T.prim_func
def main(A: T.Buffer((2, {rows}, {length}), "float32"), B: T.Buffer((2,), "float32")):
    for i in range(2):
        B[i] = {start}
        for j in T.serial({rows}, annotations={{"vector_reduction": {width}}}):
            for k in range({length}):
                B[i] = {step}
"""
    )
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize(
    ("length", "width"), [(16, 16), (37, 16), (64, 16), (7, 4), (23, 6), (3, 4)]
)
def test_all_lengths_and_widths(name: str, length: int, width: int) -> None:
    func = program(*STEPS[name], rows=3, length=length, width=width)
    values = np.random.default_rng(0).integers(1, 3, (2, 3, length)).astype("float32")
    expected, found = np.zeros(2, "float32"), np.full(2, np.nan, "float32")
    run(func, values, expected)
    build(func)(values, found)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", STEPS)
def test_a_length_that_is_known_when_the_program_runs(name: str) -> None:
    text = str(program(*STEPS[name], rows=3, length=1, width=16))
    symbolic = text.replace('A: T.Buffer((2, 3, 1), "float32")', "a: T.handle").replace(
        "    for i in range(2):",
        "    n = T.int32()\n    A = T.match_buffer(a, (2, 3, n))\n    for i in range(2):",
    )
    func = from_source(symbolic.replace("range(1)", "range(n)").replace("A[i, j, 0]", "A[i, j, k]"))
    assert isinstance(func, PrimFunc)
    assert "B_partial" in str(lower(func))
    kernel = build(func)
    for length in (0, 1, 15, 16, 17, 40, 64):
        values = np.random.default_rng(0).integers(1, 3, (2, 3, length)).astype("float32")
        expected, found = np.zeros(2, "float32"), np.full(2, np.nan, "float32")
        run(func, values, expected)
        kernel(values, found)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("step", ["B[i] or A[i, k]", "B[i] and A[i, k]"])
@pytest.mark.parametrize("length", [5, 16, 37, 64])
def test_conditions(step: str, length: int) -> None:
    start = "T.bool(False)" if " or " in step else "T.bool(True)"
    func = from_source(
        f"""
@T.prim_func
def main(A: T.Buffer((9, {length}), "bool"), B: T.Buffer((9,), "bool")):
    for i in range(9):
        B[i] = {start}
        for k in T.serial({length}, annotations={{"vector_reduction": 16}}):
            B[i] = {step}
"""
    )
    assert isinstance(func, PrimFunc)
    assert ("partial" in str(lower(func))) == (length >= 16)
    values = np.zeros((9, length), "bool") if " or " in step else np.ones((9, length), "bool")
    values[np.arange(0, 9, 2), np.arange(0, 9, 2) % length] ^= True
    expected, found = np.zeros(9, "bool"), np.zeros(9, "bool")
    run(func, values, expected)
    build(func)(values, found)
    np.testing.assert_array_equal(found, expected)


def test_what_is_gathered_has_no_masked_vector() -> None:
    func = from_source(
        """
@T.prim_func
def main(n: T.int32, A: T.Buffer((64,)), at: T.Buffer((64,), "int32"), B: T.Buffer((1,))):
    B[0] = T.float32(0)
    for k in T.serial(n, annotations={"vector_reduction": 4}):
        B[0] = B[0] + A[at[k]]
"""
    )
    assert isinstance(func, PrimFunc)
    assert "predicate" not in str(lower(func))
    kernel, values = build(func), np.arange(64, dtype="float32")
    places = np.random.default_rng(0).integers(0, 64, 64).astype("int32")
    for n in (0, 1, 3, 4, 7, 64):
        found = np.full(1, np.nan, "float32")
        kernel(n, values, places, found)
        assert found[0] == values[places[:n]].sum()


def test_partial_results_and_a_tree() -> None:
    text = str(lower(program(*STEPS["sum"], rows=2, length=40, width=16)))
    assert "B_partial_1[0:8] = B_partial_1[0:8] + B_partial_1[8:16]" in text
    assert "vector_reduction" not in text


@pytest.mark.parametrize(
    "step",
    [
        "B[i] * T.float32(2) + A[i, j, k]",  # order matters
        "B[i] + B[1 - i] * A[i, j, k]",  # a term reads the result
        "A[i, j, k]",  # no reduction at all
    ],
)
def test_other_loops_stay_as_they_are(step: str) -> None:
    func = program("T.float32(0)", step, rows=2, length=20, width=16)
    assert "partial" not in str(lower(func))
    values = np.random.default_rng(0).integers(0, 3, (2, 2, 20)).astype("float32")
    expected, found = np.zeros(2, "float32"), np.zeros(2, "float32")
    run(func, values, expected)
    build(func)(values, found)
    np.testing.assert_array_equal(found, expected)


def test_a_result_that_moves_with_the_loop_is_no_reduction() -> None:
    func = program("T.float32(0)", "B[i] + A[i, j, k]", rows=2, length=20, width=16)
    moving = str(func).replace("B[i] = B[i] + A", "B[j] = B[j] + A")
    changed = from_source(moving)
    assert isinstance(changed, PrimFunc)
    assert "partial" not in str(lower(changed))

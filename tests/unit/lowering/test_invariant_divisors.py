"""Quotients by what stays the same become products where the schedule says so, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.driver import lower
from tilewright.ir import PrimFunc
from tilewright.lowering.invariant_divisors import InvariantDivisors
from tilewright.script import from_source
from tilewright.testing.oracle import run


def program(value: str, mark: int = 1, dtype: str = "float32") -> PrimFunc:
    func = from_source(
        f"""
from tilewright.script import tir as T
@T.prim_func
def main(
    A: T.Buffer((4, 6), "{dtype}"), B: T.Buffer((6,), "{dtype}"), C: T.Buffer((4, 6), "{dtype}")
):
    for i in range(4):
        for k in T.serial(6, annotations={{"invariant_divisors": {mark}}}):
            C[i, k] = {value}
"""
    )
    assert isinstance(func, PrimFunc)
    return func


def stored(func: PrimFunc) -> str:
    text = str(InvariantDivisors().run_function(func))
    assert "invariant_divisors" not in text
    return text.splitlines()[-1].strip().removeprefix("C[i, k] = ")


def test_a_divisor_that_stays_the_same() -> None:
    assert stored(program("A[i, k] / B[i]")) == "A[i, k] * (T.float32(1) / B[i])"


@pytest.mark.parametrize("value", ["A[i, k] / B[k]", "A[i, k] / A[k % 4, 0]", "A[i, k] / C[i, 0]"])
def test_divisors_that_change(value: str) -> None:
    assert stored(program(value)) == value


def test_loops_without_the_mark_are_left() -> None:
    assert stored(program("A[i, k] / B[i]", mark=0)) == "A[i, k] / B[i]"


def test_integers_are_left() -> None:
    assert stored(program("T.truncdiv(A[i, k], B[i])", dtype="int32")) == "T.Div(A[i, k], B[i])"


@pytest.mark.parametrize("is_lowered", [False, True])
def test_results_differ_in_the_last_place_only(is_lowered: bool) -> None:
    func = program("A[i, k] / B[i]")
    random = np.random.default_rng(1)
    a, b = random.random((4, 6), dtype=np.float32), random.random(6, dtype=np.float32) + 1
    found = np.zeros((4, 6), np.float32)
    run(lower(func) if is_lowered else InvariantDivisors().run_function(func), a, b, found)
    np.testing.assert_array_max_ulp(found, a / b[:4, None], 1)

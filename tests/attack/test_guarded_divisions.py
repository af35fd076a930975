"""A division that is never reached neither stops the compiler nor the program."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import KernelAssertError, ScriptError
from tilewright.ir import PrimFunc
from tilewright.script import from_source
from tilewright.testing import oracle

# `{division}` is reached only where `b[i]` is not zero.
GUARDS = {
    "if_then_else": "c[i] = T.if_then_else(b[i] != 0, {division}, -7)",
    "else side": "c[i] = T.if_then_else(b[i] == 0, -7, {division})",
    "nested": "c[i] = T.if_then_else(a[i] > 0, T.if_then_else(b[i] != 0, {division}, 5), 6)",
    "and": "c[i] = T.Cast('int32', b[i] != 0 and {division} > 0)",
    "or": "c[i] = T.Cast('int32', b[i] == 0 or {division} > 0)",
    "statement": "if b[i] != 0:\n            c[i] = {division}\n        else: c[i] = 1",
    "conditional": "c[i] = {division} if b[i] != 0 else -7",
}
DIVISIONS = (
    "a[i] // b[i]",
    "T.truncmod(a[i], b[i])",
    "a[T.min(T.max(8 // b[i], 0), 15)]",
    "(a[i] // b[i]) // (b[i] * b[i])",
)
LOOPS = ("range", "T.vectorized", "T.unroll")


def _program(loop: str, statement: str) -> PrimFunc:
    text = f"""
@T.prim_func
def f(a: T.Buffer((16,), "int32"), b: T.Buffer((16,), "int32"), c: T.Buffer((16,), "int32")):
    for i in {loop}(16):
        {statement}
"""
    program = from_source(text)
    assert isinstance(program, PrimFunc)
    return program


def _operands() -> tuple[np.ndarray, np.ndarray]:
    a = np.arange(-8, 8, dtype="int32")
    return a, np.array([0, 1, -1, 2] * 4, "int32")


@pytest.mark.parametrize(("guard", "division"), list(itertools.product(GUARDS, DIVISIONS)))
def test_a_division_under_a_condition_is_compiled_as_it_is_interpreted(
    guard: str, division: str
) -> None:
    a, b = _operands()
    statement = GUARDS[guard].format(division=division)
    expected = np.zeros(16, "int32")
    oracle.run(_program("range", statement), a, b, expected)
    for loop in LOOPS:
        found = np.zeros(16, "int32")
        tw.build(_program(loop, statement))(a, b, found)
        np.testing.assert_array_equal(found, expected, err_msg=loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_selection_divides_where_it_chose_to(loop: str) -> None:
    a, b = _operands()
    found = np.zeros(16, "int32")
    tw.build(_program(loop, "c[i] = T.Select(b[i] != 0, a[i] // b[i], -7)"))(a, b, found)
    np.testing.assert_array_equal(found, np.where(b != 0, a // np.where(b == 0, 1, b), -7))


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("division", ["a[i] // 0", "T.truncmod(7, 0)", "5 // 0"])
def test_a_literal_zero_under_a_condition_stays_in_the_program(guard: str, division: str) -> None:
    program = _program("range", GUARDS[guard].format(division=division))
    assert str(from_source(str(program))) == str(program)
    a, _ = _operands()
    kernel, c = tw.build(program), np.zeros(16, "int32")
    kernel(a, np.zeros(16, "int32"), c)  # nothing divides
    if guard not in ("nested", "and", "or"):  # what is not stored may be simplified away
        with pytest.raises(KernelAssertError, match="division by zero"):
            kernel(a, np.ones(16, "int32"), c)


@pytest.mark.parametrize("division", ["a[i] // 0", "a[i] % 0", "T.truncdiv(a[i], 0)", "5 // 0"])
def test_a_literal_zero_that_is_always_reached_is_refused(division: str) -> None:
    with pytest.raises(ScriptError, match="by zero"):
        _program("range", f"c[i] = {division}")


def test_the_oracle_divides_vectors_of_other_lanes_than_their_condition_has() -> None:
    program = _program(
        "range",
        "c[0:8] = T.if_then_else(b[0:8] != T.Broadcast(0, 8), "
        "T.vectorlow('int32x8', a[0:16] // T.max(b[0:16], T.Broadcast(1, 16))), c[0:8])",
    )
    (a, b), expected, found = _operands(), np.zeros(16, "int32"), np.zeros(16, "int32")
    oracle.run(program, a, b, expected)
    tw.build(program)(a, b, found)
    np.testing.assert_array_equal(found, expected)

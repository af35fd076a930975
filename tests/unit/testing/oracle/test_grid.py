"""Computing loop nests at once must change nothing: random programs, both modes, bit by bit."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tilewright.ir import (
    HANDLE,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    PrimExpr,
    PrimFunc,
    Stmt,
    Var,
    const,
    decl_buffer,
    intrinsics,
    seq,
)
from tilewright.testing import oracle
from tilewright.testing.oracle import OracleOptions
from tilewright.testing.oracle.grid import plan_grid

SIZE = 64
A = decl_buffer((SIZE,), "float32", "A")
B = decl_buffer((SIZE,), "float32", "B")
C = decl_buffer((8, 8), "int32", "C")


@st.composite
def index(draw: st.DrawFn, variables: list[Var], limit: int) -> PrimExpr:
    """An index that mostly stays inside the buffer."""
    total: PrimExpr = const(draw(st.integers(0, 3)))
    for var in variables:
        total = total + var * draw(st.sampled_from([0, 0, 1, 1, 4, 8, 16]))
    if draw(st.booleans()):
        total = total % limit
    return total


@st.composite
def value(draw: st.DrawFn, variables: list[Var], store: BufferLoad) -> PrimExpr:
    other = B if store.buffer is A else A
    load = BufferLoad(other, (draw(index(variables, SIZE)),))
    own = draw(st.sampled_from(["none", "same", "any"]))
    result: PrimExpr = load * 1.1
    if own == "same":
        result = store + result
    elif own == "any":
        result = BufferLoad(store.buffer, (draw(index(variables, SIZE)),)) - result
    if draw(st.booleans()):
        condition = draw(index(variables, 7)) < draw(st.integers(1, 6))
        result = intrinsics.if_then_else(condition, result, const(2.5))
    return result


@st.composite
def body(draw: st.DrawFn, variables: list[Var], depth: int) -> Stmt:
    kinds = ["store", "store", "seq", "if", "let", "for"] if depth else ["store"]
    match draw(st.sampled_from(kinds)):
        case "seq":
            return seq([draw(body(variables, depth - 1)), draw(body(variables, depth - 1))])
        case "if":
            condition = draw(index(variables, 5)) < 3
            otherwise = draw(st.none() | body(variables, 0))
            return IfThenElse(condition, draw(body(variables, depth - 1)), otherwise)
        case "let":
            name = Var("t")
            return LetStmt(name, draw(index(variables, SIZE)), draw(body([*variables, name], 0)))
        case "for":
            inner = Var("r")
            extent = const(draw(st.integers(0, 3)))
            nested = draw(body([*variables, inner], depth - 1))
            return For(inner, const(0), extent, ForKind.SERIAL, nested)
    target = draw(st.sampled_from([A, B]))
    place = draw(index(variables, SIZE))
    stored = draw(value(variables, BufferLoad(target, (place,))))
    return BufferStore(target, stored, (place,))


@st.composite
def nest(draw: st.DrawFn) -> Stmt:
    variables = [Var(name) for name in "ijk"[: draw(st.integers(1, 3))]]
    statement = draw(body(variables, 2))
    for var in reversed(variables):
        extent = const(draw(st.integers(1, 6)))
        statement = For(var, const(draw(st.integers(0, 1))), extent, ForKind.SERIAL, statement)
    return statement


def outcome(func: PrimFunc, plain: bool, aliased: bool) -> tuple[str, bytes]:
    rng = np.random.default_rng(5)
    a = rng.standard_normal(SIZE).astype("float32")
    b = a if aliased else rng.standard_normal(SIZE).astype("float32")
    try:
        oracle.run(func, a, b, options=OracleOptions(plain=plain))
    except oracle.OutOfBoundsError:
        return "out of bounds", b""  # how far each got before does not matter
    return "done", a.tobytes() + b.tobytes()


@settings(max_examples=250)
@given(statement=nest(), aliased=st.booleans())
def test_grid_and_plain_agree(statement: Stmt, aliased: bool) -> None:
    params = (Var("a", HANDLE), Var("b", HANDLE))
    func = PrimFunc(params, statement, dict(zip(params, (A, B), strict=True)))
    assert outcome(func, False, aliased) == outcome(func, True, aliased)


def loop(var: Var, extent: int, statement: Stmt) -> For:
    return For(var, const(0), const(extent), ForKind.SERIAL, statement)


def test_plan_separates_reduction_loops() -> None:
    i, j, k = Var("i"), Var("j"), Var("k")
    place = (i * 8 + j,)
    update = BufferStore(A, BufferLoad(A, place) + BufferLoad(B, (k,)), place)
    plan = plan_grid(loop(k, 4, loop(i, 8, loop(j, 8, update))))
    assert plan is not None
    assert [each.loop_var for each in plan.parallel] == [i, j] or plan.parallel[0].loop_var is i
    assert plan.sequential[0].loop_var is k


@pytest.mark.parametrize("shift", [1, -1])
def test_a_loop_that_reads_its_neighbour_is_not_planned(shift: int) -> None:
    i = Var("i")
    shifted = BufferStore(A, BufferLoad(A, (i + shift,)), (i,))
    assert plan_grid(loop(i, 8, shifted)) is None


def test_a_million_multiply_adds_take_about_a_second_at_most() -> None:
    n = 100
    x, y, z = (decl_buffer((n, n), "float32", name) for name in "XYZ")
    i, j, k = Var("i"), Var("j"), Var("k")
    product = BufferLoad(x, (i, k)) * BufferLoad(y, (k, j))
    update = BufferStore(z, BufferLoad(z, (i, j)) + product, (i, j))
    params = tuple(Var(name, HANDLE) for name in "xyz")
    func = PrimFunc(
        params,
        loop(i, n, loop(j, n, loop(k, n, update))),
        dict(zip(params, (x, y, z), strict=True)),
    )
    arrays: list[Any] = [np.ones((n, n), "float32") for _ in range(2)]
    result = np.zeros((n, n), "float32")
    start = time.perf_counter()
    oracle.run(func, *arrays, result)
    assert time.perf_counter() - start < 2.0
    assert (result == n).all()

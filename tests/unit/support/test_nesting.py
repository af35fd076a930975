"""Deeply nested programs work, deeper ones end in an error; the recursion limit comes back."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.errors import IRError, LowerError, ScriptError, TensorExpressionError
from tilewright.ir import HANDLE, BufferStore, PrimExpr, PrimFunc, Var, const, decl_buffer
from tilewright.support.nesting import MAX_DEPTH, nested_deeply


def recurse(depth: int) -> int:
    return 0 if depth == 0 else 1 + recurse(depth - 1)


def test_there_is_room_inside_and_the_limit_comes_back() -> None:
    before = sys.getrecursionlimit()
    with nested_deeply(IRError, "a thing"):
        assert recurse(5000) == 5000
        with nested_deeply(IRError, "a thing in it"):
            assert sys.getrecursionlimit() >= MAX_DEPTH
        assert recurse(5000) == 5000
    assert sys.getrecursionlimit() == before


def test_too_deep_is_an_error() -> None:
    before = sys.getrecursionlimit()
    with pytest.raises(IRError) as caught, nested_deeply(IRError, "a thing"):
        recurse(MAX_DEPTH + 1)
    assert str(caught.value) == (
        "a thing is nested too deeply: store parts of it in buffers, or bind them to variables"
    )
    assert sys.getrecursionlimit() == before


def test_the_last_thread_puts_the_limit_back() -> None:
    before = sys.getrecursionlimit()
    inside, may_leave = threading.Event(), threading.Event()

    def stay() -> None:
        with nested_deeply(IRError, "a thing"):
            inside.set()
            may_leave.wait(10)

    with nested_deeply(IRError, "another"):
        thread = threading.Thread(target=stay)
        thread.start()
        assert inside.wait(10)
    assert sys.getrecursionlimit() >= MAX_DEPTH
    may_leave.set()
    thread.join(10)
    assert sys.getrecursionlimit() == before


def horner(steps: int) -> PrimFunc:
    a = te.placeholder((8,), name="A")

    def body(i: Var) -> PrimExpr:
        value = a[i] + 0.0
        for step in range(steps):
            value = value * a[i] + float(step)
        return value

    return te.create_prim_func([a, te.compute((8,), body, name="C")])


def long_sum(terms: int) -> PrimFunc:
    text = "@T.prim_func\ndef f(a: T.Buffer((2,), 'float32')):\n    a[0] = " + " + ".join(
        ["a[1]"] * terms
    )
    func = tw.script.from_source(text)
    assert isinstance(func, PrimFunc)
    return func


def test_hundreds_of_steps_build_print_and_run() -> None:
    func = horner(250)
    assert str(func).count("A[v_i]") > 250
    x, y = np.ones(8, "float32"), np.empty(8, "float32")
    tw.build(func)(x, y)
    np.testing.assert_array_equal(y, 1 + sum(range(250)))
    pair = np.ones(2, "float32")
    tw.build(long_sum(300))(pair)
    np.testing.assert_array_equal(pair, [300, 1])


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.support.nesting.MAX_DEPTH", 0)


@pytest.mark.usefixtures("no_room")
def test_too_many_steps_are_errors_everywhere() -> None:
    with pytest.raises(TensorExpressionError, match="the tensor expression is nested too deeply"):
        horner(600)
    with pytest.raises(ScriptError, match="the script is nested too deeply"):
        long_sum(1000)
    buffer, handle = decl_buffer((1,)), Var("a", HANDLE)
    value: PrimExpr = buffer[0]
    nested: PrimExpr = buffer[0]
    for _ in range(1000):
        value, nested = value + 1.0, 1.0 + nested
    assert str(value).count("+") == 1000  # a sum without parentheses is printed term by term
    with pytest.raises(IRError, match="the program to print is nested too deeply"):
        str(nested)
    store = BufferStore(buffer, value, (const(0),))
    with pytest.raises(LowerError, match="the program to lower is nested too deeply"):
        tw.lower(PrimFunc((handle,), store, {handle: buffer}))

"""`@T.prim_func` and `@I.ir_module` on Python definitions, and what they can see."""
# mypy: ignore-errors
# ruff: noqa: F821

from __future__ import annotations

import pytest

from tilewright.errors import ScriptError
from tilewright.ir import IRModule, PrimFunc, assert_structural_equal
from tilewright.script import from_source, ir as I, tir as T

SIZE = 8


@T.prim_func
def scale(A: T.Buffer((SIZE,), "float32"), B: T.Buffer((SIZE,), "float32")):
    for i in range(SIZE):
        with T.block("B"):
            vi = T.axis.spatial(SIZE, i)
            B[vi] = A[vi] * T.float32(2)


@I.ir_module
class Pair:
    @T.prim_func
    def main(A: T.Buffer((SIZE,), "float32")):
        Pair.helper(A.data)

    @T.prim_func
    def helper(p: T.handle("float32")):
        T.evaluate(0)


def test_a_function_of_a_file() -> None:
    assert isinstance(scale, PrimFunc)
    assert scale.name == "scale"
    assert 'def scale(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):' in str(scale)


def test_a_module_of_a_file() -> None:
    assert isinstance(Pair, IRModule)
    assert list(Pair.functions) == ["main", "helper"]
    assert_structural_equal(from_source(Pair.script()), Pair)


def make(extent: int, dtype: str, combine):
    @T.prim_func
    def made(A: T.Buffer((extent, extent), dtype), C: T.Buffer((extent,), dtype)) -> None:
        for i, j in T.grid(extent, extent):
            with T.block("C"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    C[vi] = T.Cast(dtype, 0)
                C[vi] = combine(C[vi], A[vi, vj])

    return made


def test_captured_names_in_body_and_annotations() -> None:
    func = make(4, "float16", lambda a, b: T.max(a, b))
    assert 'A: T.Buffer((4, 4), "float16")' in str(func)
    assert "C[vi] = T.max(C[vi], A[vi, vj])" in str(func)
    other = make(8, "int32", lambda a, b: a + b)
    assert "T.grid(8, 8)" in str(other)


def test_a_name_that_only_an_annotation_uses() -> None:
    def outer():
        shape = (3, 5)

        def inner():
            @T.prim_func(private=True)
            def func(A: T.Buffer(shape, "int8")):
                T.evaluate(0)

            return func

        return inner()

    func = outer()
    assert "T.Buffer((3, 5)" in str(func)
    assert "global_symbol" not in func.attrs


def test_a_module_made_by_a_function() -> None:
    def make_module(extent):
        @I.ir_module
        class Made:
            @T.prim_func
            def main(A: T.Buffer((extent,), "float32")):
                A[0] = T.float32(extent)

        return Made

    assert "A[0] = T.float32(3)" in str(make_module(3))
    assert "A[0] = T.float32(4)" in str(make_module(4))


def test_errors_name_the_file_and_line() -> None:
    with pytest.raises(ScriptError) as caught:

        @T.prim_func
        def func(A: T.Buffer((4,), "float32")):
            A[0] = T.float32(undefined_here)

    lines = str(caught.value).splitlines()
    assert lines[0] == "undefined variable 'undefined_here'"
    assert lines[1].endswith(f"test_decorators.py, line {lines[3].split('|')[0].strip()}")
    assert lines[3].endswith("A[0] = T.float32(undefined_here)")


def test_a_function_without_source_is_refused() -> None:
    names = {"T": T}
    with pytest.raises(ScriptError, match="the source of 'f' cannot be read"):
        exec("@T.prim_func\ndef f():\n    T.evaluate(0)", names)


@T.macro
def accumulate(target, index, value, times=1):
    step = value * T.float32(times)
    target[index] = target[index] + step


def test_macros_are_put_in_place_of_their_calls() -> None:
    @T.prim_func
    def func(A: T.Buffer((SIZE,), "float32")):
        for step in range(SIZE):
            accumulate(A, step, T.float32(3))
            accumulate(A, 0, A[step], times=2)

    assert str(func).splitlines()[4:] == [
        "    for step in range(8):",
        "        A[step] = A[step] + T.float32(3)",
        "        step_1: T.float32 = A[step] * T.float32(2)",
        "        A[0] = A[0] + step_1",
    ]


def test_an_error_in_a_macro_shows_the_macro() -> None:
    @T.macro
    def broken(target):
        target[0] = nothing

    with pytest.raises(ScriptError, match="target\\[0\\] = nothing"):

        @T.prim_func
        def func(A: T.Buffer((SIZE,), "float32")):
            broken(A)

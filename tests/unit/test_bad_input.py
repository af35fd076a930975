"""A user's mistakes, through the public API: each ends in an error that names the place."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import tir
from tilewright.errors import (
    ArgumentError,
    IRError,
    KernelAssertError,
    LowerError,
    RuntimeFailure,
    ScriptError,
    TargetError,
    WellFormedError,
)
from tilewright.ir import IRModule, PrimFunc


def program(body: str, params: str = 'a: T.Buffer((8,), "float32")') -> PrimFunc | IRModule:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return tw.script.from_source(f"@T.prim_func\ndef f({params}):\n{lines}")


def message_of(error: type[Exception], action: Callable[[], object]) -> str:
    with pytest.raises(error) as caught:
        action()
    return str(caught.value)


# --- arguments: dtype, shape, device, layout ---------------------------------------------------


@pytest.fixture(scope="module")
def increment() -> Any:
    return tw.build(program("for i in range(8):\n    a[i] = a[i] + 1.0"))


class OnTheGpu:
    """What a CUDA tensor of another library says about itself."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, **_: object) -> object:
        raise AssertionError("nobody may ask for the memory")


class Unwilling:
    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: object) -> object:
        raise ValueError("not today")


def read_only() -> Any:
    array = np.zeros(8, "float32")
    array.flags.writeable = False
    return array


ARGUMENTS: dict[str, tuple[Any, str]] = {
    "dtype": (np.zeros(8, "int32"), "dtype is int32, expected float32"),
    "byte order": (np.zeros(8, ">f4"), "dtype is byte-swapped float32, expected float32"),
    "extent": (
        np.zeros(9, "float32"),
        "shape is [9], expected 8 on axis 0 as in a: float32[8]",
    ),
    "rank": (
        np.zeros((2, 4), "float32"),
        "shape is [2, 4], expected 1 dimensions as in a: float32[8]",
    ),
    "device": (OnTheGpu(), "the array is on cuda:0, expected it on cpu"),
    "strides": (
        np.zeros(16, "float32")[::2],
        "strides are [2] elements, expected a C-contiguous array; pass numpy.ascontiguousarray(x), "
        "or declare the buffer with strides",
    ),
    "alignment": (
        np.frombuffer(bytearray(33), "uint8")[1:].view("float32"),
        "the data pointer is not aligned to its 4-byte elements; pass a copy (numpy.array(x))",
    ),
    "read-only": (read_only(), "the array is read-only but the function writes it"),
    "not an array": (
        [1.0] * 8,
        "expected a: float32[8], got list; pass a NumPy array or any object with __dlpack__ on the "
        "CPU",
    ),
    "nothing": (
        None,
        "expected a: float32[8], got None; pass a NumPy array or any object with __dlpack__ on the "
        "CPU",
    ),
    "hostile": (Unwilling(), "Unwilling does not share its memory: not today"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(increment: Any, name: str) -> None:
    argument, complaint = ARGUMENTS[name]
    expected = f"f(): argument 0 (a): {complaint}"
    assert message_of(ArgumentError, lambda: increment(argument)) == expected


def test_number_of_arguments(increment: Any) -> None:
    expected = "f() takes 1 argument (a: float32[8]), got 0"
    assert message_of(ArgumentError, increment) == expected


def test_scalar_arguments() -> None:
    scaled = tw.build(program("a[0] = a[0] * T.Cast('float32', n)", "n: T.int8, a: T.Buffer((1,))"))
    array = np.ones(1, "float32")
    for wrong in (200, 1.5, "1", None):
        assert message_of(ArgumentError, functools.partial(scaled, wrong, array)).startswith(
            "f(): argument 0 (n): "
        )
    scaled(np.int8(3), array)
    assert array[0] == 3


def test_shapes_that_must_agree() -> None:
    add = tw.build(
        tw.script.from_source(
            "@T.prim_func\n"
            "def f(x: T.handle, y: T.handle):\n"
            "    n = T.int32()\n"
            "    a = T.match_buffer(x, (n,))\n"
            "    b = T.match_buffer(y, (n,))\n"
            "    for i in range(n):\n"
            "        b[i] = a[i]\n"
        )
    )
    ok, longer = np.ones(4, "float32"), np.ones(5, "float32")
    text = message_of(ArgumentError, lambda: add(ok, longer))
    assert text.startswith("f(): argument 1 (b): shape is [5], expected 4")


# --- programs ----------------------------------------------------------------------------------

SCRIPTS: dict[str, tuple[str, str]] = {
    "constant index": (
        "a[8] = 1.0",
        "index 8 is out of bounds: dimension 0 of buffer 'a' goes from 0 to 7\n"
        " --> <script>, line 3\n"
        '2 | def f(a: T.Buffer((8,), "float32")):\n'
        "3 |     a[8] = 1.0\n"
        "  |     ^^^^",
    ),
    "negative index": (
        "a[0] = a[-1]",
        "index -1 is out of bounds: dimension 0 of buffer 'a' goes from 0 to 7\n"
        " --> <script>, line 3\n"
        '2 | def f(a: T.Buffer((8,), "float32")):\n'
        "3 |     a[0] = a[-1]\n"
        "  |            ^^^^^",
    ),
    "undefined variable": (
        "a[j] = 1.0",
        "undefined variable 'j'\n"
        " --> <script>, line 3\n"
        '2 | def f(a: T.Buffer((8,), "float32")):\n'
        "3 |     a[j] = 1.0\n"
        "  |       ^",
    ),
    "after its loop": (
        "for i in range(8):\n    a[i] = 1.0\na[i] = 2.0",
        "'i' is not defined here: its loop has ended\n"
        " --> <script>, line 5\n"
        "4 |         a[i] = 1.0\n"
        "5 |     a[i] = 2.0\n"
        "  |       ^",
    ),
    "loop variable inside a block": (
        "for i in range(8):\n    with T.block('b'):\n        vi = T.axis.spatial(8, i)\n"
        "        a[i] = 1.0",
        "loop variable 'i' is used inside block 'b': bind it to an iterator of the block, e.g. "
        "vi = T.axis.spatial(n, i)\n"
        " --> <script>, line 6\n"
        "5 |             vi = T.axis.spatial(8, i)\n"
        "6 |             a[i] = 1.0\n"
        "  |               ^",
    ),
    "block iterator after its block": (
        "for i in range(8):\n    with T.block('b'):\n        vi = T.axis.spatial(8, i)\n"
        "        a[vi] = 1.0\na[vi] = 2.0",
        "'vi' is not defined here: it is an iterator or buffer of block 'b', which has ended\n"
        " --> <script>, line 7\n"
        "6 |             a[vi] = 1.0\n"
        "7 |     a[vi] = 2.0\n"
        "  |       ^^",
    ),
    "constant that does not fit": (
        "a[0] = T.Cast('float32', T.int8(200))",
        "the constant 200 does not fit dtype int8, whose values are integers from -128 to 127\n"
        " --> <script>, line 3\n"
        '2 | def f(a: T.Buffer((8,), "float32")):\n'
        "3 |     a[0] = T.Cast('float32', T.int8(200))\n"
        "  |                              ^^^^^^^^^^^",
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts(name: str) -> None:
    body, expected = SCRIPTS[name]
    assert message_of(ScriptError, lambda: program(body)) == expected


LOWERED: dict[str, tuple[str, str]] = {
    "loop that runs too far": (
        "for i in range(9):\n    a[i] = 1.0",
        "function 'f' writes a outside its bounds: index `i` of dimension 0 reaches 8, valid "
        "indices are 0 to 7",
    ),
    "all iterations write": (
        "for i in T.parallel(8):\n    a[0] = a[0] + 1.0",
        "function 'f': parallel loop 'i' has a race: all its iterations write a[0]; make the loop "
        "serial, or give each iteration an element of its own",
    ),
    "two iterations write": (
        "for i in T.parallel(8):\n    a[i // 2] = a[i // 2] + 1.0",
        "function 'f': parallel loop 'i' has a race: iterations 0 and 1 both write a[0]; make the "
        "loop serial, or give each iteration an element of its own",
    ),
    "threads of a GPU": (
        "for i in T.thread_binding(8, thread='threadIdx.x'):\n    a[i] = 1.0",
        "function 'f': loop 'i' is bound to threadIdx.x, but target 'llvm' has no such threads; "
        "use parallel or a GPU target",
    ),
}


@pytest.mark.parametrize("name", LOWERED)
def test_programs_that_cannot_be_right(name: str) -> None:
    body, expected = LOWERED[name]
    func = program(body)
    assert message_of(LowerError, lambda: tw.build(func)) == expected


def test_programs_made_by_hand() -> None:
    buffer, handle, free = tir.decl_buffer((8,), name="a"), tir.Var("h", tir.HANDLE), tir.Var("n")

    def function(body: tir.Stmt) -> PrimFunc:
        return PrimFunc((handle,), body, {handle: buffer})

    store = tir.BufferStore(buffer, tir.const(1.0), (free,))
    assert message_of(WellFormedError, lambda: tw.build(function(store))) == (
        "function 'main' is not well-formed: variable 'n' is used but nothing defines it\n"
        "    a[n] = T.float32(1)\n"
        "      ^\n"
        "  help: make it a parameter, a loop variable, a block iterator or a let"
    )
    domain = tir.Range(tir.const(0), tir.const(8))
    iterator = tir.IterVar(domain, free, tir.IterType.DATA_PAR)
    unbound = tir.BlockRealize((), tir.TRUE, tir.Block((iterator,), (), (), "b", store))
    assert message_of(WellFormedError, lambda: tw.build(function(unbound))) == (
        "function 'main' is not well-formed: block 'b' has 1 iterators but 0 bindings\n"
        "  help: bind every iterator once"
    )
    outside = tir.BufferStore(buffer, tir.const(1.0), (tir.const(8),))
    assert message_of(LowerError, lambda: tw.build(function(outside))) == (
        "function 'main' writes a outside its bounds: index `8` of dimension 0 reaches 8, valid "
        "indices are 0 to 7"
    )


def test_undefined_variable_in_a_tensor_expression() -> None:
    free = tw.te.var("m")
    a = tw.te.placeholder((8,), name="A")
    b = tw.te.compute((8,), lambda i: a[i] * free.astype("float32"), name="B")
    text = message_of(WellFormedError, lambda: tw.build(tw.te.create_prim_func([a, b])))
    assert "variable 'm' is used but nothing defines it" in text


# --- dtypes and targets ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "complaint"),
    [
        ("float128", "dtype 'float128': float comes in 8, 16, 32, 64 bits"),
        (
            "complex64",
            "unknown dtype 'complex64': expected for example 'float32', 'int8' or 'bool'",
        ),
        ("float8", "dtype 'float8': 8-bit floats are 'float8_e4m3fn' and 'float8_e5m2'"),
    ],
)
def test_dtypes_that_no_target_has(dtype: str, complaint: str) -> None:
    text = message_of(
        ScriptError, lambda: program("T.evaluate(0)", f'a: T.Buffer((8,), "{dtype}")')
    )
    assert text.startswith(complaint)
    with pytest.raises(IRError, match=re.escape(complaint)):
        tir.decl_buffer((8,), dtype)


TARGETS: dict[Any, str] = {
    "lvm": "unknown target kind 'lvm'; did you mean 'llvm'?",
    "llvm -mcpu=foo": "LLVM knows no CPU 'foo' for ",
    "llvm -numcores=4": "target kind 'llvm' has no attribute 'numcores'; did you mean 'num-cores'?",
    3: "a target is a text, a dictionary or a Target, got 3",
}


@pytest.mark.parametrize("target", TARGETS)
def test_targets(target: Any) -> None:
    func = program("a[0] = 1.0")
    assert message_of(TargetError, lambda: tw.build(func, target)).startswith(TARGETS[target])


# --- entry points, and what happens while a kernel runs ----------------------------------------


def test_things_that_are_not_programs() -> None:
    entries: dict[str, Any] = {"build": tw.build, "lower": tw.lower}
    for name, entry in entries.items():
        expected = f"{name}() takes a PrimFunc or an IRModule, got int"
        assert message_of(ArgumentError, functools.partial(entry, 3)) == expected


def test_division_by_zero_in_a_kernel() -> None:
    divide = tw.build(program("a[0] = a[1] // a[2]", 'a: T.Buffer((3,), "int32")'))
    text = message_of(KernelAssertError, lambda: divide(np.zeros(3, "int32")))
    assert text == "f(): division by zero in `a[1] // a[2]`"


def test_functions_that_do_not_exist() -> None:
    extern = program('a[0] = T.call_extern("float32", "no_such_function", a[0])')
    assert message_of(RuntimeFailure, lambda: tw.build(extern)).startswith(
        "the kernel calls the extern function 'no_such_function', which no loaded library defines"
    )
    packed = tw.build(program('T.evaluate(T.call_packed("no.such", a[0]))'))
    assert message_of(RuntimeFailure, lambda: packed(np.zeros(8, "float32"))).startswith(
        "f(): the packed function 'no.such' raised RegistryError: no global function 'no.such'"
    )

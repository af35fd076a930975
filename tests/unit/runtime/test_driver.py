"""`build`: targets, extern functions, and what it refuses."""

# The annotations of a kernel are script, not types.
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.codegen.registry import find_backend
from tilewright.driver import build, compile_only, load
from tilewright.errors import ArgumentError, LowerError, RuntimeFailure, TargetError
from tilewright.ir import PrimFunc
from tilewright.runtime import load_module
from tilewright.runtime.extern_symbols import load_library
from tilewright.script import from_source, tir as T
from tilewright.target import Target


@T.prim_func
def increment(A: T.Buffer((4,), "int32")):
    for i in range(4):
        A[i] = A[i] + 1


def calls(symbol: str) -> PrimFunc:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = T.call_extern("int32", symbol, A[i], i)

    return main


def test_targets() -> None:
    for target in (None, "llvm", {"kind": "llvm"}, Target("llvm"), "llvm -mcpu=x86-64"):
        values = np.zeros(4, np.int32)
        build(increment, target)(values)
        assert values.tolist() == [1] * 4
    with Target("llvm -mcpu=x86-64"):
        assert build(increment).info.cpu == "x86-64"


def test_other_things_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"build\(\) takes a PrimFunc or an IRModule, got str"):
        build("main")  # type: ignore[call-overload]
    message = (
        "no backend compiles for target kind 'hexagon', there are 'c', 'cuda', 'llvm', 'vta'; "
        "register_backend() adds others"
    )
    with pytest.raises(TargetError, match=f"^{re.escape(message)}$"):
        find_backend("hexagon")


def test_an_argument_that_would_start_before_its_array() -> None:
    @T.prim_func
    def main(a: T.handle):
        A = T.match_buffer(a, (4,), "int32", elem_offset=4)
        A[0] = 1

    with pytest.raises(LowerError) as caught:
        build(main)
    assert str(caught.value) == (
        "function 'main': the argument A has elem_offset `4`, but it starts where its array "
        "starts; take a larger buffer and index into it"
    )


def test_code_for_another_machine_is_built_but_not_run() -> None:
    module = build(increment, "llvm -mtriple=aarch64-unknown-linux-gnu")
    assert module.info.triple == "aarch64-unknown-linux-gnu"
    with pytest.raises(
        RuntimeFailure,
        match=r"^increment\(\) cannot run: it was compiled for aarch64-unknown-linux-gnu, this",
    ):
        module(np.zeros(4, np.int32))


NAMED = """
@T.prim_func
def {name}(A: T.Buffer((64,), "float64")):
    for i in T.parallel(64):
        A[i] = {value}
"""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("floor", "T.floor(A[i])"),
        ("fma", "T.fma(A[i], A[i], A[i])"),
        ("fmod", "T.fmod(A[i], T.float64(2))"),
        ("memset", "T.float64(0)"),
        ("malloc", "A[i]"),
        ("tw_parallel_launch", "A[i]"),
    ],
)
def test_a_kernel_may_have_the_name_of_a_c_function(name: str, value: str) -> None:
    values, others = np.linspace(0.5, 9, 64), np.linspace(0.5, 9, 64)
    # An old CPU has to call the C library for most of these.
    build(from_source(NAMED.format(name=name, value=value)), "llvm -mcpu=x86-64")[name](values)
    build(from_source(NAMED.format(name="plain", value=value)))(others)
    assert values == pytest.approx(others, rel=1e-15)


# --- extern functions ---------------------------------------------------------------------------


def test_an_extern_function_by_address() -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int32)
    function = kind(lambda value, i: value * 10 + i)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    values = np.arange(4, dtype=np.int32)
    build(calls("my_function"), extern_symbols={"my_function": address})(values)
    assert values.tolist() == [0, 11, 22, 33]


def test_an_extern_function_of_the_process() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = T.call_extern("int32", "abs", A[i])

    values = np.array([-1, 2, -3, 4], np.int32)
    build(main)(values)
    assert values.tolist() == [1, 2, 3, 4]


def test_an_extern_function_of_a_library(tmp_path: Path, c_compiler: str) -> None:
    source, library = tmp_path / "mine.c", tmp_path / "mine.so"
    source.write_text("int t_weighted(int value, int i) { return value * (i + 1); }")
    subprocess.run([c_compiler, "-shared", "-fPIC", source, "-o", library], check=True)
    with pytest.raises(RuntimeFailure, match="'t_weighted'"):
        build(calls("t_weighted"))
    load_library(library)
    values = np.full(4, 5, np.int32)
    build(calls("t_weighted"))(values)
    assert values.tolist() == [5, 10, 15, 20]


def test_a_missing_function_is_named() -> None:
    with pytest.raises(RuntimeFailure) as caught:
        build(calls("no_such_function"))
    assert str(caught.value) == (
        "the kernel calls the extern function 'no_such_function', which no loaded library defines; "
        "load the library that does with tilewright.runtime.load_library(path), or pass its "
        "address: build(..., extern_symbols={'no_such_function': address})"
    )


@pytest.mark.parametrize("address", [0, -1, 1 << 64, "main", None])
def test_an_address_that_is_none(address: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        build(calls("f"), extern_symbols={"f": address})
    assert str(caught.value) == (
        f"extern_symbols['f']: expected the address of a function, got {address!r}"
    )


def test_a_library_that_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match=r"cannot load the library .*nothing\.so: "):
        load_library(tmp_path / "nothing.so")


def test_compiled_now_and_loaded_later() -> None:
    compiled = compile_only(increment)
    values = np.zeros(4, "int32")
    with pytest.raises(RuntimeFailure) as caught:
        compiled(values)
    assert str(caught.value) == "increment() cannot run: it was compiled, but not loaded"
    load(compiled)(values)
    np.testing.assert_array_equal(values, [1, 1, 1, 1])


def test_loading_a_module_of_a_library_again(tmp_path: Path) -> None:
    (library, *_) = compile_only(increment).export_library(tmp_path / "increment.so")
    module = load_module(library)
    assert load(module) is module

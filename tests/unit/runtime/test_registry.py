"""Global functions, and kernels that call them."""

# The annotations of a kernel are script, not types.
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright import te
from tilewright.driver import build
from tilewright.errors import ArgumentError, RegistryError, RuntimeFailure
from tilewright.ir.intrinsics import call_packed
from tilewright.runtime import packed_call
from tilewright.runtime.module import Module
from tilewright.runtime.registry import (
    PackedFunc,
    get_global_func,
    list_global_func_names,
    register_func,
    remove_global_func,
)
from tilewright.script import tir as T


@pytest.fixture(autouse=True)
def clean_registry() -> Iterator[None]:
    before = set(list_global_func_names())
    yield
    for name in set(list_global_func_names()) - before:
        remove_global_func(name)


def test_register_and_get() -> None:
    def double(x: int) -> int:
        return 2 * x

    assert register_func("t.double", double) is double
    found = get_global_func("t.double")
    assert isinstance(found, PackedFunc)
    assert (found(4), found.name, repr(found)) == (8, "t.double", "<packed function 't.double'>")
    assert "t.double" in list_global_func_names()
    remove_global_func("t.double")
    assert get_global_func("t.double", allow_missing=True) is None


def test_decorators() -> None:
    @register_func("t.named")
    def named() -> str:
        return "named"

    @register_func
    def t_unnamed() -> str:
        return "unnamed"

    assert (get_global_func("t.named")(), get_global_func("t_unnamed")()) == ("named", "unnamed")
    assert (named(), t_unnamed()) == ("named", "unnamed")


def test_a_name_is_taken_once() -> None:
    register_func("t.once", lambda: 1)
    with pytest.raises(RegistryError) as caught:
        register_func("t.once", lambda: 2)
    assert str(caught.value) == (
        "a global function 't.once' is registered already; pass override=True to replace it"
    )
    register_func("t.once", lambda: 3, override=True)
    assert get_global_func("t.once")() == 3


def test_mistakes() -> None:
    register_func("t.callback", lambda: 1)
    with pytest.raises(RegistryError) as caught:
        get_global_func("t.calback")
    assert str(caught.value) == (
        "no global function 't.calback' is registered; did you mean 't.callback'?; register it "
        "with register_func('t.calback', f)"
    )
    with pytest.raises(RegistryError, match=r"'t\.x' must be a function, got int"):
        register_func("t.x", 3)  # type: ignore[call-overload]
    with pytest.raises(RegistryError, match="expected a name, got 7"):
        register_func(7)  # type: ignore[call-overload]


# --- from kernels -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def caller() -> Module:
    @T.prim_func
    def main(
        A: T.Buffer((2, 3), "float32"),
        n: T.int32,
        u: T.uint64,
        x: T.float32,
        out: T.Buffer((1,), "int32"),
    ):
        out[0] = T.call_packed("t.inspect", A, n, u, x, "some text", A.data, n > 1)

    return build(main)


def test_every_kind_of_argument_arrives(caller: Module) -> None:
    seen: list[Any] = []

    @register_func("t.inspect")
    def inspect(*args: Any) -> int:
        seen.extend(args)
        args[0][1, 2] = 9
        return -5

    a, out = np.zeros((2, 3), np.float32), np.zeros(1, np.int32)
    caller(a, 3, 2**64 - 1, 1.5, out)
    tensor, n, u, x, text, pointer, flag = seen
    assert (tensor.shape, tensor.dtype, tensor.ctypes.data) == ((2, 3), np.float32, a.ctypes.data)
    assert (n, u, x, text) == (3, 2**64 - 1, 1.5, "some text")
    assert (pointer, flag) == (a.ctypes.data, True)
    assert a[1, 2] == 9
    assert out[0] == -5


def arguments() -> tuple[Any, ...]:
    return np.zeros((2, 3), np.float32), 1, 0, 0.0, np.zeros(1, np.int32)


def test_an_exception_ends_the_kernel(caller: Module) -> None:
    cause = ValueError("the data is odd")

    @register_func("t.inspect")
    def inspect(*args: Any) -> None:
        raise cause

    with pytest.raises(RuntimeFailure) as caught:
        caller(*arguments())
    assert str(caught.value) == (
        "main(): the packed function 't.inspect' raised ValueError: the data is odd"
    )
    assert caught.value.__cause__ is cause
    with pytest.raises(RuntimeFailure, match="the data is odd"):
        caller.time_evaluator("main", number=1)(*arguments())


def test_an_interrupt_stays_an_interrupt(caller: Module) -> None:
    @register_func("t.inspect")
    def inspect(*args: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        caller(*arguments())


def test_a_function_that_is_not_registered(caller: Module) -> None:
    with pytest.raises(
        RuntimeFailure, match=r"raised RegistryError: no global function 't\.inspect'"
    ):
        caller(*arguments())


def test_a_result_that_is_no_integer(caller: Module) -> None:
    register_func("t.inspect", lambda *args: "text")
    with pytest.raises(RuntimeFailure) as caught:
        caller(*arguments())
    assert isinstance(caught.value.__cause__, ArgumentError)
    assert str(caught.value).endswith(
        "a function called from a kernel returns an integer or None, not str"
    )


def test_calls_from_many_threads() -> None:
    @T.prim_func
    def main(A: T.Buffer((64,), "int32")):
        for i in T.parallel(64):
            A[i] = T.call_packed("t.square", i)

    lock, threads = threading.Lock(), set()

    @register_func("t.square")
    def square(i: int) -> int:
        with lock:
            threads.add(threading.get_ident())
        return i * i

    module, values = build(main), np.zeros(64, np.int32)
    module(values)
    assert values.tolist() == [i * i for i in range(64)]
    assert threads

    @register_func("t.square", override=True)
    def fail(i: int) -> int:
        raise ValueError(f"bad {i}")

    for _ in range(20):
        with pytest.raises(RuntimeFailure, match=r"raised ValueError: bad \d+"):
            module(values)
    register_func("t.square", square, override=True)
    module(values)
    assert len(packed_call._failures._pending) <= packed_call._KEPT_FAILURES


def test_a_kernel_that_calls_a_kernel() -> None:
    @T.prim_func
    def inner(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = A[i] + T.float32(1)

    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        T.evaluate(T.call_packed("t.inner", A))
        T.evaluate(T.call_packed("t.inner", A))

    register_func("t.inner", build(inner)["inner"])
    values = np.zeros(4, np.float32)
    build(main)(values)
    assert values.tolist() == [2] * 4


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int8", "bool", "float64"])
def test_extern_tensors_of_every_type(dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    source = te.placeholder((2, 4), dtype, "source")
    result = te.extern(
        (2, 4), [source], lambda ins, outs: call_packed("t.copy", ins[0], outs[0]), dtype=dtype
    )

    @register_func("t.copy")
    def copy(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> None:
        assert a.dtype == b.dtype == kind
        b[:] = a[::-1]

    module = build(te.create_prim_func([source, result]))
    given, made = np.array([[0, 1, 0, 1], [1, 1, 1, 0]], kind), np.zeros((2, 4), kind)
    module(given, made)
    assert made.astype(float).tolist() == given[::-1].astype(float).tolist()


def test_strides_of_a_part_of_a_buffer_arrive() -> None:
    @T.prim_func
    def main(A: T.Buffer((8, 8), "int32")):
        with T.block("part"):
            T.reads(A[2:4, 4:8])
            T.writes(A[2:4, 4:8])
            part = T.match_buffer(A[2:4, 4:8], (2, 4), "int32", strides=(8, 1), offset_factor=1)
            T.evaluate(T.call_packed("t.fill", part))

    @register_func("t.fill")
    def fill(part: np.ndarray[Any, Any]) -> None:
        assert part.shape == (2, 4)
        part[:] = 7

    values = np.zeros((8, 8), np.int32)
    build(main)(values)
    assert (values[2:4, 4:8] == 7).all()
    assert values.sum() == 7 * 8

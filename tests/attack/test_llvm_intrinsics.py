"""LLVM ends the process when it cannot select an intrinsic; a program that calls one must not."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import CodegenError
from tilewright.ir import PrimFunc
from tilewright.script import from_source


def _program(value: str, lanes: int = 17) -> PrimFunc:
    program = from_source(f"""
@T.prim_func
def f(a: T.Buffer((32,), "float32"), c: T.Buffer((32,), "float32")):
    c[0:{lanes}] = {value}
""")
    assert isinstance(program, PrimFunc)
    return program


def _scalar(dtype: str, name: str) -> str:
    call = f"T.call_llvm_pure_intrin('{dtype}', '{name}', T.uint32(0))"
    return f"T.Broadcast(T.Cast('float32', {call}), 17)"


@pytest.mark.parametrize(
    ("dtype", "name", "said"),
    [
        ("int32", "llvm.coro.size.i32", "Cannot select: intrinsic %llvm.coro.size"),
        ("int64", "llvm.vscale.i64", "Cannot select: "),
    ],
)
def test_what_llvm_gives_up_on_is_an_error(dtype: str, name: str, said: str) -> None:
    with pytest.raises(CodegenError) as caught:
        tw.build(_program(_scalar(dtype, name)))
    text = str(caught.value)
    assert text.startswith(f"LLVM gave up on a module that calls '{name}': {said}")


def test_an_unusual_intrinsic_that_llvm_knows_is_compiled() -> None:
    value = "T.call_llvm_pure_intrin('float32x17', 'llvm.canonicalize', T.uint32(1), a[0:17])"
    a, c = np.arange(32, dtype="float32"), np.zeros(32, "float32")
    tw.build(_program(value))(a, c)
    np.testing.assert_array_equal(c[:17], a[:17])


def test_usual_intrinsics_need_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("a child process was started")

    monkeypatch.setattr("tilewright.codegen.llvm.backend.compile_in_child", refuse)
    value = "T.call_llvm_pure_intrin('float32x16', 'llvm.sqrt', T.uint32(1), a[0:16])"
    a, c = np.arange(32, dtype="float32"), np.zeros(32, "float32")
    tw.build(_program(value, lanes=16))(a, c)
    np.testing.assert_allclose(c[:16], np.sqrt(a[:16]))

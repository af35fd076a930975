"""Vectors that LLVM is not known to compile never reach LLVM in the user's own process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.codegen.llvm import types
from tilewright.codegen.llvm.compiler import MachineOptions
from tilewright.codegen.llvm.module import generate
from tilewright.codegen.llvm.trial import LLVMGaveUp, compile_in_child
from tilewright.driver import compile_only
from tilewright.errors import CodegenError
from tilewright.ir import PrimFunc
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.script import from_source
from tilewright.target import Target
from tilewright.target.vector_types import is_known_vector
from tilewright.testing import oracle

LANES = (17, 33, 65, 127, 129)
DTYPES = ("bfloat16", "float16", "bool", "int8", "float64")
COOPERLAKE = MachineOptions("cooperlake", "", "x86_64-unknown-linux-gnu")
needs_x86 = pytest.mark.skipif(
    not Target("llvm").cpu.triple.startswith("x86_64"), reason="compiles for x86"
)


def _copy_ir(type_: str) -> str:
    return (
        "define void @f(ptr %a, ptr %b) {\n"
        f"  %x = load {type_}, ptr %a, align 2\n"
        f"  store {type_} %x, ptr %b, align 2\n"
        "  ret void\n}\n"
    )


def _func(body: str, dtype: str, size: int = 400) -> PrimFunc:
    program = from_source(f"""
@T.prim_func
def f(a: T.Buffer(({size},), "{dtype}"), p: T.Buffer(({size},), "int32"),
      c: T.Buffer(({size},), "{dtype}")):
    {body}
""")
    assert isinstance(program, PrimFunc)
    return program


def _arguments(dtype: str, size: int = 400) -> list[Any]:
    values = np.arange(size) % (2 if dtype == "bool" else 100)
    places = np.random.default_rng(0).permutation(size).astype("int32")
    return [values.astype(to_numpy(dtype)), places, np.zeros(size, to_numpy(dtype))]


BODIES = {
    "loop": "for i in T.vectorized({n}): c[i + 1] = a[i * 2]",
    "tail": "for i in T.vectorized({n}):\n        if i < {n} - 2: c[i] = a[{n} - i]",
    "copy": "c[0:{n}] = a[1:1 + {n}]",
    "stride": "c[T.Ramp(5, 3, {n})] = a[T.Ramp({n}, -1, {n})]",
    "overlap": "c[1:1 + {n}] = a[0:{n}]\n    c[2:2 + {n}] = c[1:1 + {n}]",
    "select": "c[0:{n}] = T.Select(p[0:{n}] < p[1:1 + {n}], a[0:{n}], a[3:3 + {n}])",
    "broadcast": "c[0:{n}] = T.Broadcast(a[7], {n})",
    "overwritten": "c[0:{n}] = T.Broadcast(T.Cast('{d}', c[0] == a[0]), {n})",
    "gather": "c[0:{n}] = a[p[T.Ramp(0, 1, {n})]]",
    "scatter": "c[p[T.Ramp(0, 1, {n})]] = a[0:{n}]",
    "named": "x = T.Select(p[0:{n}] < p[1:1 + {n}], a[0:{n}], a[3:3 + {n}])\n"
    "    c[0:{n}] = x\n    c[{n}:2 * {n}] = x",
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("body", BODIES)
def test_unusual_lengths_are_compiled_here_and_run_right(
    body: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.codegen.llvm.backend.compile_in_child", _refuse)
    for lanes in LANES:
        func = _func(BODIES[body].format(n=lanes, d=dtype), dtype)
        expected, actual = _arguments(dtype), _arguments(dtype)
        oracle.run(func, *expected)
        tw.build(func)(*actual)
        np.testing.assert_array_equal(actual[2].view("u1"), expected[2].view("u1"))


def _refuse(*arguments: object) -> None:
    raise AssertionError("a child process was started")


@pytest.mark.parametrize("dtype", ["float16", "int8", "float64"])
def test_buffers_of_vectors(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.codegen.llvm.backend.compile_in_child", _refuse)
    body = f"""t = T.alloc_buffer((4,), "{dtype}x17")
    for i in range(4):
        t[i] = a[i * 17 : i * 17 + 17]
    for i in range(4):
        c[i * 17 : i * 17 + 17] = t[3 - i] + t[i]"""
    a, p, c = _arguments(dtype, 68)
    tw.build(_func(body, dtype, 68))(a, p, c)
    rows = a.reshape(4, 17)
    np.testing.assert_array_equal(c.reshape(4, 17), rows[::-1] + rows)


def test_a_call_that_cannot_be_taken_apart_is_compiled_elsewhere_and_runs_right() -> None:
    call = "T.call_llvm_pure_intrin('float64x17', 'llvm.sqrt', T.uint32(1), a[0:17])"
    func = _func(f"c[0:17] = {call}", "float64")
    lowered = tw.lower(func, Target("llvm"))
    assert generate(lowered, Target("llvm")).unknown_vectors() == ("<17 x double>",)
    a, p, c = _arguments("float64")
    tw.build(func)(a, p, c)
    np.testing.assert_array_equal(c[:17], np.sqrt(a[:17]))


@needs_x86
@pytest.mark.parametrize("lanes", [17, 33, 65, 129])
def test_an_abort_is_an_error(lanes: int) -> None:
    with pytest.raises(LLVMGaveUp, match=r"LLVM gave up on a copy: .*[Pp]romote"):
        compile_in_child(_copy_ir(f"<{lanes} x bfloat>"), COOPERLAKE, "a copy")


@needs_x86
def test_a_compilation_without_end_is_an_error() -> None:
    slow = _copy_ir("<30000 x i1>")
    with pytest.raises(
        LLVMGaveUp, match=r"^LLVM gave up on it: it did not finish within 1 seconds$"
    ):
        compile_in_child(slow, COOPERLAKE, "it", time_limit_s=1)


def test_an_error_of_the_child_is_the_error_of_compiling_here() -> None:
    with pytest.raises(CodegenError, match=r"^LLVM cannot parse the generated IR, line 1"):
        compile_in_child("nonsense", COOPERLAKE, "it")


@needs_x86
def test_an_abort_of_a_program_names_its_types_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the two measures that keep bfloat of 17 lanes from LLVM, the third one holds."""
    plain = types.value_type, types.memory_type

    def bfloat(dtype: Any) -> str:
        return "<17 x bfloat>" if dtype == "bfloat16x17" else plain[0](dtype)

    monkeypatch.setattr("tilewright.codegen.llvm.memory.value_type", bfloat)
    monkeypatch.setattr("tilewright.codegen.llvm.memory.memory_type", bfloat)
    monkeypatch.setattr(
        "tilewright.lowering.legalize_vectors.known_lanes", lambda lanes, size: lanes
    )
    with pytest.raises(CodegenError) as caught:
        compile_only(_func("c[0:17] = a[0:17]", "bfloat16"), "llvm -mcpu=cooperlake")
    assert str(caught.value).startswith(
        "LLVM gave up on 'f' with vectors of <17 x bfloat> (use vectors of 2 to 16 lanes, or of a "
        "power of two up to 64): "
    )


@pytest.mark.parametrize(
    ("element", "lanes", "known"),
    [
        ("float", 2, True), ("half", 15, True), ("half", 17, False), ("float", 24, False),
        ("double", 64, True), ("float", 128, False), ("half", 128, True), ("i8", 256, True),
        ("i1", 512, False), ("bfloat", 16, True), ("bfloat", 9, False), ("ptr", 4, False),
        ("i24", 4, False),
    ],
)  # fmt: skip
def test_table(element: str, lanes: int, known: bool) -> None:
    assert is_known_vector(element, lanes) == known


@pytest.mark.parametrize(("extent", "kind"), [(1000003, "range"), (4099, "unroll")])
def test_very_long_loops_are_loops_of_vectors(extent: int, kind: str) -> None:
    func = _func(f"for i in T.vectorized({extent}): c[i] = a[i]", "float32", extent)
    text = str(tw.lower(func))
    assert f"T.{kind}(" in text or f"in {kind}(" in text
    a, p, c = _arguments("float32", extent)
    tw.build(func)(a, p, c)
    np.testing.assert_array_equal(a, c)

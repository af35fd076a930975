"""Functions, their packed twins, and the bodies of parallel loops."""

from __future__ import annotations

import re

import pytest

from tilewright.codegen.llvm.module import generate
from tilewright.codegen.program_facts import captured_vars
from tilewright.errors import CodegenError
from tilewright.ir import (
    Add,
    AssertStmt,
    BufferLoad,
    BufferStore,
    DType,
    For,
    ForKind,
    IRModule,
    LetStmt,
    PrimExpr,
    PrimFunc,
    Var,
    as_module,
    const,
    seq,
)
from tilewright.lowering.host_abi import HostABI
from tilewright.target import Target
from tilewright.testing.kernels import flat, kernel, llvm_source

A, OUT, I, N = flat("a", 64), flat("out", 64), Var("i"), Var("n")
PARALLEL = For(
    I, const(0), const(64), ForKind.PARALLEL, BufferStore(OUT, BufferLoad(A, (I + N,)), (I,))
)


def test_every_function_has_a_packed_twin() -> None:
    flag, half = Var("flag", DType("bool")), Var("h", DType("float16"))
    text = llvm_source(kernel([A, N, flag, half], BufferStore(A, const(1.0), (N,))))
    assert "define i32 @main(ptr noalias %arg0, i32 %arg1, i1 %arg2, half %arg3)" in text
    assert "define i32 @main.packed(ptr %slots)" in text
    assert "%b2 = load i8, ptr %p2, align 8\n  %a2 = trunc i8 %b2 to i1" in text
    assert "call i32 @main(ptr %a0, i32 %a1, i1 %a2, half %a3)" in text


def test_parallel_bodies_get_their_pointers_as_parameters() -> None:
    text = llvm_source(kernel([A, OUT, N], PARALLEL))
    header = re.search(r"define internal i32 @main\.parallel0\.body\(([^)]*)\)", text)
    assert header is not None
    assert header[1].split(", ") == [
        "i64 %begin", "i64 %end", "ptr noalias %arg0", "ptr noalias %arg1", "i64 %arg2"
    ]  # fmt: skip
    assert "call i32 @tw_parallel_launch(ptr @main.parallel0" in text
    assert text.count("@tw_parallel_launch") == 2  # the call and the declaration


def test_constants_are_not_captured() -> None:
    outer = For(N, const(3), const(1), ForKind.UNROLLED, PARALLEL)
    text = llvm_source(kernel([A, OUT], outer))
    header = re.search(r"define internal i32 @main\.parallel0\.body\(([^)]*)\)", text)
    assert header is not None
    assert header[1].count("i64") == 2  # where to begin and to end


def test_captured_variables() -> None:
    x, free = Var("x"), Var("free")
    body = LetStmt(x, free + I, BufferStore(OUT, BufferLoad(A, (x,)), (I,)))
    found = captured_vars(For(I, const(0), N, ForKind.PARALLEL, body))
    assert {id(var) for var in found} == {id(free), id(A.data), id(OUT.data)}


def test_messages_are_numbered_through_the_module() -> None:
    check = AssertStmt(
        N > 0, "first", AssertStmt(N > 1, "second", BufferStore(A, const(0.0), (N,)))
    )
    one, two = kernel([A, N], check, name="one"), kernel([A, N], check, name="two")
    module = HostABI()(IRModule({"one": one, "two": two}), None)
    source = generate(module, Target("llvm"))
    assert source.messages == ("first", "second", "first", "second")
    assert source.entry_points == ("one", "two")
    assert all(f"ret i32 {code}" in source.text for code in (1, 2, 3, 4))


def test_vectors_are_as_wide_as_the_target_likes() -> None:
    func = kernel([A], BufferStore(A, const(0.0), (const(0),)))
    for cpu, bits in (("x86-64", 128), ("haswell", 256), ("skylake-avx512", 512)):
        assert f'"prefer-vector-width"="{bits}"' in llvm_source(func, Target(f"llvm -mcpu={cpu}"))


def test_names_end_with_their_scope() -> None:
    inside = BufferStore(OUT, const(1.0), (N,))
    for scope in (
        For(N, const(0), const(4), ForKind.SERIAL, inside),
        For(N, const(0), const(4), ForKind.UNROLLED, inside),
        LetStmt(N, const(3), inside),
    ):
        with pytest.raises(CodegenError, match="variable n is used but not defined"):
            llvm_source(kernel([OUT], seq([scope, inside])))


def test_expressions_that_are_nested_too_deeply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.support.nesting.MAX_DEPTH", 0)
    value: PrimExpr = BufferLoad(A, (const(0),))
    for _ in range(2000):
        value = Add(value, value.b if isinstance(value, Add) else value)
    store = BufferStore(OUT, value, (const(0),))
    lowered = PrimFunc((A.data, OUT.data), store, {}, {"global_symbol": "main"})
    with pytest.raises(CodegenError, match="function 'main' is nested too deeply"):
        generate(as_module(lowered), Target("llvm"))


def test_functions_must_be_lowered() -> None:
    func = kernel([A], BufferStore(A, const(0.0), (const(0),)))
    with pytest.raises(CodegenError, match=r"'main' still has buffer parameters; run lower\(\)"):
        generate(as_module(func), Target("llvm"))

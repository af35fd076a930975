"""The text of statements: guards of loops, unrolling, metadata, allocation."""

from __future__ import annotations

import pytest

from tilewright.codegen.llvm import stmt as stmt_module
from tilewright.codegen.llvm.stmt import statement_count
from tilewright.codegen.program_facts import constant_bytes
from tilewright.ir import (
    TRUE,
    Allocate,
    BufferStore,
    DType,
    For,
    ForKind,
    IfThenElse,
    PointerType,
    PrimExpr,
    Stmt,
    Var,
    const,
    decl_buffer,
    seq,
)
from tilewright.testing.kernels import flat, kernel, llvm_source

OUT, I, N = flat("out", 64, "int32"), Var("i"), Var("n")


def loop(extent: PrimExpr, kind: ForKind = ForKind.SERIAL, begin: int = 0) -> For:
    return For(I, const(begin), extent, kind, BufferStore(OUT, I, (I,)))


def source(body: Stmt) -> str:
    text = llvm_source(kernel([OUT, N], body))
    return text[: text.index("}")]


def test_only_loops_that_may_not_run_are_guarded() -> None:
    assert "icmp slt i64 0," not in source(loop(const(8)))
    assert "icmp slt i64 0, " in source(loop(N))


def test_the_counter_does_not_promise_what_negative_bounds_break() -> None:
    assert "add nsw i64" in source(loop(const(8), begin=-4))
    assert "nuw" not in source(loop(const(8), begin=-4))


def test_unrolled_loops_are_written_out() -> None:
    text = source(loop(const(5), ForKind.UNROLLED))
    assert text.count("store i32") == 5
    assert "br" not in text


def test_long_unrolled_loops_stay_loops_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stmt_module, "UNROLL_LIMIT", 4)
    whole = llvm_source(kernel([OUT, N], loop(const(5), ForKind.UNROLLED)))
    assert whole.count("store i32") == 1
    assert "llvm.loop.unroll.full" in whole


def test_statement_count_multiplies_unrolled_loops() -> None:
    inner = loop(const(3), ForKind.UNROLLED)
    body = For(N, const(0), const(4), ForKind.UNROLLED, seq([inner, loop(const(9))]))
    assert statement_count(body) == 4 * (3 + 1)
    assert statement_count(IfThenElse(TRUE, inner, inner)) == 6


def allocation(extent: PrimExpr, dtype: str = "float32") -> Allocate:
    pointer = Var("memory", DType("handle"), PointerType(DType(dtype)))
    memory = decl_buffer((extent,), dtype, "memory", data=pointer)
    body = BufferStore(memory, const(0, dtype), (const(0),))
    return Allocate(pointer, DType(dtype), (extent,), TRUE, body)


def test_size_of_an_allocation() -> None:
    assert constant_bytes(allocation(const(10))) == 40
    assert constant_bytes(allocation(const(10), "bool")) == 10
    assert constant_bytes(allocation(N)) is None


def test_small_memory_is_on_the_stack_and_other_is_freed() -> None:
    assert "alloca [10 x float], align 64" in source(allocation(const(10)))
    for extent in (const(100_000), N):
        text = source(allocation(extent))
        assert text.count("@tw_workspace_alloc") == 1
        assert text.count("@tw_workspace_free") == 1


def test_memory_of_a_loop_is_reserved_once() -> None:
    body = For(I, const(0), const(8), ForKind.SERIAL, allocation(const(16)))
    text = source(body)
    assert text.index("alloca") < text.index("loop")

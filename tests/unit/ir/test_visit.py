"""Walking and rewriting: dispatch, identity, substitution, free variables."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.ir import (
    HANDLE,
    TRUE,
    Add,
    Allocate,
    Block,
    BufferLoad,
    BufferRegion,
    BufferRewriter,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IntImm,
    Let,
    LetStmt,
    Mul,
    Rewriter,
    SeqStmt,
    SizeVar,
    Var,
    Visitor,
    children,
    const,
    decl_buffer,
    free_vars,
    ir_transform,
    no_op,
    post_order_visit,
    pre_order_visit,
    root_realize,
    seq,
    substitute,
    uses_var,
)

x, y, i = Var("x"), Var("y"), Var("i")
A = decl_buffer((8,), "int32", "A")


def loop(body: Any, extent: Any = 8) -> For:
    return For(
        i, const(0), const(extent) if isinstance(extent, int) else extent, ForKind.SERIAL, body
    )


def test_visitor_dispatches_on_the_nearest_class() -> None:
    seen: list[str] = []

    class Watch(Visitor):
        def visit_binary_op(self, node: Any) -> None:
            seen.append(type(node).__name__)
            self.generic_visit(node)

        def visit_mul(self, node: Mul) -> None:
            seen.append("product")

        def visit_var(self, node: Var) -> None:
            seen.append(node.name)

    Watch().visit(Add(SizeVar("n"), Add(x, Mul(x, y))))
    assert seen == ["Add", "n", "Add", "x", "product"]


def test_rewriter_keeps_what_did_not_change() -> None:
    class Bump(Rewriter):
        def visit_int_imm(self, node: IntImm) -> IntImm:
            return IntImm(node.dtype, node.value + 1) if node.value == 3 else node

    left, right = loop(BufferStore(A, x, (i,))), loop(BufferStore(A, const(3), (i,)))
    program = SeqStmt((left, right))
    changed = Bump().rewrite(program)
    assert changed.seq[0] is left
    assert changed.seq[1] is not right
    assert changed.seq[1].body.value.value == 4  # type: ignore[attr-defined]
    assert Rewriter().rewrite(program) is program


def test_buffer_rewriter_meets_every_buffer() -> None:
    other = decl_buffer((8,), "int32", "B")

    class Swap(BufferRewriter):
        def visit_buffer(self, buffer: Any) -> Any:
            return other if buffer is A else buffer

    region = BufferRegion.full(A)
    body = BufferStore(A, BufferLoad(A, (i,)), (i,))
    block = Swap().rewrite(Block((), (region,), (region,), "b", body, None, (A,)))
    assert block.alloc_buffers == (other,)
    assert block.reads[0].buffer is block.writes[0].buffer is other
    assert block.body.buffer is block.body.value.buffer is other  # type: ignore[attr-defined]


def test_substitute_reaches_shapes_and_pointers() -> None:
    n, data = SizeVar("n"), Var("p", HANDLE)
    buffer = decl_buffer((n,), "int32", "S", data)
    store = BufferStore(buffer, BufferLoad(buffer, (x,)), (x,))
    new_data = Var("q", HANDLE)
    result = substitute(store, {n: const(4), data: new_data, x: y + 1})
    assert result.buffer is result.value.buffer  # type: ignore[attr-defined]
    assert result.buffer.data is new_data
    assert result.buffer.shape[0] is const(4)
    assert isinstance(result.indices[0], Add)
    assert substitute(store, {i: const(0)}) is store
    assert substitute(store, lambda var: None) is store
    assert substitute(x, lambda var: y) is y


def test_substitute_renames_allocations() -> None:
    fresh = Var("fresh", HANDLE)
    stmt = Allocate(A.data, A.dtype, A.shape, TRUE, BufferStore(A, const(0), (const(0),)))
    renamed = substitute(stmt, {A.data: fresh})
    assert renamed.buffer_var is renamed.body.buffer.data is fresh  # type: ignore[attr-defined]


def test_orders_of_visit() -> None:
    after: list[str] = []
    post_order_visit(Add(x, Mul(y, x)), lambda node: after.append(type(node).__name__))
    assert after == ["Var", "Var", "Var", "Mul", "Add"]
    before: list[str] = []

    def note(node: Any) -> bool:
        before.append(type(node).__name__)
        return not isinstance(node, Mul)

    pre_order_visit(Add(x, Mul(y, x)), note)
    assert before == ["Add", "Var", "Mul"]
    assert list(children(Add(x, y)))[1] is y


def test_ir_transform() -> None:
    program = loop(BufferStore(A, x + 1, (i,)))

    def double(node: Any) -> Any:
        return Evaluate(const(2)) if isinstance(node, BufferStore) else None

    assert isinstance(ir_transform(program, None, double).body, Evaluate)  # type: ignore[attr-defined]
    assert ir_transform(program, double, None, ["tir.Evaluate"]) is program
    replaced = ir_transform(program, double, None, ["BufferStore"])
    assert isinstance(replaced.body, Evaluate)  # type: ignore[attr-defined]
    order: list[str] = []
    ir_transform(
        program,
        lambda node: order.append("pre " + type(node).__name__),
        lambda node: order.append("post " + type(node).__name__),
        ["tir.For", "tir.BufferStore"],
    )
    assert order == ["pre For", "pre BufferStore", "post BufferStore", "post For"]


def names(node: Any) -> list[str]:
    return [var.name for var in free_vars(node)]


def test_free_variables_respect_scopes() -> None:
    assert names(x + y * x) == ["x", "y"]
    assert names(loop(Evaluate(i + x))) == ["x"]
    assert names(loop(no_op(), i)) == ["i"]  # the extent lies outside the loop
    assert names(seq([loop(Evaluate(i + 0)), Evaluate(i + 1)])) == ["i"]
    assert names(Let(x, x + 1, x * y)) == ["x", "y"]
    assert names(LetStmt(x, y, Evaluate(x + 1))) == ["y"]
    assert names(root_realize(Block((), (), (), "b", Evaluate(x + 1)))) == ["x"]


@pytest.mark.parametrize(("expr", "expected"), [(x + 1, True), (y * 2, False), (x < y, True)])
def test_uses_var(expr: Any, expected: bool) -> None:
    assert uses_var(expr, lambda var: var is x) is expected


def test_seq_flattens_and_drops_what_does_nothing() -> None:
    store = BufferStore(A, x, (i,))
    flat = seq([store, None, no_op(), seq([store, store])])
    assert isinstance(flat, SeqStmt)
    assert len(flat.seq) == 3
    assert seq([no_op(), store]) is store
    assert isinstance(seq([]), Evaluate)

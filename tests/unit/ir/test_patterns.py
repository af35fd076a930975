"""Searching and rewriting with functions of a node."""

from __future__ import annotations

from tilewright.ir import (
    INT32,
    Block,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    SeqStmt,
    Stmt,
    Var,
    const,
    has_load,
    nodes_of,
    rewrite,
    walk,
    with_loops,
)
from tilewright.ir.node import replace
from tilewright.testing.handwritten import matmul

FUNC = matmul(4, 4, 4)


def test_a_walk_goes_from_parents_to_children_in_order() -> None:
    nodes = list(walk(FUNC.body))
    assert nodes[0] is FUNC.body
    loops = [node.loop_var.name for node in nodes if isinstance(node, For)]
    assert loops == ["i", "j", "r"]
    assert [node.buffer.name for node in nodes_of(FUNC.body, BufferStore)] == ["C", "C"]


def test_a_walk_stays_outside_of_what_it_is_told() -> None:
    outside = list(walk(FUNC.body, into=lambda node: isinstance(node, Stmt)))
    assert any(isinstance(node, Block) for node in outside)
    below = list(walk(FUNC.body, into=lambda node: not isinstance(node, For)))
    assert [node.loop_var.name for node in below if isinstance(node, For)] == ["i"]


def test_statements_come_with_the_loops_around_them() -> None:
    assert [stmt for stmt, _ in with_loops(FUNC.body)] == list(nodes_of(FUNC.body, Stmt))
    around = [loops for stmt, loops in with_loops(FUNC.body) if isinstance(stmt, BufferStore)]
    assert [[loop.loop_var.name for loop in loops] for loops in around] == [["i", "j", "r"]] * 2
    outside = with_loops(FUNC.body, into=lambda stmt: not isinstance(stmt, For))
    assert [loops for stmt, loops in outside if isinstance(stmt, For)] == [()]


def test_loads_are_found() -> None:
    assert has_load(FUNC.body)
    assert not has_load(const(1))


def test_nodes_are_exchanged_after_their_children() -> None:
    seen: list[str] = []

    def shorter(loop: For) -> For:
        seen.append(loop.loop_var.name)
        return replace(loop, extent=const(2))

    changed = rewrite(FUNC.body, {For: shorter})
    assert seen == ["r", "j", "i"]
    assert [str(loop.extent) for loop in nodes_of(changed, For)] == ["2", "2", "2"]


def test_what_does_not_change_is_shared_and_sequences_stay_flat() -> None:
    assert rewrite(FUNC.body, {Var: lambda var: var}) is FUNC.body
    one, two = Evaluate(const(1)), Evaluate(const(2))
    loop = For(Var("i", INT32), const(0), const(1), ForKind.SERIAL, SeqStmt((one, one)))
    body = SeqStmt((two, loop))
    changed = rewrite(body, {For: lambda node: node.body})
    assert isinstance(changed, SeqStmt)
    assert changed.seq == (two, one, one)
    assert rewrite(body, {Block: lambda _: one}) is body


def test_what_stands_first_is_asked_before_the_nodes_below_it() -> None:
    seen: list[str] = []

    def first(loop: For) -> Stmt | None:
        seen.append(loop.loop_var.name)
        return Evaluate(const(1)) if loop.loop_var.name == "j" else None

    changed = rewrite(FUNC.body, {(For, Evaluate): replace_extent}, before={For: first})
    assert seen == ["i", "j"]  # what was put there is left alone, with all below it
    (loop,) = nodes_of(changed, For)
    assert (str(loop.extent), str(loop.body)) == ("2", str(Evaluate(const(1))))


def replace_extent(loop: For | Evaluate) -> Stmt:
    assert isinstance(loop, For), "no function sees what stands in place of a node"
    return replace(loop, extent=const(2))


def test_expressions_are_left_alone_where_only_statements_may_change() -> None:
    def store(node: BufferStore) -> Stmt:
        return replace(node, value=const(0.0))

    visited = rewrite(FUNC.body, {BufferStore: store})
    regions = [block.reads for block in nodes_of(visited, Block)]
    assert regions == [block.reads for block in nodes_of(FUNC, Block)]
    assert not has_load(visited)
    assert not has_load(rewrite(FUNC, {BufferStore: store}))


def test_a_sequence_is_flat_before_a_function_sees_it() -> None:
    one = Evaluate(const(1))
    loop = For(Var("i", INT32), const(0), const(1), ForKind.SERIAL, SeqStmt((one, one)))
    lengths: list[int] = []

    def count(sequence: SeqStmt) -> Stmt:
        lengths.append(len(sequence.seq))
        return sequence

    rewrite(SeqStmt((one, loop)), {For: lambda node: node.body, SeqStmt: count})
    assert lengths == [2, 3]

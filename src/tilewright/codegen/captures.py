"""Captured variables: what the body of a parallel loop takes from the function around it."""

from __future__ import annotations

from typing import Any

from tilewright.ir import BufferLoad, BufferStore, For, Var, Visitor


def captured_vars(loop: For) -> list[Var]:
    """Variables and data pointers from outside that the body of `loop` uses, in order of use."""
    collector = _Captures()
    collector.visit(loop.body)
    inner = collector.bound | {loop.loop_var}
    return [var for var in collector.used if var not in inner]


class _Captures(Visitor):
    """In lowered programs a name has one definition, so what is bound anywhere inside is inner."""

    def __init__(self) -> None:
        self.used: dict[Var, None] = {}
        self.bound: set[Var] = set()

    def visit_var(self, node: Var) -> None:
        self.used[node] = None

    def _visit_access(self, node: BufferLoad | BufferStore) -> None:
        self.visit_var(node.buffer.data)
        self.generic_visit(node)

    visit_buffer_load = visit_buffer_store = _visit_access

    def visit_for(self, node: For) -> None:
        self._visit_binder(node, node.loop_var)

    def visit_let(self, node: Any) -> None:
        self._visit_binder(node, node.var)

    visit_let_stmt = visit_let

    def visit_allocate(self, node: Any) -> None:
        self._visit_binder(node, node.buffer_var)

    visit_allocate_const = visit_allocate

    def _visit_binder(self, node: Any, var: Var) -> None:
        self.bound.add(var)
        self.generic_visit(node)

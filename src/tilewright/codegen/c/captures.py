"""Which variables of the function around it a loop uses."""

from __future__ import annotations

from typing import Any

from tilewright.ir import BufferLoad, BufferStore, For, Var, Visitor


def captured_vars(loop: For) -> list[Var]:
    """Variables and data pointers from outside that the body of `loop` uses, in order of use."""
    collector = _Captures({loop.loop_var})
    collector.visit(loop.body)
    return list(collector.found)


class _Captures(Visitor):
    """In lowered programs a name has one definition, so what is bound anywhere inside is inner."""

    def __init__(self, bound: set[Var]) -> None:
        self.found: dict[Var, None] = {}
        self._bound = bound

    def visit_var(self, node: Var) -> None:
        if node not in self._bound:
            self.found[node] = None

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
        self._bound.add(var)
        self.generic_visit(node)

"""Places the definitions of names that no node introduces.

A statement may use variables and buffers that nothing around it binds: a buffer that flattening
made, the variable of a `Let`, or everything in a statement printed alone. Each is defined right
before the innermost statement that contains all its uses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilewright.ir import nodes as ir
from tilewright.ir.node import Node, common_prefix
from tilewright.ir.patterns import nodes_of
from tilewright.ir.visit import Visitor


def find_definitions(root: Node, bound: Iterable[Node] = ()) -> dict[Node, list[Node]]:
    """For each statement, the unbound variables and buffers to define right before it."""
    collector = _UseCollector(set(bound))
    collector.visit(root)
    result: dict[Node, list[Node]] = {}
    brought_along = collector.defined_by_buffer()
    for node, path in collector.paths.items():
        if not (isinstance(node, ir.Var) and node in brought_along):
            result.setdefault(path[-1] if path else root, []).append(node)
    for nodes in result.values():
        nodes.sort(key=lambda node: isinstance(node, ir.Buffer))
    return result


def buffer_vars(buffer: ir.Buffer) -> list[ir.Var]:
    """The variables in the layout of a buffer, in order."""
    return list(dict.fromkeys(var for expr in buffer.layout for var in nodes_of(expr, ir.Var)))


class _UseCollector(Visitor):
    """Records, for each name that is used but not bound, the common path of its uses."""

    def __init__(self, bound: set[Node]) -> None:
        self.bound = bound
        self.path: list[Node] = []
        self.paths: dict[Node, list[Node]] = {}
        self._data_users: dict[ir.Var, set[ir.Buffer]] = {}
        self._explicit: set[Node] = set()

    def defined_by_buffer(self) -> set[ir.Var]:
        """Unbound pointers that one unbound buffer alone uses; the buffer brings them along."""
        return {
            data
            for data, users in self._data_users.items()
            if len(users) == 1 and data not in self._explicit and _is_plain(next(iter(users)))
        }

    def _use(self, node: Node) -> None:
        if node in self.bound:
            return
        known = self.paths.get(node)
        self.paths[node] = list(self.path) if known is None else common_prefix(known, self.path)

    def visit_var(self, node: ir.Var) -> None:
        self._explicit.add(node)
        self._use(node)

    def _use_buffer(self, buffer: ir.Buffer) -> None:
        if buffer in self.bound:
            return
        for var in buffer_vars(buffer):
            self._use(var)
        self._data_users.setdefault(buffer.data, set()).add(buffer)
        self._use(buffer.data)
        self._use(buffer)

    def visit_stmt(self, node: ir.Stmt) -> None:
        self.path.append(node)
        self.generic_visit(node)
        self.path.pop()

    def _binder(self, node: Any, bound: Iterable[Node]) -> None:
        new = [item for item in bound if item not in self.bound]
        self.bound.update(new)
        self.visit_stmt(node)
        self.bound.difference_update(new)

    def visit_for(self, node: ir.For) -> None:
        thread = () if node.thread_binding is None else (node.thread_binding.var,)
        self._binder(node, (node.loop_var, *thread))

    def visit_let_stmt(self, node: ir.LetStmt) -> None:
        self._binder(node, (node.var,))

    def visit_allocate(self, node: ir.Allocate | ir.AllocateConst) -> None:
        self._binder(node, (node.buffer_var,))

    visit_allocate_const = visit_allocate

    def visit_attr_stmt(self, node: ir.AttrStmt) -> None:
        if isinstance(node.node, ir.IterVar) and node.attr_key == "thread_extent":
            self._binder(node, (node.node.var,))
            return
        self.path.append(node)
        if isinstance(node.node, ir.Buffer):
            self._use_buffer(node.node)
        elif isinstance(node.node, Node):
            self.visit(node.node)
        self.path.pop()
        self.visit_stmt(node)

    def visit_decl_buffer(self, node: ir.DeclBuffer) -> None:
        self.path.append(node)
        for var in (*buffer_vars(node.buffer), node.buffer.data):
            self.visit(var)
        self.path.pop()
        self._binder(node, (node.buffer,))

    def visit_block(self, node: ir.Block) -> None:
        self.path.append(node)
        for buffer in node.alloc_buffers:
            for var in buffer_vars(buffer):
                self._use(var)
        self.path.pop()
        bound: list[Node] = [iter_var.var for iter_var in node.iter_vars]
        for buffer in node.alloc_buffers:
            bound += (buffer, buffer.data)
        for match in node.match_buffers:
            matched = match.buffer
            bound += (matched, matched.data, *implicit_layout_vars(matched))
        self._binder(node, bound)

    def visit_let(self, node: ir.Let | ir.IterVar) -> None:
        self._use(node.var)
        self.generic_visit(node)

    visit_iter_var = visit_let

    def visit_comm_reducer(self, node: ir.CommReducer) -> None:
        for value in node.identity_element:  # the combiner only uses its own variables
            self.visit(value)

    visit_buffer = _use_buffer

    def visit_buffer_load(self, node: ir.BufferLoad | ir.BufferRegion | ir.BufferStore) -> None:
        self._use_buffer(node.buffer)
        self.generic_visit(node)

    visit_buffer_region = visit_buffer_load

    def visit_buffer_store(self, node: ir.BufferStore) -> None:
        self.path.append(node)
        self.visit_buffer_load(node)
        self.path.pop()


def _is_plain(buffer: ir.Buffer) -> bool:
    """True when declaring the buffer makes a pointer like the one it has."""
    pointer = buffer.data.type_annotation
    return pointer is not None and pointer.element_type is buffer.dtype


def implicit_layout_vars(buffer: ir.Buffer) -> list[ir.Var]:
    """Strides and offset that are variables of their own: matching a buffer binds them."""
    layout = [stride for stride in buffer.strides if isinstance(stride, ir.Var)]
    if isinstance(buffer.elem_offset, ir.Var) and buffer.offset_factor:
        layout.append(buffer.elem_offset)
    return layout

"""Variables on which the place in local memory depends.

Registers have no addresses: an array stays in registers only if every index is a constant once the
loops around it are unrolled. Otherwise it moves to memory of the thread, which is slow.
"""

from __future__ import annotations

from tilewright import ir

# Calls that name a fragment, the shape of a product, and then which tile they mean. All others
# that take a pointer to registers name the place behind it next.
SHAPED = ("tir.tvm_load_matrix_sync", "tir.tvm_fill_fragment", "tir.tvm_store_matrix_sync")


def register_indices(body: ir.Stmt) -> set[ir.Var]:
    """The variables of loops and lets that local arrays and fragments are indexed by."""
    finder = _Finder()
    finder.visit(body)
    return finder.found


def _in_registers(var: object) -> bool:
    annotation = var.type_annotation if isinstance(var, ir.Var) else None
    return annotation is not None and annotation.storage_scope.startswith(("local", "wmma."))


class _Finder(ir.Visitor):
    """Looks at uses before definitions, so that a let passes on what depends on it."""

    def __init__(self) -> None:
        self.found: set[ir.Var] = set()

    def _uses(self, *values: ir.PrimExpr) -> None:
        for value in values:
            self.found.update(ir.nodes_of(value, ir.Var))

    def visit_buffer_load(self, node: ir.BufferLoad | ir.BufferStore) -> None:
        if _in_registers(node.buffer.data):
            self._uses(*node.indices)
        self.generic_visit(node)

    visit_buffer_store = visit_buffer_load

    def visit_call(self, node: ir.Call) -> None:
        distance = 4 if getattr(node.op, "name", "") in SHAPED else 1
        for at, arg in enumerate(node.args[:-distance]):
            if _in_registers(arg):
                self._uses(node.args[at + distance])
        self.generic_visit(node)

    def visit_let_stmt(self, node: ir.LetStmt | ir.Let) -> None:
        self.visit(node.body)
        if node.var in self.found:
            self._uses(node.value)
        self.visit(node.value)

    visit_let = visit_let_stmt

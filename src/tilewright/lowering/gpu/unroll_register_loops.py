"""Loops over elements that a thread keeps in registers are unrolled.

Registers have no addresses: an array in scope `local`, or of matrix fragments, stays in registers
only if each of its indices is a number once loops are unrolled.
"""

from __future__ import annotations

from tilewright import ir
from tilewright.lowering.base import function_pass
from tilewright.lowering.rewriters import StmtRewriter
from tilewright.lowering.storage_rewrite import scope_of

MOST_STATEMENTS = 4096  # of an unrolled loop; beyond it code is too long to be fast


class _IndexVars(ir.Visitor):
    """The variables that indices of registers depend on, and how long a statement is."""

    def __init__(self, stmt: ir.Stmt) -> None:
        self.found: set[ir.Var] = set()
        self.visit(stmt)

    def visit_buffer_load(self, node: ir.BufferLoad | ir.BufferStore) -> None:
        if _in_registers(node.buffer.data):
            for index in node.indices:
                self.found.update(ir.free_vars(index))
        self.generic_visit(node)

    visit_buffer_store = visit_buffer_load

    def visit_call(self, node: ir.Call) -> None:
        for place, arg in enumerate(node.args):
            if isinstance(arg, ir.Var) and arg.dtype.is_handle and _in_registers(arg):
                for index in node.args[place + 1 :]:
                    self.found.update(ir.free_vars(index))
                break
        self.generic_visit(node)


def _in_registers(data: ir.Var) -> bool:
    return scope_of(data).startswith(("local", "wmma."))


class _Unroller(StmtRewriter):
    def __init__(self) -> None:
        self._length = 0

    def visit_buffer_store(self, node: ir.BufferStore | ir.Evaluate) -> ir.Stmt:
        self._length += 1
        return node

    visit_evaluate = visit_buffer_store

    def visit_for(self, node: ir.For) -> ir.Stmt:
        before, self._length = self._length, 0
        node = self.generic_visit(node)
        extent = node.extent.value if isinstance(node.extent, ir.IntImm) else None
        length = self._length * (extent or 1)
        self._length = before + (length if node.kind == ir.ForKind.UNROLLED else self._length)
        if node.kind != ir.ForKind.SERIAL or extent is None or length > MOST_STATEMENTS:
            return node
        if node.loop_var not in _IndexVars(node.body).found:
            return node
        self._length = before + length
        return ir.replace(node, kind=ir.ForKind.UNROLLED)


@function_pass
def UnrollRegisterLoops(func: ir.PrimFunc) -> ir.PrimFunc:
    """Unroll loops that index registers."""
    return func.with_body(_Unroller().rewrite(func.body))

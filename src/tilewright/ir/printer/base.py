"""The statement printer: lines, pending definitions, and one function for each node class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.ir import nodes as ir
from tilewright.ir.node import Node
from tilewright.ir.printer.buffers import buffer_args
from tilewright.ir.printer.exprs import ExprPrinter, dtype_call
from tilewright.ir.printer.scope import Scope
from tilewright.support.handlers import Handlers

# How each class of statement is printed, f(printer, node, tail); `stmts.py` and `blocks.py` fill it
# when they are imported.
STMT_PRINTERS = Handlers()
prints = STMT_PRINTERS.of


class StmtPrinter(ExprPrinter):
    """Writes statements into the lines of a scope.

    `tail` tells a method that its statement is the last of its Python block; then a binding may be
    written as a plain line, because the rest of the block is exactly its body.
    """

    def __init__(
        self,
        scope: Scope,
        definitions: Mapping[Node, Sequence[Node]],
        return_types: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(scope, return_types)
        self.loops: dict[ir.Var, ir.For] = {}
        self.pending = {stmt: list(nodes) for stmt, nodes in definitions.items()}

    def line(self, text: str) -> None:
        self.scope.line(text)

    def stmt(self, node: ir.Stmt, tail: bool = True) -> None:
        """Write one statement, after the definitions it needs."""
        if not isinstance(node, ir.Block):
            self.define_pending(node)
        STMT_PRINTERS[type(node)](self, node, tail)

    def block_of(self, node: ir.Stmt) -> None:
        """Write a statement as the indented body of the line before."""
        with self.scope.indented():
            self.stmt(node)

    def define_pending(self, node: Node) -> None:
        """Write the definitions that belong before `node`."""
        for item in self.pending.pop(node, ()):
            self.define_free(item)

    def define_free(self, item: Node) -> None:
        """Define a variable or buffer that nothing binds."""
        if isinstance(item, ir.Buffer):
            args = buffer_args(self, item, with_data=True)
            self.line(f"{self.define(item)} = T.Buffer({args})")
        elif isinstance(item, ir.Var) and self.scope.text_of(item) is None:
            self.line(f"{self.define(item)} = {dtype_call(item)}")

    def define(self, item: ir.Var | ir.Buffer) -> str:
        """A free name; the pointer, strides and offset of a buffer are written through it."""
        name = self.scope.define(item, item.name)
        if isinstance(item, ir.Buffer):
            self._alias_parts(item, name)
        return name

    def _alias_parts(self, buffer: ir.Buffer, name: str) -> None:
        self.scope.alias(buffer.data, f"{name}.data")
        for axis, stride in enumerate(buffer.strides):
            if isinstance(stride, ir.Var):
                self.scope.alias(stride, f"{name}.strides[{axis}]")
        if isinstance(buffer.elem_offset, ir.Var):
            self.scope.alias(buffer.elem_offset, f"{name}.elem_offset")

    def annotations(self, values: Mapping[str, Any]) -> str:
        """`, annotations={...}`, or nothing."""
        return f", annotations={self.text(dict(values))}" if values else ""

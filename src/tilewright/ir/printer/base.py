"""The statement printer: lines, pending definitions, and one function for each node class.

Below it, the arguments with which script declares a buffer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.ir import nodes as ir
from tilewright.ir.node import Node
from tilewright.ir.printer.exprs import ExprPrinter, dtype_call, quote
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


_DEFAULT_ALIGNMENT = 64


def is_simple(buffer: ir.Buffer) -> bool:
    """True for a buffer that `name: T.Buffer(shape, dtype)` describes completely."""
    pointer = buffer.data.type_annotation
    return (
        all(isinstance(extent, ir.IntImm) for extent in buffer.shape)
        and not buffer.strides
        and buffer.elem_offset is None
        and buffer.scope == "global"
        and buffer.data_alignment == _DEFAULT_ALIGNMENT
        and buffer.offset_factor == 0
        and not buffer.axis_separators
        and pointer is not None
        and pointer.element_type is buffer.dtype
    )


def buffer_args(
    printer: ExprPrinter, buffer: ir.Buffer, *, with_data: bool = False, always_dtype: bool = False
) -> str:
    """Shape, dtype and whatever differs from the defaults."""
    args = [printer.tuple_of(buffer.shape)]
    if always_dtype or buffer.dtype is not ir.FLOAT32:
        args.append(quote(buffer.dtype))
    if with_data and printer.scope.text_of(buffer.data) is not None:
        args.append(f"data={printer.text(buffer.data)}")
    return ", ".join(args + _layout_args(printer, buffer))


def _layout_args(printer: ExprPrinter, buffer: ir.Buffer) -> list[str]:
    args: list[str] = []
    if buffer.strides:
        strides = [_stride(printer, stride) for stride in buffer.strides]
        args.append(f"strides=({', '.join(strides)}{',' if len(strides) == 1 else ''})")
    offset = buffer.elem_offset
    if offset is not None and not (
        # the fresh variable that `offset_factor` alone brings along
        isinstance(offset, ir.Var)
        and printer.scope.text_of(offset) is None
        and buffer.offset_factor
        and offset.dtype is ir.INT32
    ):
        args.append(f"elem_offset={printer.text(offset)}")
    if buffer.scope != "global":
        args.append(f"scope={quote(buffer.scope)}")
    if buffer.data_alignment != _DEFAULT_ALIGNMENT:
        args.append(f"align={buffer.data_alignment}")
    if buffer.offset_factor:
        args.append(f"offset_factor={buffer.offset_factor}")
    if buffer.axis_separators:
        args.append(f"axis_separators={list(buffer.axis_separators)}")
    return args


def _stride(printer: ExprPrinter, stride: ir.PrimExpr) -> str:
    """A stride that is a new variable is written as its name in quotes."""
    if (
        isinstance(stride, ir.Var)
        and printer.scope.text_of(stride) is None
        and stride.dtype is ir.INT32
    ):
        return quote(stride.name)
    return printer.text(stride)

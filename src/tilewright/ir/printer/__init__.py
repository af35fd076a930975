"""IR as script: text that the parser reads back to a structurally equal program.

exprs.py        expressions, regions, annotation values
base.py         the statement printer and its table; the arguments that declare a buffer
stmts.py        statements
blocks.py       blocks and their bindings
functions.py    functions and modules
definitions.py  where names that no node introduces are defined
scope.py        lines, indentation, unique names
"""

from __future__ import annotations

from tilewright.errors import IRError
from tilewright.ir import nodes as ir
from tilewright.ir.function import IRModule, PrimFunc
from tilewright.ir.node import Node, register_renderer
from tilewright.ir.printer import blocks as blocks, stmts as stmts
from tilewright.ir.printer.base import StmtPrinter
from tilewright.ir.printer.definitions import find_definitions
from tilewright.ir.printer.exprs import ExprPrinter, register_expr_printer as register_expr_printer
from tilewright.ir.printer.functions import function_scope, header, module_lines
from tilewright.ir.printer.scope import Scope
from tilewright.support.nesting import nested_deeply


@nested_deeply(IRError, "the program to print")
def script(node: Node, *, name: str | None = None) -> str:
    """Any piece of IR as script; `name` is what a function printed alone is called."""
    match node:
        case IRModule():
            return "\n".join(module_lines(node))
        case PrimFunc():
            lines = function_scope(node, name or node.name).lines
            return "\n".join([*header("tir"), "", *lines])
        case ir.Stmt():
            scope = Scope()
            StmtPrinter(scope, find_definitions(node)).stmt(node)
            return "\n".join(scope.lines)
        case ir.Buffer():
            return node.name
    return ExprPrinter(Scope()).text(node)


register_renderer(script)

"""Programs from text, as the printer writes it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from tilewright.ir import IRModule, PrimFunc
from tilewright.script import ir, tir
from tilewright.script.functions import check, parse_function, parse_module
from tilewright.script.plain_text import BUILTINS
from tilewright.script.source import parse_text

_NAMESPACES = {"tir": tir, "ir": ir}


def from_source(
    text: str,
    extra_names: Mapping[str, Any] | None = None,
    *,
    filename: str = "<script>",
    check_well_formed: bool = True,
) -> PrimFunc | IRModule:
    """The function or module that `text` defines.

    `T` and `I` are known, whatever the text imports; `extra_names` are further Python values that
    it may use. Text is read, not run: of Python it knows expressions and the functions that count
    and convert, nothing that reaches files, modules or the inside of objects.
    """
    source, tree = parse_text(text, filename)
    names: dict[str, Any] = {**BUILTINS, "T": tir, "I": ir, **(extra_names or {})}
    definitions: list[ast.FunctionDef | ast.ClassDef] = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            names.update(_imported(node))
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            definitions.append(node)
        elif not isinstance(node, ast.Import) and not (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)  # a remark
        ):
            message = "expected a function decorated with @T.prim_func or a class with @I.ir_module"
            raise source.error(node, message)
    if len(definitions) != 1:
        where = definitions[1] if definitions else ast.Constant(None, lineno=1, col_offset=0)
        message = f"expected one function or one module, found {len(definitions)}"
        raise source.error(where, message)
    definition = definitions[0]
    program: PrimFunc | IRModule
    if isinstance(definition, ast.ClassDef):
        program = parse_module(source, definition, names)
    else:
        program = parse_function(source, definition, names)
    if check_well_formed:
        check(program)
    return program


def _imported(node: ast.ImportFrom) -> dict[str, Any]:
    """`from ....script import tir as T` under whatever name it is given."""
    return {
        alias.asname or alias.name: _NAMESPACES[alias.name]
        for alias in node.names
        if alias.name in _NAMESPACES
    }

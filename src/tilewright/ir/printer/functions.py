"""Functions and modules as script text."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.ir import nodes as ir
from tilewright.ir.function import IRModule, PrimFunc
from tilewright.ir.node import Node
from tilewright.ir.printer.base import StmtPrinter, buffer_args, is_simple
from tilewright.ir.printer.blocks import is_implicit_root, print_root
from tilewright.ir.printer.definitions import buffer_vars, find_definitions, implicit_layout_vars
from tilewright.ir.printer.exprs import dtype_call
from tilewright.ir.printer.scope import Scope
from tilewright.ir.visit import uses_var
from tilewright.support.import_hooks import printed_package


def header(*namespaces: str) -> list[str]:
    """The comments that say where `I` and `T` come from."""
    return [
        f"# from {printed_package()}.script import {name} as {name[0].upper()}"
        for name in namespaces
    ]


def module_lines(module: IRModule) -> list[str]:
    """A module as a class of functions, in the order of their names."""
    lines = [*header("ir", "tir"), "", "@I.ir_module", "class Module:"]
    if module.attrs:
        scope = Scope(base_indent=1)
        scope.line(f"I.module_attrs({StmtPrinter(scope, {}).text(dict(module.attrs))})")
        lines += scope.lines
    return_types = {name: func.ret_type for name, func in module.functions.items()}
    for position, name in enumerate(sorted(module.functions)):
        if position or module.attrs:
            lines.append("")
        lines += function_scope(module.functions[name], name, return_types, base_indent=1).lines
    if not module.functions and not module.attrs:
        lines.append("    pass")
    return lines


def function_scope(
    func: PrimFunc, name: str, return_types: Mapping[str, str] | None = None, base_indent: int = 0
) -> Scope:
    """The text of a function with the places of its statements.

    The global symbol is left out where it is the name.
    """
    scope = Scope(base_indent)
    bound: set[Node] = set(func.params)
    for buffer in func.buffer_map.values():
        bound.update((buffer, buffer.data, *buffer_vars(buffer)))
    printer = StmtPrinter(scope, find_definitions(func.body, bound), return_types)
    private = "global_symbol" not in func.attrs
    scope.line("@T.prim_func(private=True)" if private else "@T.prim_func")
    with scope.frame():
        _print_function(printer, func, name)
    return scope


def _print_function(printer: StmtPrinter, func: PrimFunc, name: str) -> None:
    matched: list[tuple[ir.Var, ir.Buffer]] = []
    params = ", ".join(_param(printer, func, param, matched) for param in func.params)
    returns = "" if func.ret_type == "void" else f" -> T.{func.ret_type}"
    printer.line(f"def {name}({params}){returns}:")
    with printer.scope.indented():
        shown = dict(func.attrs)
        if shown.get("global_symbol") == name:
            del shown["global_symbol"]
        if shown:
            printer.line(f"T.func_attr({printer.text(shown)})")
        for param, buffer in matched:
            _match_buffer(printer, param, buffer)
        if isinstance(func.body, ir.BlockRealize) and is_implicit_root(func.body):
            print_root(printer, func.body)
        else:
            printer.stmt(func.body)


def _param(
    printer: StmtPrinter, func: PrimFunc, param: ir.Var, matched: list[tuple[ir.Var, ir.Buffer]]
) -> str:
    """A parameter in the signature; a buffer that needs a line of its own goes to `matched`."""
    buffer = func.buffer_map.get(param)
    if buffer is not None and is_simple(buffer) and not uses_var(func.body, param.same_as):
        name = printer.define(buffer)
        return f"{name}: T.Buffer({buffer_args(printer, buffer, always_dtype=True)})"
    if buffer is not None:
        matched.append((param, buffer))
        return f"{printer.define(param)}: T.handle"
    return f"{printer.define(param)}: {dtype_call(param).removesuffix('()')}"


def _match_buffer(printer: StmtPrinter, param: ir.Var, buffer: ir.Buffer) -> None:
    implicit = set(implicit_layout_vars(buffer))
    for var in buffer_vars(buffer):
        in_shape = any(uses_var(extent, var.same_as) for extent in buffer.shape)
        if var not in implicit or in_shape or isinstance(var, ir.SizeVar):
            printer.define_free(var)
    args = f"{printer.text(param)}, {buffer_args(printer, buffer)}"
    printer.line(f"{printer.define(buffer)} = T.match_buffer({args})")

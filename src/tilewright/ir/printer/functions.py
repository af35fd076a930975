"""Functions and modules as script text."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.ir import nodes as ir
from tilewright.ir.function import IRModule, PrimFunc
from tilewright.ir.node import Node
from tilewright.ir.printer.base import StmtPrinter
from tilewright.ir.printer.blocks import is_implicit_root, print_root
from tilewright.ir.printer.buffers import buffer_args, is_simple
from tilewright.ir.printer.definitions import (
    buffer_vars,
    find_definitions,
    implicit_layout_vars,
)
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
    func: PrimFunc,
    name: str,
    return_types: Mapping[str, str] | None = None,
    base_indent: int = 0,
) -> Scope:
    """The text of a function with the places of its statements.

    The global symbol is left out where it is the name.
    """
    scope = Scope(base_indent)
    bound = _bound_by_signature(func)
    printer = StmtPrinter(scope, find_definitions(func.body, bound), return_types)
    private = "global_symbol" not in func.attrs
    scope.line("@T.prim_func(private=True)" if private else "@T.prim_func")
    with scope.frame():
        _FunctionPrinter(printer, func, name).print()
    return scope


def _bound_by_signature(func: PrimFunc) -> set[Node]:
    bound: set[Node] = set(func.params)
    for buffer in func.buffer_map.values():
        bound.update((buffer, buffer.data, *buffer_vars(buffer)))
    return bound


class _FunctionPrinter:
    def __init__(self, printer: StmtPrinter, func: PrimFunc, name: str) -> None:
        self.printer = printer
        self.scope = printer.scope
        self.func = func
        self.name = name
        self.matched: list[tuple[ir.Var, ir.Buffer]] = []

    def print(self) -> None:
        params = ", ".join(self._param(param) for param in self.func.params)
        returns = "" if self.func.ret_type == "void" else f" -> T.{self.func.ret_type}"
        self.scope.line(f"def {self.name}({params}){returns}:")
        with self.scope.indented():
            self._attributes()
            for param, buffer in self.matched:
                self._match_buffer(param, buffer)
            self._body()

    def _param(self, param: ir.Var) -> str:
        buffer = self.func.buffer_map.get(param)
        if buffer is not None and is_simple(buffer) and not uses_var(self.func.body, param.same_as):
            name = self.printer.define(buffer)
            return f"{name}: T.Buffer({buffer_args(self.printer, buffer, always_dtype=True)})"
        if buffer is not None:
            self.matched.append((param, buffer))
            return f"{self.printer.define(param)}: T.handle"
        name = self.printer.define(param)
        call = dtype_call(param)
        return f"{name}: {call.removesuffix('()')}"

    def _attributes(self) -> None:
        attrs = {key: value for key, value in self.func.attrs.items() if not self._is_own_name(key)}
        if attrs:
            self.scope.line(f"T.func_attr({self.printer.text(attrs)})")

    def _is_own_name(self, key: str) -> bool:
        return key == "global_symbol" and self.func.attrs[key] == self.name

    def _match_buffer(self, param: ir.Var, buffer: ir.Buffer) -> None:
        implicit = set(implicit_layout_vars(buffer))
        for var in buffer_vars(buffer):
            if var not in implicit or _occurs_in_shape(var, buffer):
                self.printer.define_free(var)
        args = f"{self.printer.text(param)}, {buffer_args(self.printer, buffer)}"
        self.scope.line(f"{self.printer.define(buffer)} = T.match_buffer({args})")

    def _body(self) -> None:
        body = self.func.body
        if isinstance(body, ir.BlockRealize) and is_implicit_root(body):
            print_root(self.printer, body)
        else:
            self.printer.stmt(body)


def _occurs_in_shape(var: ir.Var, buffer: ir.Buffer) -> bool:
    return any(uses_var(extent, var.same_as) for extent in buffer.shape) or isinstance(
        var, ir.SizeVar
    )

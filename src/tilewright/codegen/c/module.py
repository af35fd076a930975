"""A lowered module as one C file."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.codegen.c.prelude import HEADER
from tilewright.codegen.c.statements import StatementPrinter, Unit, variable_type
from tilewright.codegen.c.types import c_type, function_name, string_literal
from tilewright.ir import DType, IRModule, PrimFunc
from tilewright.target import Target


def generate(module: IRModule, target: Target | None = None) -> str:
    """The C source of a lowered module; the same for every target."""
    del target
    return module_text(module, Unit(), {})


def module_text(module: IRModule, unit: Unit, symbols: Mapping[str, str]) -> str:
    """The C source; `symbols` are names that functions have in machine code, where not in C."""
    functions = [
        (_prototype(func, name), _function(unit, func, name))
        for name, func in module.functions.items()
    ]
    labels = [
        f" __asm__({string_literal(symbols[name])})" if name in symbols else ""
        for name in module.functions
    ]
    prototypes = "".join(
        f"{prototype}{label};\n" for (prototype, _), label in zip(functions, labels, strict=True)
    )
    externs = "".join(f"{extern}\n" for extern in unit.externs.values())
    bodies = "\n".join(f"{prototype} {{\n{body}}}\n" for prototype, body in functions)
    parts = [HEADER, unit.prelude.text(), externs, prototypes, *unit.outlined, bodies]
    return "\n".join(part for part in parts if part)


def _returned(func: PrimFunc) -> str:
    return "int32_t" if func.ret_type in ("void", "int32") else c_type(DType(func.ret_type))


def _prototype(func: PrimFunc, name: str) -> str:
    printer = StatementPrinter(Unit(), name)
    restrict = "restrict " if func.attrs.get("tir.noalias") else ""
    params = []
    for param in func.params:
        kind = variable_type(param)
        params.append(f"{kind}{restrict if param.dtype.is_handle else ''}{printer.define(param)}")
    return f"{_returned(func)} {function_name(name)}({', '.join(params) or 'void'})"


def _function(unit: Unit, func: PrimFunc, name: str) -> str:
    printer = StatementPrinter(unit, function_name(name), _returned(func))
    for param in func.params:
        printer.define(param)
    printer.visit(func.body)
    returns = bool(printer.lines) and printer.lines[-1].startswith("  return ")
    if _returned(func) == "int32_t" and not returns:
        printer.line("return 0;")
    return "".join(f"{line}\n" for line in printer.lines)

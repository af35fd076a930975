"""Macros: statements written once and put in place of each call.

A macro sees the names around its definition and its arguments, nothing of its caller.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from tilewright.script.diagnostics import Source
from tilewright.script.forms import Form
from tilewright.script.frames import Environment
from tilewright.script.parser import FORM_STATEMENTS, Parser


class MacroCall(Form, name="T.macro"):
    """A macro with the arguments of one call."""

    macro: Macro
    arguments: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Macro:
    """A function decorated with `@T.macro`."""

    source: Source
    definition: ast.FunctionDef
    names: Mapping[str, Any]
    signature: inspect.Signature

    def __call__(self, *args: Any, **options: Any) -> MacroCall:
        bound = self.signature.bind(*args, **options)
        bound.apply_defaults()
        return MacroCall(self, bound.arguments)


@FORM_STATEMENTS.of(MacroCall)
def _expand(parser: Parser, node: ast.expr, form: MacroCall) -> None:
    caller = parser.source, parser.environment
    parser.source, parser.environment = form.macro.source, Environment(form.macro.names)
    for name, value in form.arguments.items():
        parser.environment.define(name, value)
    parser.statements(form.macro.definition.body)
    parser.source, parser.environment = caller

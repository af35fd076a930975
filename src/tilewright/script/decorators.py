"""`@T.prim_func` and `@I.ir_module`: from Python definitions to programs."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, overload

from tilewright.errors import ScriptError
from tilewright.ir import IRModule, PrimFunc
from tilewright.script.diagnostics import Source
from tilewright.script.forms import Form
from tilewright.script.frames import Environment
from tilewright.script.functions import check, parse_function, parse_module
from tilewright.script.parser import FORM_STATEMENTS, Parser
from tilewright.script.source import calling_frame, find_definition, names_visible_to


class MacroCall(Form, name="T.macro"):
    """A macro with the arguments of one call."""

    macro: Macro
    arguments: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Macro:
    """A function decorated with `@T.macro`: statements that are put in place of each call.

    It sees the names around its definition and its arguments, nothing of its caller.
    """

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


@overload
def prim_func(func: Callable[..., Any], /) -> PrimFunc: ...
@overload
def prim_func(
    *, private: bool = False, check_well_formed: bool = True
) -> Callable[[Callable[..., Any]], PrimFunc]: ...
def prim_func(
    func: Callable[..., Any] | None = None,
    /,
    *,
    private: bool = False,
    check_well_formed: bool = True,
) -> Any:
    """Read a Python function as a TensorIR function.

    A private function has no symbol of its own outside the module.
    """
    if func is not None:
        return _parse(func, calling_frame(1), private, check_well_formed)

    def decorate(function: Callable[..., Any]) -> Any:
        return _parse(function, calling_frame(1), private, check_well_formed)

    return decorate


def _parse(func: Any, frame: types.FrameType, private: bool, check_well_formed: bool) -> Any:
    function = _function("T.prim_func", func)
    if "__qualname__" in frame.f_locals and "__module__" in frame.f_locals:
        return function  # the body of a class: @I.ir_module will read the whole class
    source, node = find_definition(function.__code__, ast.FunctionDef)
    parsed = parse_function(source, node, names_visible_to(function, frame), private=private)
    if check_well_formed:
        check(parsed)
    return parsed


def macro(func: Callable[..., Any], /) -> Macro:
    """Read a Python function as statements to be put in place of each call of it."""
    function = _function("T.macro", func)
    source, node = find_definition(function.__code__, ast.FunctionDef)
    names = names_visible_to(function, calling_frame(1))
    return Macro(source, node, names, inspect.signature(function))


def _function(decorator: str, func: object) -> types.FunctionType:
    if not isinstance(func, types.FunctionType):
        raise ScriptError(f"{decorator} decorates functions, not {func!r}")
    return func


@overload
def ir_module(cls: type, /) -> IRModule: ...
@overload
def ir_module(*, check_well_formed: bool = True) -> Callable[[type], IRModule]: ...
def ir_module(cls: type | None = None, /, *, check_well_formed: bool = True) -> Any:
    """Read a class of functions as a module."""
    if cls is not None:
        return _parse_class(cls, calling_frame(1), check_well_formed)
    return lambda decorated: _parse_class(decorated, calling_frame(1), check_well_formed)


def _parse_class(cls: type, frame: types.FrameType, check_well_formed: bool) -> IRModule:
    functions = [item for item in vars(cls).values() if isinstance(item, types.FunctionType)]
    if not functions:
        return IRModule({})
    source, node = find_definition(functions[0].__code__, ast.ClassDef)
    names: dict[str, Any] = {}
    for function in functions:
        names.update(names_visible_to(function, frame))
    module = parse_module(source, node, names)
    if check_well_formed:
        check(module)
    return module

"""`@T.prim_func` and `@I.ir_module`: from Python definitions to programs."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable
from typing import Any, overload

from tilewright.errors import ScriptError
from tilewright.ir import IRModule, PrimFunc
from tilewright.script.functions import check, parse_function, parse_module
from tilewright.script.macros import Macro
from tilewright.script.source import calling_frame, find_definition, names_visible_to


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

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
    if not isinstance(func, types.FunctionType):
        raise ScriptError(f"T.prim_func decorates functions, not {func!r}")
    if "__qualname__" in frame.f_locals and "__module__" in frame.f_locals:
        return func  # the body of a class: @I.ir_module will read the whole class
    source, node = find_definition(func.__code__, ast.FunctionDef)
    if not isinstance(node, ast.FunctionDef):
        raise ScriptError(f"{func.__name__!r} is not a function definition")
    parsed = parse_function(source, node, names_visible_to(func, frame), private=private)
    if check_well_formed:
        check(parsed)
    return parsed


def macro(func: Callable[..., Any], /) -> Macro:
    """Read a Python function as statements to be put in place of each call of it."""
    if not isinstance(func, types.FunctionType):
        raise ScriptError(f"T.macro decorates functions, not {func!r}")
    source, node = find_definition(func.__code__, ast.FunctionDef)
    if not isinstance(node, ast.FunctionDef):
        raise ScriptError(f"{func.__name__!r} is not a function definition")
    names = names_visible_to(func, calling_frame(1))
    return Macro(source, node, names, inspect.signature(func))


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
    if not isinstance(node, ast.ClassDef):
        raise ScriptError(f"{cls.__name__!r} is not a class definition")
    names: dict[str, Any] = {}
    for function in functions:
        names.update(names_visible_to(function, frame))
    module = parse_module(source, node, names)
    if check_well_formed:
        check(module)
    return module

"""From a Python function or class, or from text, to its syntax tree and the names it can see."""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
import sys
import textwrap
import types
from collections.abc import Mapping
from typing import Any, TypeVar

from tilewright.errors import ScriptError
from tilewright.script.diagnostics import Source
from tilewright.support.nesting import nested_deeply

_DefinitionT = TypeVar("_DefinitionT", ast.FunctionDef, ast.ClassDef)


@functools.lru_cache(maxsize=16)
def _definitions(filename: str, text: str) -> list[ast.FunctionDef | ast.ClassDef]:
    tree = ast.parse(text, filename)
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)]


def find_definition(code: types.CodeType, kind: type[_DefinitionT]) -> tuple[Source, _DefinitionT]:
    """The innermost definition of a kind whose lines contain the first line of `code`."""
    filename = code.co_filename
    linecache.checkcache(filename)  # the file may have changed since it was last read
    lines = linecache.getlines(filename)
    if not lines:
        raise ScriptError(
            f"the source of {code.co_name!r} cannot be read: define it in a file or a notebook "
            "cell, or pass its text to tilewright.script.from_source"
        )
    found: _DefinitionT | None = None
    for node in _definitions(filename, "".join(lines)):
        if not isinstance(node, kind):
            continue
        if _first_line(node) <= code.co_firstlineno <= (node.end_lineno or node.lineno):
            narrower = found is None or _first_line(node) >= _first_line(found)
            found = node if narrower else found
    if found is None:
        raise ScriptError(f"the source of {code.co_name!r} was not found in {filename}")
    return Source(filename, [line.rstrip("\n") for line in lines]), found


def _first_line(node: ast.FunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


@nested_deeply(ScriptError, "the script")
def parse_text(text: str, filename: str) -> tuple[Source, ast.Module]:
    """The syntax tree of a text; common indentation is ignored."""
    lines = text.splitlines()
    dedented = textwrap.dedent(text)
    first = next((line for line in lines if line.strip()), "")
    indent = len(first) - len(first.lstrip())
    source = Source(filename, lines, 0, indent if dedented != text else 0, is_text=True)
    try:
        return source, ast.parse(dedented, filename)
    except SyntaxError as error:
        place = ast.Constant(None, lineno=error.lineno or 1, col_offset=(error.offset or 1) - 1)
        raise source.error(place, f"not valid Python: {error.msg}") from None


def names_visible_to(func: types.FunctionType, frame: types.FrameType) -> Mapping[str, Any]:
    """The names a function can use: builtins, globals, enclosing locals, captured variables.

    A name that only an annotation uses is not captured by Python, so the locals of the frames that
    are running the same file are offered too, behind everything else.
    """
    names: dict[str, Any] = {}
    chain: list[types.FrameType] = []
    caller = frame.f_back
    while caller is not None:
        if caller.f_code.co_filename == func.__code__.co_filename:
            chain.append(caller)
        caller = caller.f_back
    for outer in reversed(chain):
        names.update(outer.f_locals)
    names.update(vars(builtins))
    names.update(func.__globals__)
    names.update(frame.f_locals)
    for name, cell in zip(func.__code__.co_freevars, func.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # assigned later in the enclosing function
            continue
    return names


def calling_frame(depth: int) -> types.FrameType:
    """The frame `depth` levels above the function that asks."""
    return sys._getframe(depth + 1)

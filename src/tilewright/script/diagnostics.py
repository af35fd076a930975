"""Script errors that show the user's line, and the texts of all of them."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from tilewright.errors import ScriptError
from tilewright.ir import Buffer, PrimExpr
from tilewright.support.suggestions import did_you_mean
from tilewright.support.text import render_excerpt


@dataclasses.dataclass(frozen=True)
class Source:
    """The text that is being parsed, as the user wrote it.

    Positions in the syntax tree count from the dedented text; the offsets lead back to the file.
    """

    filename: str
    lines: Sequence[str]
    first_line: int = 0  # lines of the file above the parsed text
    indent: int = 0  # columns that were cut off on the left
    is_text: bool = False  # not a part of a Python program, whose author could run code anyway

    def error(self, node: ast.AST, message: str) -> ScriptError:
        """The error that shows `node` in its line."""
        line = getattr(node, "lineno", 1) + self.first_line
        col = self._column(getattr(node, "col_offset", 0), line)
        end = None
        if getattr(node, "end_lineno", None) == getattr(node, "lineno", None):
            end = self._column(getattr(node, "end_col_offset", 0), line)
        excerpt = render_excerpt(self.lines, line, col, end)
        return ScriptError(f"{message}\n --> {self.filename}, line {line}\n{excerpt}")

    def _column(self, byte_offset: int, line: int) -> int:
        """Characters, where the syntax tree counts bytes."""
        if not 0 < line <= len(self.lines):
            return byte_offset + self.indent
        text = self.lines[line - 1][self.indent :].encode()
        return len(text[:byte_offset].decode(errors="replace")) + self.indent


def undefined_name(name: str, known: Iterable[str], ended: str | None) -> str:
    if ended is not None:
        return f"{name!r} is not defined here: {ended}"
    return f"undefined variable {name!r}{did_you_mean(name, known, list_all=False)}"


def unknown_form(name: str, known: Iterable[str]) -> str:
    return f"T has no {name!r}{did_you_mean(name, known, list_all=False)}"


def no_attribute(value: Any, name: str) -> str:
    known = [attribute for attribute in dir(value) if not attribute.startswith("_")]
    hint = did_you_mean(name, known, list_all=False)
    return f"{_kind_of(value)} has no attribute {name!r}{hint}"


def wrong_index_count(buffer: Buffer, given: int) -> str:
    return (
        f"buffer {buffer.name!r} has {_count(len(buffer.shape), 'dimension')} "
        f"{_shape(buffer)}, but {given} {'index is' if given == 1 else 'indices are'} given"
    )


def bad_index(buffer: Buffer, axis: int, index: Any) -> str:
    return (
        f"index {axis} of buffer {buffer.name!r} must be an integer expression, "
        f"got {_described(index)}"
    )


def constant_out_of_bounds(buffer: Buffer, axis: int, index: int, extent: int) -> str:
    return (
        f"index {index} is out of bounds: dimension {axis} of buffer {buffer.name!r} "
        f"goes from 0 to {extent - 1}"
    )


def slice_needs_constant_length(buffer: Buffer) -> str:
    return (
        f"a slice of buffer {buffer.name!r} that is read as a vector needs a constant length, and "
        "only the last dimension may be a slice"
    )


def store_to_undefined(name: str, known: Iterable[str]) -> str:
    hint = did_you_mean(name, known, list_all=False)
    return (
        f"assignment to an element of {name!r}, which is not defined{hint or ';'} buffers come "
        "from T.alloc_buffer, T.match_buffer or a parameter `A: T.Buffer(...)`"
    )


def not_a_buffer(value: Any) -> str:
    return f"only elements of buffers can be assigned to, this is {_described(value)}"


def store_dtype(buffer: Buffer, wanted: str, given: str) -> str:
    return (
        f"cannot store a {given} value in buffer {buffer.name!r} of {wanted}: convert it with "
        f'T.Cast("{wanted}", ...)'
    )


def store_lanes(buffer: Buffer, wanted: str, given: str) -> str:
    return (
        f"the store into buffer {buffer.name!r} needs a value of type {wanted}, got {given}; use "
        "T.Broadcast to fill all lanes"
    )


def not_an_expression(value: Any) -> str:
    return f"expected an expression, got {_described(value)}"


def not_a_condition(value: PrimExpr) -> str:
    return f"expected a condition of type bool, got {value.dtype!s}: compare it, e.g. `x != 0`"


def loop_var_in_block(var: str, block: str) -> str:
    return (
        f"loop variable {var!r} is used inside block {block!r}: bind it to an iterator of the "
        f"block, e.g. v{var} = T.axis.spatial(n, {var})"
    )


def form_outside_block(form: str) -> str:
    return f"{form} must stand directly inside `with T.block(...)`"


def form_twice(form: str, block: str) -> str:
    return f"{form} is given twice in block {block!r}"


def axis_needs_value(form: str) -> str:
    return (
        f"T.axis.{form} needs the value the iterator is bound to, e.g. T.axis.{form}(16, i); "
        "only a block with no_realize=True goes without"
    )


def axis_target_count(names: int, axes: int) -> str:
    made, given = _count(axes, "iterator"), _count(names, "name")
    return f"T.axis.remap makes {made}, but {given} {_is(names)} given"


def remap_length(kinds: str, loops: int) -> str:
    return (
        f"T.axis.remap needs one letter for each loop variable: {kinds!r} has {len(kinds)}, but "
        f"{_count(loops, 'variable')} {_is(loops)} given"
    )


def remap_letter(letter: str) -> str:
    return f"T.axis.remap knows 'S' (spatial) and 'R' (reduce), not {letter!r}"


def remap_not_a_loop(value: Any) -> str:
    return (
        f"T.axis.remap binds iterators to loop variables, {_described(value)} is not one; use "
        "T.axis.spatial(extent, value) or T.axis.reduce(extent, value)"
    )


def loop_target_count(names: int, loops: int) -> str:
    return f"{_count(names, 'loop variable')} {_is(names)} named for {_count(loops, 'loop')}"


def not_iterable(value: Any) -> str:
    return (
        f"cannot loop over {_described(value)}; expected range(...), T.grid(...), T.serial(...), "
        "T.parallel(...), T.vectorized(...), T.unroll(...), T.thread_binding(...) or a Python list"
    )


def not_a_with_form(value: Any) -> str:
    return (
        f"{_described(value)} cannot be used with `with`; expected T.block, T.init, T.attr, "
        "T.LetStmt, T.allocate, T.decl_buffer, T.launch_thread or T.Assert"
    )


def needs_a_name(form: Any) -> str:
    return f"what {form.form_name}(...) makes needs a name: `x = {form.form_name}(...)`"


def reassigned(name: str) -> str:
    return (
        f"{name!r} is a variable of the program and keeps its value; use a buffer of shape (1,) "
        "for a value that changes"
    )


def unsupported(what: str) -> str:
    return f"{what} has no meaning in a TensorIR function"


def bad_parameter(name: str) -> str:
    return (
        f"parameter {name!r} needs an annotation: T.Buffer(shape, dtype), T.handle or a scalar "
        "type such as T.int32"
    )


def opaque_access(names: Sequence[str], block: str) -> str:
    listed = ", ".join(map(repr, names))
    return (
        f"block {block!r} uses the pointer of {listed}: what it accesses cannot be seen; "
        "state it with T.reads(...) and T.writes(...)"
    )


def _described(value: Any) -> str:
    if isinstance(value, Buffer):
        return f"the buffer {value.name!r}"
    if isinstance(value, PrimExpr):
        return f"`{value}` of type {value.dtype!s}"
    form = getattr(value, "form_name", None)
    if form is not None:
        return f"{form}(...)"
    return f"{value!r} of type {type(value).__name__}"


def _kind_of(value: Any) -> str:
    return f"buffer {value.name!r}" if isinstance(value, Buffer) else type(value).__name__


def _shape(buffer: Buffer) -> str:
    return f"({', '.join(map(str, buffer.shape))}{',' if len(buffer.shape) == 1 else ''})"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def not_in_text(what: str) -> str:
    return (
        f"{what} is not for scripts that come as text, which are read and never run; compute it in "
        "Python and pass it in `extra_names`"
    )

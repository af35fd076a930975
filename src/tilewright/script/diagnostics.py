"""Script errors that show the user's line, and the texts that several of them share."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence
from typing import Any

from tilewright.errors import ScriptError
from tilewright.ir import Buffer, PrimExpr
from tilewright.support.suggestions import did_you_mean
from tilewright.support.text import counted, render_excerpt


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


def no_attribute(value: Any, name: str) -> str:
    known = [attribute for attribute in dir(value) if not attribute.startswith("_")]
    hint = did_you_mean(name, known, list_all=False)
    kind = f"buffer {value.name!r}" if isinstance(value, Buffer) else type(value).__name__
    return f"{kind} has no attribute {name!r}{hint}"


def wrong_index_count(buffer: Buffer, given: int) -> str:
    dimensions = counted(len(buffer.shape), "dimension")
    shape = f"({', '.join(map(str, buffer.shape))}{',' if len(buffer.shape) == 1 else ''})"
    told = "index is" if given == 1 else "indices are"
    return f"buffer {buffer.name!r} has {dimensions} {shape}, but {given} {told} given"


def bad_index(buffer: Buffer, axis: int, index: Any) -> str:
    return (
        f"index {axis} of buffer {buffer.name!r} must be an integer expression, "
        f"got {described(index)}"
    )


def slice_needs_constant_length(buffer: Buffer) -> str:
    return (
        f"a slice of buffer {buffer.name!r} that is read as a vector needs a constant length, and "
        "only the last dimension may be a slice"
    )


def not_an_expression(value: Any) -> str:
    return f"expected an expression, got {described(value)}"


def not_a_condition(value: PrimExpr) -> str:
    return f"expected a condition of type bool, got {value.dtype!s}: compare it, e.g. `x != 0`"


def form_twice(form: str, block: str) -> str:
    return f"{form} is given twice in block {block!r}"


def needs_a_name(form: Any) -> str:
    return f"what {form.form_name}(...) makes needs a name: `x = {form.form_name}(...)`"


def unsupported(what: str) -> str:
    return f"{what} has no meaning in a TensorIR function"


def bad_parameter(name: str) -> str:
    return (
        f"parameter {name!r} needs an annotation: T.Buffer(shape, dtype), T.handle or a scalar "
        "type such as T.int32"
    )


def described(value: Any) -> str:
    """A value as messages name it."""
    if isinstance(value, Buffer):
        return f"the buffer {value.name!r}"
    if isinstance(value, PrimExpr):
        return f"`{value}` of type {value.dtype!s}"
    form = getattr(value, "form_name", None)
    if form is not None:
        return f"{form}(...)"
    return f"{value!r} of type {type(value).__name__}"


def verb_for(number: int) -> str:
    """ "is" or "are"."""
    return "is" if number == 1 else "are"


def not_in_text(what: str) -> str:
    return (
        f"{what} is not for scripts that come as text, which are read and never run; compute it in "
        "Python and pass it in `extra_names`"
    )

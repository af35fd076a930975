"""Excerpts of programs for errors: the offending blocks and loops, marked, and what is around.

Only the function concerned is shown, and of it only the lines that enclose a marked one and a few
that follow it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.ir import IRModule, Node
from tilewright.ir.printer.functions import function_scope
from tilewright.ir.printer.scope import Place, Scope
from tilewright.schedule.errors import register_excerpt

_LINES_AFTER = 3
_GAP = "..."


def excerpt(mod: IRModule, nodes: Sequence[Node]) -> str:
    """The program around `nodes`, each underlined; empty when none of them is in it."""
    parts = []
    for name, func in mod.functions.items():
        scope = function_scope(func, name)
        if places := [scope.places[node] for node in nodes if node in scope.places]:
            parts.append("\n".join(_marked(scope, places)))
    return "\n\n".join(parts)


def _marked(scope: Scope, places: Sequence[Place]) -> Iterator[str]:
    shown = _shown_lines(scope.lines, places)
    previous = -1
    for number in sorted(shown):
        if number != previous + 1 and previous >= 0:
            yield _indent_of(scope.lines[number]) + _GAP
        yield scope.lines[number]
        if here := [place for place in places if place.line == number]:
            yield _underline(here)
        previous = number
    if previous + 1 < len(scope.lines):
        yield _indent_of(scope.lines[previous]) + _GAP


def _shown_lines(lines: Sequence[str], places: Sequence[Place]) -> set[int]:
    """Marked lines, everything that encloses them, and what follows directly."""
    shown = {1}  # the line with the signature
    for place in places:
        shown.add(place.line)
        shown.update(range(place.line + 1, min(place.line + 1 + _LINES_AFTER, len(lines))))
        depth = len(_indent_of(lines[place.line]))
        for number in range(place.line - 1, 0, -1):
            indent = len(_indent_of(lines[number]))
            if indent < depth:
                shown.add(number)
                depth = indent
    return shown


def _underline(places: Sequence[Place]) -> str:
    columns = {column for place in places for column in range(place.start, place.end)}
    return "".join("^" if column in columns else " " for column in range(max(columns) + 1))


def _indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


register_excerpt(excerpt)

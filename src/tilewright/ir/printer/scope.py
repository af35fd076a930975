"""The text buffer of the printer and the names that are visible at each point of it."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from tilewright.ir.node import Node

INDENT: Final = "    "
_RESERVED: Final = frozenset({*keyword.kwlist, "T", "I", "range", "cls", "float", "Module"})


def identifier(hint: str) -> str:
    """The nearest Python identifier: `A.shared` becomes `A_shared`."""
    text = re.sub(r"\W", "_", hint) or "v"
    return f"v_{text}" if text[0].isdigit() else text


@dataclass(frozen=True)
class Place:
    """Where the text of a statement begins: a line, and the columns of it to point at."""

    line: int
    start: int
    end: int


class Scope:
    """Lines written so far, how nodes are called, and which names are taken."""

    def __init__(self, base_indent: int = 0) -> None:
        self.lines: list[str] = []
        self.places: dict[Node, Place] = {}
        self._depth = base_indent
        self._texts: dict[Node, str] = {}
        self._taken: set[str] = set(_RESERVED)
        self._first: dict[str, int] = {}  # below this suffix no name of the base is free
        self._frames: list[list[tuple[Node | None, str]]] = [[]]

    def line(self, text: str) -> None:
        """Write one line at the current indentation."""
        self.lines.append(INDENT * self._depth + text if text else "")

    def mark(self, node: Node, start: int = 0, end: int | None = None) -> None:
        """Remember the last line, or the columns `start` to `end` of its text, as `node`'s."""
        text = self.lines[-1]
        indent = len(text) - len(text.lstrip())
        last = len(text.rstrip(":")) if end is None else indent + end
        self.places[node] = Place(len(self.lines) - 1, indent + start, last)

    @contextmanager
    def indented(self) -> Iterator[None]:
        """A nested Python block: deeper indentation, and names that end with it."""
        self._depth += 1
        with self.frame():
            yield
        self._depth -= 1

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Names defined inside become free again at the end."""
        self._frames.append([])
        yield
        for node, name in self._frames.pop():
            self._release(name)
            if node is not None:
                self._texts.pop(node, None)

    def define(self, node: Node, hint: str) -> str:
        """A free name for `node` until the end of the current frame."""
        name = self._free_name(identifier(hint))
        self._taken.add(name)
        self._frames[-1].append((node, name))
        self._texts[node] = name
        return name

    def alias(self, node: Node, text: str) -> None:
        """Write `node` as `text`, e.g. the pointer of a buffer as `A.data`."""
        if node not in self._texts:
            self._frames[-1].append((node, ""))
            self._texts[node] = text

    def text_of(self, node: Node) -> str | None:
        """How `node` is called, or None if it has no name yet."""
        return self._texts.get(node)

    def _free_name(self, base: str) -> str:
        suffix = self._first.get(base, 0)
        while (name := f"{base}_{suffix}" if suffix else base) in self._taken:
            suffix += 1
        self._first[base] = suffix
        return name

    def _release(self, name: str) -> None:
        self._taken.discard(name)
        self._first.pop(name, None)
        base, _, suffix = name.rpartition("_")
        if suffix.isdecimal() and len(suffix) < 10:
            self._first[base] = min(self._first.get(base, 0), int(suffix))

"""Structural equality, its explanation, and a stable structural hash.

All three read the tokens of `canonical.py`: two nodes are equal when their tokens are, the hash is
a digest of the tokens, and the first token that differs is the first difference.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any

from tilewright.errors import IRError
from tilewright.ir.canonical import Encoder, Token
from tilewright.ir.function import IRModule, PrimFunc
from tilewright.support.nesting import nested_deeply

__all__ = [
    "structural_equal", "expr_deep_equal", "written_alike", "assert_structural_equal",
    "structural_hash", "StructuralMismatchError",
]  # fmt: skip

_MAX_SHOWN_LINES = 6
_CLOSED = object()  # marks the end of a field in the tracer's notes


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """True when two pieces of IR mean the same up to the names of what they define.

    Free variables must be the same objects, unless `map_free_vars` allows any one-to-one mapping.
    Buffers that nothing in the IR defines are always mapped, with their memory and symbolic shapes.
    """
    if lhs is rhs:
        return True
    return _tokens(lhs, map_free_vars) == _tokens(rhs, map_free_vars)


def expr_deep_equal(lhs: Any, rhs: Any) -> bool:
    """True when two parts of one program have the same value: free buffers are themselves, too."""
    if lhs is rhs:
        return True
    return _tokens(lhs, False, False) == _tokens(rhs, False, False)


def written_alike(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """True when two rows of indices or ranges are the same as they stand."""
    return all(x is y or expr_deep_equal(x, y) for x, y in zip(a, b, strict=True))


def assert_structural_equal(actual: Any, expected: Any, map_free_vars: bool = False) -> None:
    """Raise an error that shows the first difference unless both are structurally equal."""
    if structural_equal(actual, expected, map_free_vars):
        return
    found, wanted = _Tracer(map_free_vars), _Tracer(map_free_vars)
    found.value(actual)
    wanted.value(expected)
    pairs = enumerate(zip_longest(found.tokens, wanted.tokens))
    index = next(number for number, (a, b) in pairs if a != b)
    path, shown_actual = found.place(index)
    _, shown_expected = wanted.place(index)
    raise StructuralMismatchError(
        f"the programs differ at {path}\n"
        f"  expected: {_show(shown_expected)}\n"
        f"  actual:   {_show(shown_actual)}"
    )


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A 64-bit number that equal nodes share, the same in every process and on every machine.

    Free variables count by their type and the order of their first use; `map_free_vars` is accepted
    so that the call reads like that of `structural_equal`, and changes nothing.
    """
    del map_free_vars
    return hash_of_tokens(_tokens(node, map_free_vars=True))


def hash_of_tokens(tokens: Iterable[Token]) -> int:
    """A 64-bit number for a sequence of tokens."""
    text = "\x1f".join(map(str, tokens))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


class StructuralMismatchError(IRError, AssertionError):
    """Two pieces of IR that should have been structurally equal are not."""


@nested_deeply(IRError, "the program to compare")
def _tokens(node: Any, map_free_vars: bool, map_free_buffers: bool = True) -> list[Token]:
    encoder = Encoder(map_free_vars, map_free_buffers)
    encoder.value(node)
    return encoder.tokens


class _Tracer(Encoder):
    """An encoder that remembers for every token the path to it and the value it came from."""

    def __init__(self, map_free_vars: bool) -> None:
        super().__init__(map_free_vars)
        self._places: list[tuple[int, str, Any]] = []  # start, path, value, in order of start
        self._path = ""

    def value(self, value: Any) -> None:
        if not self._places:
            name = value.name if isinstance(value, PrimFunc) else type(value).__name__
            self._path = "" if isinstance(value, IRModule) else name
            self._places.append((0, self._path, value))
        super().value(value)

    def child(self, name: str, encode: Callable[[Encoder, Any], None], value: Any) -> None:
        outer = self._path
        is_item = name.startswith("[")
        self._path = outer + name if is_item or not outer else f"{outer}.{name}"
        self._places.append((len(self.tokens), self._path, value))
        encode(self, value)
        self._path = outer
        self._places.append((len(self.tokens), outer, _CLOSED))

    def place(self, index: int) -> tuple[str, Any]:
        """The innermost path that was open when token `index` was made."""
        open_places: list[tuple[str, Any]] = []
        for start, path, value in self._places:
            if start > index:
                break
            if value is _CLOSED:
                open_places.pop()
            else:
                open_places.append((path, value))
        return open_places[-1]


def _show(value: Any) -> str:
    text = value.name if isinstance(value, enum.Enum) else str(value)
    lines = text.splitlines() or [""]
    if len(lines) > _MAX_SHOWN_LINES:
        lines = [*lines[:_MAX_SHOWN_LINES], "..."]
    return ("\n" + " " * 12).join(lines)

"""Names: fresh ones, the first free of `x`, `x_1`, `x_2`, ...; and those of functions made here."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])


def named(function: _FunctionT, name: str, doc: str | None = None) -> _FunctionT:
    """A function that was made for a purpose, under the name and the description of the purpose."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


class NameSupply:
    """Hands out names that were not taken before."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next_suffix: dict[str, int] = {}

    def fresh(self, base: str) -> str:
        """`base` itself if it is free, else `base_1`, `base_2`, ...; the result is taken then."""
        name = base
        suffix = self._next_suffix.get(base, 1)
        while name in self._taken:
            name = f"{base}_{suffix}"
            suffix += 1
        self._next_suffix[base] = suffix
        self._taken.add(name)
        return name

    @contextmanager
    def block(self) -> Iterator[None]:
        """Names that are taken inside are free again behind it."""
        taken, suffixes = set(self._taken), dict(self._next_suffix)
        yield
        self._taken, self._next_suffix = taken, suffixes

    def __contains__(self, name: object) -> bool:
        return name in self._taken


def as_identifier(name: str) -> str:
    """A name of any characters as one of Python's; different names may become one."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    is_name = word[:1].isalpha() and not keyword.iskeyword(word)
    return word if is_name else f"v{word}"

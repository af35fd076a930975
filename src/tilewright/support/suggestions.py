"""Did-you-mean hints for error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was most likely meant to be, or None if nothing is close."""
    by_folded: dict[str, str] = {}
    for name in known:
        by_folded.setdefault(_fold(name), name)
    found = difflib.get_close_matches(_fold(word), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str], *, list_all: bool = True) -> str:
    """`"; did you mean 'x'?"` if a known word is close, else (`list_all`) what is known."""
    names = sorted(known)
    best = closest(word, names)
    if best is not None:
        return f"; did you mean {best!r}?"
    return f"; known: {', '.join(names)}" if names and list_all else ""


def _fold(word: str) -> str:
    return word.lower().replace("_", "-")

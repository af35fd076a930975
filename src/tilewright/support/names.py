"""Fresh names: the first free of `x`, `x_1`, `x_2`, ..."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager


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

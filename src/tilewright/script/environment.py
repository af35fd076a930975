"""The names that are visible at a point of a script."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class Environment:
    """Nested scopes over the names that Python provides."""

    def __init__(self, outer: Mapping[str, Any]) -> None:
        self._names: ChainMap[str, Any] = ChainMap({}, dict(outer))  # the innermost scope first
        self._ended: dict[str, str] = {}  # names whose scope is over, and why they are gone

    @contextmanager
    def scope(self, ended_because: str = "") -> Iterator[None]:
        """Names defined inside are gone afterwards."""
        self._names = self._names.new_child()
        yield
        for name in self._names.maps[0]:
            self._ended[name] = ended_because
        self._names = self._names.parents

    def define(self, name: str, value: Any) -> None:
        self._names[name] = value
        self._ended.pop(name, None)

    def assign(self, name: str, value: Any) -> None:
        """Give a Python-level name a new value in the scope that has it."""
        for scope in self._names.maps[:-1]:
            if name in scope:
                scope[name] = value
                return
        self.define(name, value)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def lookup(self, name: str) -> Any:
        return self._names[name]

    def ended(self, name: str) -> str | None:
        """Why a name that existed before is not visible any more."""
        return self._ended.get(name) or None

    def own_names(self) -> list[str]:
        """The names that the script itself defined, for hints."""
        return [name for scope in reversed(self._names.maps[:-1]) for name in scope]

    def flattened(self) -> dict[str, Any]:
        """All visible names, for code that Python itself evaluates."""
        return dict(self._names)

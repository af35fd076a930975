"""The names that are visible at a point of a script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class Environment:
    """Nested scopes over the names that Python provides."""

    def __init__(self, outer: Mapping[str, Any]) -> None:
        self._outer = outer
        self._scopes: list[dict[str, Any]] = [{}]
        self._ended: dict[str, str] = {}  # names whose scope is over, and why they are gone

    @contextmanager
    def scope(self, ended_because: str = "") -> Iterator[None]:
        """Names defined inside are gone afterwards."""
        self._scopes.append({})
        yield
        for name in self._scopes.pop():
            self._ended[name] = ended_because

    def define(self, name: str, value: Any) -> None:
        self._scopes[-1][name] = value
        self._ended.pop(name, None)

    def assign(self, name: str, value: Any) -> None:
        """Give a Python-level name a new value in the scope that has it."""
        for scope in reversed(self._scopes):
            if name in scope:
                scope[name] = value
                return
        self.define(name, value)

    def __contains__(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes) or name in self._outer

    def lookup(self, name: str) -> Any:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return self._outer[name]

    def ended(self, name: str) -> str | None:
        """Why a name that existed before is not visible any more."""
        return self._ended.get(name) or None

    def own_names(self) -> list[str]:
        """The names that the script itself defined, for hints."""
        return [name for scope in self._scopes for name in scope]

    def flattened(self) -> dict[str, Any]:
        """All visible names, for code that Python itself evaluates."""
        names = dict(self._outer)
        for scope in self._scopes:
            names.update(scope)
        return names

"""The names of a hybrid script while it is turned into statements."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from tilewright.errors import TensorExpressionError
from tilewright.ir import Buffer


@dataclass(frozen=True)
class Scalar:
    """A variable that is assigned to: it lives in a buffer of one element."""

    buffer: Buffer


class ScriptScope:
    """What each name means: a number, an expression, a buffer, or a scalar variable."""

    def __init__(self, function: str, captured: Mapping[str, Any]) -> None:
        self._function = function
        self._captured = captured
        self._names: dict[str, Any] = {}

    def find(self, name: str) -> Any:
        """The meaning of a name, or None."""
        return self._names.get(name, self._captured.get(name))

    def lookup(self, node: ast.Name) -> Any:
        found = self.find(node.id)
        if found is None:
            self.fail(node, f"name {node.id!r} is not defined")
        return found

    def is_local(self, name: str) -> bool:
        return name in self._names

    def define(self, name: str, value: Any) -> None:
        self._names[name] = value

    @contextmanager
    def inner(self, **names: Any) -> Iterator[None]:
        """Names that hold only inside; others defined meanwhile stay."""
        hidden = {name: self._names.get(name) for name in names}
        self._names.update(names)
        yield
        for name, value in hidden.items():
            if value is None:
                self._names.pop(name, None)
            else:
                self._names[name] = value

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        line = getattr(node, "lineno", 0)
        raise TensorExpressionError(f"hybrid script {self._function}, line {line}: {message}")

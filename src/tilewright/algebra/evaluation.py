"""Expressions on arrays of decisions: straight-line NumPy, in chunks that stay in the caches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.algebra.expr import Expr, Value

Column = npt.NDArray[Any]
CHUNK = 4096  # rows


def _ceil_divide(a: Any, b: Any) -> Any:
    return -(-a // b)


def _equal(a: Any, b: Any) -> Any:
    return np.equal(a, b).astype(np.int64)


def _less_equal(a: Any, b: Any) -> Any:
    return np.less_equal(a, b).astype(np.int64)


def _where(condition: Any, a: Any, b: Any) -> Any:
    return np.where(condition != 0, a, b)


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "+": np.add,
    "*": np.multiply,
    "//": np.floor_divide,
    "%": np.mod,
    "ceil": _ceil_divide,
    "min": np.minimum,
    "max": np.maximum,
    "<=": _less_equal,
    "==": _equal,
    "where": _where,
}


class Program:
    """Evaluates some expressions together; what they share is worked out once."""

    def __init__(self, outputs: Sequence[Value]) -> None:
        self.outputs = tuple(outputs)
        self._order = _ordered(self.outputs)
        self.inputs = tuple(str(n.args[0]) for n in self._order if n.op == "variable")
        last: dict[Expr, int] = {}
        for position, node in enumerate(self._order):
            for arg in node.args:
                if isinstance(arg, Expr):
                    last[arg] = position
        kept = {each for each in self.outputs if isinstance(each, Expr)}
        self._released: list[list[Expr]] = [[] for _ in self._order]
        for node, position in last.items():
            if node not in kept:
                self._released[position].append(node)

    def __call__(self, columns: Mapping[str, Column]) -> list[Column]:
        """A column for each output; those of constants have one row."""
        known: dict[Expr, Any] = {}
        for node, released in zip(self._order, self._released, strict=True):
            if node.op == "variable":
                known[node] = columns[node.args[0]]
            else:
                args = [known[arg] if isinstance(arg, Expr) else arg for arg in node.args]
                known[node] = OPERATIONS[node.op](*args)
            for done in released:
                del known[done]
        return [
            known[each] if isinstance(each, Expr) else np.array([each], np.int64)
            for each in self.outputs
        ]


def _ordered(outputs: Sequence[Value]) -> list[Expr]:
    """All nodes that outputs need, operands first."""
    found: set[Expr] = set()
    waiting = [each for each in outputs if isinstance(each, Expr)]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += [arg for arg in node.args if isinstance(arg, Expr)]
    return sorted(found, key=lambda node: node.number)


def chunks(rows: int) -> Iterator[slice]:
    """Pieces of a population that are evaluated at a time."""
    for first in range(0, rows, CHUNK):
        yield slice(first, min(rows, first + CHUNK))

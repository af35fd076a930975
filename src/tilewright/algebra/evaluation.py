"""Expressions on arrays of decisions: straight-line NumPy, in chunks that stay in the caches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.algebra.expr import Expr, Value

Column = npt.NDArray[Any]
CHUNK = 16384  # rows


def _ceil_divide(a: Any, b: Any) -> Any:
    return -(-a // b)


def _equal(a: Any, b: Any) -> Any:
    return np.equal(a, b).astype(np.int64)


def _less_equal(a: Any, b: Any) -> Any:
    return np.less_equal(a, b).astype(np.int64)


def _where(condition: Any, a: Any, b: Any) -> Any:
    return np.where(condition, a, b)


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


class ArrayProgram:
    """Evaluates some expressions together; what they share is worked out once."""

    def __init__(self, outputs: Sequence[Value]) -> None:
        self.outputs = tuple(outputs)
        order = _ordered(self.outputs)
        self.inputs = tuple(str(node.args[0]) for node in order if node.op == "variable")
        places = {node: place for place, node in enumerate(order)}
        constants: dict[Value, int] = {}
        for value in [*[arg for node in order for arg in node.args], *outputs]:
            if isinstance(value, int) and value not in constants:
                constants[value] = len(order) + len(constants)
        self._constants = list(constants)

        def place_of(value: Value) -> int:
            return places[value] if isinstance(value, Expr) else constants[value]

        self._variables = [(places[n], n.args[0]) for n in order if n.op == "variable"]
        self._code = [
            (OPERATIONS[node.op], places[node], tuple(map(place_of, node.args)))
            for node in order
            if node.op != "variable"
        ]
        self._results = [place_of(value) for value in outputs]
        self.size = len(order)
        self._done = self._last_uses()

    def _last_uses(self) -> list[list[int]]:
        """By step: the places whose arrays nobody needs after it."""
        kept = {*self._results, *range(self.size, self.size + len(self._constants))}
        last = {arg: step for step, (_, _, args) in enumerate(self._code) for arg in args}
        found: list[list[int]] = [[] for _ in self._code]
        for arg, step in last.items():
            if arg not in kept:
                found[step].append(arg)
        return found

    def __call__(self, columns: Mapping[str, Column]) -> list[Column]:
        """A column for each output; those of constants are numbers."""
        known: list[Any] = [None] * self.size + self._constants
        for place, name in self._variables:
            known[place] = columns[name]
        for (operation, place, args), done in zip(self._code, self._done, strict=True):
            known[place] = operation(*[known[arg] for arg in args])
            for each in done:
                known[each] = None
        return [known[place] for place in self._results]


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


def chunks(rows: int, size: int = CHUNK) -> Iterator[slice]:
    """Pieces of a population that are evaluated at a time."""
    for first in range(0, rows, size):
        yield slice(first, min(rows, first + size))

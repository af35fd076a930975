"""Rows of a population divided into cases, all at once: a walk down a tree of forks.

Where the structure of a program depends on decisions (a block is inlined or moved to another loop),
the values of some expressions say which case a row belongs to. Many forks ask for the same few
expressions, so these are worked out once for all rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tilewright.algebra.choices import Choices
from tilewright.algebra.decisions import Columns, rows_in
from tilewright.algebra.evaluation import ArrayProgram
from tilewright.algebra.expr import Expr

Rows = npt.NDArray[np.int64]
CaseT = TypeVar("CaseT")
NOT_REACHED = -1
_SPAN = 1 << 32  # more values than an expression that forks ask for can have
_LEAF = -1


@dataclass(frozen=True, eq=False)
class Fork:
    """Rows go different ways, by the value of an expression."""

    key: object
    value: Expr
    choices: Choices

    def along(self, way: int) -> Choices:
        """What is chosen behind the fork, for those who go one way."""
        return self.choices.with_choice(self.key, way)


class CaseTree(Generic[CaseT]):
    """Cases by number; each is made when the first row needs it."""

    def __init__(self, made: Callable[[Choices], Fork | CaseT]) -> None:
        self._make = made
        self.nodes: list[Fork | CaseT] = []
        self._asked: list[int] = []  # by node: the number of the expression that a fork asks for
        self._numbers: dict[Expr, int] = {}
        self._ways: dict[tuple[int, int], int] = {}
        self._known = np.zeros((2, 0), np.int64)  # codes of ways in order, and where they lead
        self._program = ArrayProgram([])
        self._add(Choices())

    def numbers(self, columns: Columns, most_new: int | None = None) -> Rows:
        """The number of the case of each row.

        With `most_new`, no more nodes than that are made: rows that would need more are
        `NOT_REACHED`.
        """
        count = rows_in(columns)
        limit = None if most_new is None else len(self.nodes) + most_new
        at = np.zeros(count, np.int64)
        values = np.zeros((0, count), np.int64)
        while True:
            asked = np.array(self._asked, np.int64)[at]
            rows = np.flatnonzero((asked != _LEAF) & (at != NOT_REACHED))
            if not len(rows):
                return at
            if len(values) < len(self._numbers):
                values = np.stack(self._evaluated(columns))
            at[rows] = self._next(at[rows] * _SPAN + values[asked[rows], rows] + _SPAN // 2, limit)

    def behind(self, number: int, way: int) -> int:
        """The node behind a fork."""
        if (number, way) not in self._ways:
            fork = self.nodes[number]
            assert isinstance(fork, Fork)
            self._ways[number, way] = self._add(fork.along(way))
        return self._ways[number, way]

    @property
    def most_cases(self) -> int:
        """How many cases there can be, by the values at the forks that are known."""
        forks = [node for node in self.nodes if isinstance(node, Fork)]
        return math.prod(fork.value.high - fork.value.low + 1 for fork in forks)

    @property
    def ways(self) -> list[tuple[int, int]]:
        """The forks and values behind which nodes were made, in order."""
        return list(self._ways)

    def go(self, ways: Iterable[tuple[int, int]]) -> None:
        """Make the same nodes."""
        for number, way in ways:
            self.behind(number, way)

    def _add(self, choices: Choices) -> int:
        node = self._make(choices)
        asked = _LEAF
        if isinstance(node, Fork):
            asked = self._numbers.setdefault(node.value, len(self._numbers))
        self.nodes.append(node)
        self._asked.append(asked)
        return len(self.nodes) - 1

    def _evaluated(self, columns: Columns) -> list[Rows]:
        if len(self._program.outputs) < len(self._numbers):
            self._program = ArrayProgram(list(self._numbers))
        return self._program(columns)

    def _next(self, codes: Rows, limit: int | None) -> Rows:
        """Where rows go, by codes of forks and values."""
        found = self._found(codes)
        missing, often = np.unique(codes[found == NOT_REACHED], return_counts=True)
        if limit is not None:
            # Half of what is left: rows that get further may come to more forks.
            left = -(-max(0, limit - len(self.nodes)) // 2)
            missing = missing[np.argsort(-often, kind="stable")[:left]]
        for code in missing:
            number, way = divmod(int(code), _SPAN)
            self.behind(number, way - _SPAN // 2)
        return self._found(codes) if len(missing) else found

    def _found(self, codes: Rows) -> Rows:
        if len(self._ways) > self._known.shape[1]:
            coded = [(n * _SPAN + way + _SPAN // 2, to) for (n, way), to in self._ways.items()]
            self._known = np.array(sorted(coded), np.int64).T
        keys, leads_to = self._known
        if not len(keys):
            return np.full(len(codes), NOT_REACHED)
        places = np.minimum(np.searchsorted(keys, codes), len(keys) - 1)
        return np.where(keys[places] == codes, leads_to[places], NOT_REACHED)

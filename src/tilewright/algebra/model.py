"""A sketch as algebra: what `SpaceModel` says of whole populations of decision vectors.

Where the structure of a program depends on decisions (a block is inlined or moved to another loop),
rows are divided into cases. Each case is interpreted when the first row needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright import ir
from tilewright.algebra.choices import Choices, Undecided
from tilewright.algebra.decisions import Columns, Decision, columns_of
from tilewright.algebra.evaluation import ArrayProgram
from tilewright.algebra.expr import Expr, ExprGraph
from tilewright.algebra.interpreter import Interpretation, interpret
from tilewright.algebra.layout_products import fixed_products
from tilewright.algebra.loop_tree import NotInterpreted
from tilewright.algebra.nest_columns import NestProgram, key_of
from tilewright.algebra.nest_view import NestView, nests_of
from tilewright.schedule import Trace
from tilewright.space.base import Postproc

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StructureCase:
    """Programs of one structure, by their nests."""

    interpretation: Interpretation
    views: tuple[NestView, ...]  # the nests as expressions
    nests: tuple[NestProgram, ...]  # on arrays: one object for all nests with the same numbers
    regions: tuple[int, ...]  # nests with the same number run in one parallel loop


@dataclass(frozen=True)
class Uncovered:
    """Programs of one structure that are not interpreted, and why: they have to be replayed."""

    reason: str


@dataclass(eq=False)
class _Fork:
    """Rows go different ways, by the value of an expression."""

    key: object
    program: ArrayProgram
    choices: Choices
    ways: dict[int, _Node] = field(default_factory=dict)


_Node: TypeAlias = _Fork | StructureCase | Uncovered


class SpaceModel:
    """The algebra of a sketch. Raises `NotInterpreted`, with the reason, where there is none.

    Where only some structures are not interpreted, `cases` says so for their rows.
    """

    def __init__(self, mod: ir.IRModule, trace: Trace, postprocs: Sequence[Postproc]) -> None:
        self._mod, self._trace, self._postprocs = mod, trace, tuple(postprocs)
        self._graphs: dict[object, ExprGraph] = {}  # what is known of products differs
        self._nests: dict[tuple[Any, ...], NestProgram] = {}
        self._root = self._interpreted(Choices())
        self.decisions: tuple[Decision, ...] = tuple(
            self._any_case(self._root).interpretation.decisions
        )

    def columns(self, vectors: Sequence[Sequence[Any]]) -> Columns:
        """Decision vectors, as traces have them, as columns."""
        return columns_of(self.decisions, vectors)

    def cases(self, columns: Columns) -> Iterator[tuple[StructureCase | Uncovered, Rows]]:
        """The cases that occur in a population, each with its rows."""
        count = max((len(column) for column in columns.values()), default=1)
        yield from self._divided(self._root, columns, np.arange(count))

    def _divided(
        self, node: _Node, columns: Columns, rows: Rows
    ) -> Iterator[tuple[StructureCase | Uncovered, Rows]]:
        if not isinstance(node, _Fork):
            yield node, rows
            return
        (values,) = node.program({name: columns[name][rows] for name in node.program.inputs})
        for number in np.unique(values):
            way = int(number)
            if way not in node.ways:
                choices = node.choices.with_choice(node.key, way)
                node.ways[way] = self._interpreted(choices)
            yield from self._divided(node.ways[way], columns, rows[values == number])

    def _interpreted(self, choices: Choices) -> _Node:
        try:
            graph = self._graphs.setdefault(fixed_products(choices), ExprGraph())
            found = interpret(self._mod, self._trace, self._postprocs, choices, graph)
            nests = nests_of(found.tree)
        except Undecided as fork:
            return _Fork(fork.key, ArrayProgram([fork.value]), choices)
        except NotInterpreted as why:
            return Uncovered(str(why))
        programs = tuple(map(self._shared, nests))
        return StructureCase(found, tuple(nests), programs, tuple(_regions(nests)))

    def _shared(self, nest: NestView) -> NestProgram:
        key = key_of(nest)
        if key not in self._nests:
            self._nests[key] = NestProgram(nest)
        return self._nests[key]

    def _any_case(self, node: _Node) -> StructureCase:
        """A case that is covered; raises the reason where there is none."""
        if isinstance(node, StructureCase):
            return node
        if isinstance(node, Uncovered):
            raise NotInterpreted(node.reason)
        (value,) = node.program.outputs
        assert isinstance(value, Expr)
        for way in (value.high, value.low):
            choices = node.choices.with_choice(node.key, way)
            node.ways[way] = self._interpreted(choices)
            try:
                return self._any_case(node.ways[way])
            except NotInterpreted as why:
                reason = why
        raise reason


def _regions(nests: Sequence[NestView]) -> list[int]:
    """A number for each parallel loop that nests run in."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(nest.region, len(numbers)) for nest in nests]

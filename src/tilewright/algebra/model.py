"""A sketch as algebra: what `SpaceModel` says of whole populations of decision vectors.

Where the structure of a program depends on decisions (a block is inlined or moved to another loop),
rows are divided into cases. Each case is interpreted when the first row needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tilewright import ir
from tilewright.algebra.choices import Choices, Undecided
from tilewright.algebra.decisions import Columns, Decision, columns_of
from tilewright.algebra.evaluation import Column, Program
from tilewright.algebra.expr import Expr, Value
from tilewright.algebra.interpreter import Interpretation, interpret
from tilewright.algebra.nest_view import AccessView, NestView, Slot, nests_of
from tilewright.schedule import Trace
from tilewright.space.base import Postproc

Rows = npt.NDArray[np.int64]
_Part = TypeVar("_Part")


@dataclass(frozen=True, eq=False)
class Case:
    """Programs of one structure: their nests, as expressions and as a program on arrays."""

    interpretation: Interpretation
    nests: tuple[NestView, ...]
    program: Program

    def evaluate(self, columns: Mapping[str, Column]) -> list[NestView]:
        """The nests with arrays in the place of expressions."""
        numbers = dict(zip(self.program.outputs, self.program(columns), strict=True))
        return [_mapped(nest, lambda value: _column(value, numbers)) for nest in self.nests]


def _column(value: Value, numbers: Mapping[Value, Column]) -> Any:
    return numbers[value] if isinstance(value, Expr) else value


@dataclass(eq=False)
class _Fork:
    """Rows go different ways, by the value of an expression."""

    key: object
    program: Program
    choices: Choices
    ways: dict[int, _Fork | Case] = field(default_factory=dict)


class SpaceModel:
    """The algebra of a sketch. Raises `NotCovered`, with the reason, where there is none."""

    def __init__(self, mod: ir.IRModule, trace: Trace, postprocs: Sequence[Postproc]) -> None:
        self._mod, self._trace, self._postprocs = mod, trace, tuple(postprocs)
        self._root = self._interpreted(Choices())
        self.decisions: tuple[Decision, ...] = tuple(self._any_case().interpretation.decisions)

    def columns(self, vectors: Sequence[Sequence[Any]]) -> Columns:
        """Decision vectors, as traces have them, as columns."""
        return columns_of(self.decisions, vectors)

    def cases(self, columns: Columns) -> Iterator[tuple[Case, Rows]]:
        """The cases that occur in a population, each with its rows."""
        count = max((len(column) for column in columns.values()), default=1)
        yield from self._divided(self._root, columns, np.arange(count))

    def _divided(
        self, node: _Fork | Case, columns: Columns, rows: Rows
    ) -> Iterator[tuple[Case, Rows]]:
        if isinstance(node, Case):
            yield node, rows
            return
        (values,) = node.program({name: columns[name][rows] for name in node.program.inputs})
        for number in np.unique(values):
            way = int(number)
            if way not in node.ways:
                choices = node.choices.with_choice(node.key, way)
                node.ways[way] = self._interpreted(choices)
            yield from self._divided(node.ways[way], columns, rows[values == number])

    def _interpreted(self, choices: Choices) -> _Fork | Case:
        try:
            found = interpret(self._mod, self._trace, self._postprocs, choices)
        except Undecided as fork:
            return _Fork(fork.key, Program([fork.value]), choices)
        nests = tuple(nests_of(found.tree))
        return Case(found, nests, Program(list(_values(nests))))

    def _any_case(self) -> Case:
        node = self._root
        while isinstance(node, _Fork):
            (value,) = node.program.outputs
            assert isinstance(value, Expr)
            choices = node.choices.with_choice(node.key, value.high)
            node.ways[value.high] = node = self._interpreted(choices)
        return node


def _values(nests: Sequence[NestView]) -> dict[Value, None]:
    """All expressions of some nests, each once."""
    found: dict[Value, None] = {}

    def note(value: Value) -> Value:
        if isinstance(value, Expr):
            found[value] = None
        return value

    for nest in nests:
        _mapped(nest, note)
    return found


def _mapped(nest: NestView, change: Callable[[Value], Any]) -> NestView:
    """A nest with other values in all its places."""

    def access(view: AccessView) -> AccessView:
        return AccessView(
            view.buffer,
            view.is_store,
            [change(each) for each in view.footprints],
            [change(each) for each in view.depends],
            [change(each) for each in view.unit_stride],
        )

    slots = [
        Slot(change(s.extent), s.kind, s.loop, change(s.in_parallel), change(s.in_vector))
        for s in nest.slots
    ]
    return NestView(
        nest.name,
        slots,
        access(nest.store),
        [access(load) for load in nest.loads],
        nest.operations,
        nest.is_reduction,
        [(change(limit), change(covered)) for limit, covered in nest.shares],
        change(nest.unroll_step),
        change(nest.reduction_width),
        nest.packs_weights,
        [change(each) for each in nest.boundaries],
    )

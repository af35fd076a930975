"""A sketch as algebra: what `SpaceModel` says of whole populations of decision vectors.

Where the structure of a program depends on decisions (a block is inlined or moved to another loop),
rows are divided into cases. Each case is interpreted when the first row needs it, and remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tilewright import ir
from tilewright.algebra.batch_cases import CaseTree, Fork, Rows as Rows
from tilewright.algebra.choices import Choices, Undecided
from tilewright.algebra.decisions import Columns, Decision, columns_of
from tilewright.algebra.description import structure_lines, variable_lines
from tilewright.algebra.evaluation import ArrayProgram
from tilewright.algebra.expr import ExprGraph
from tilewright.algebra.interpreter import Interpretation, TraceInterpreter
from tilewright.algebra.layout_products import fixed_products
from tilewright.algebra.loop_tree import NotInterpreted
from tilewright.algebra.nest_columns import NestProgram, NestTable
from tilewright.algebra.nest_view import NestView
from tilewright.schedule import Trace
from tilewright.space.base import Postproc


@dataclass(frozen=True, eq=False)
class StructureCase:
    """Programs of one structure, by their nests."""

    interpretation: Interpretation
    nests: tuple[NestProgram, ...]  # on arrays: one object for all nests with the same numbers

    @property
    def views(self) -> tuple[NestView, ...]:
        """The nests as expressions."""
        return self.interpretation.nests

    @property
    def regions(self) -> tuple[int, ...]:
        """Nests with the same number run in one parallel loop."""
        return tuple(nest.region for nest in self.views)

    @cached_property
    def checks_program(self) -> ArrayProgram:
        """1 for each check of a post-processor that holds."""
        return ArrayProgram([check.holds for check in self.interpretation.checks])


@dataclass(frozen=True)
class Uncovered:
    """Programs of one structure that are not interpreted, and why: they have to be replayed."""

    reason: str


class SpaceModel:
    """The algebra of a sketch. Raises `NotInterpreted`, with the reason, where there is none.

    Where only some structures are not interpreted, `cases` says so for their rows. It is a value:
    all of it follows from a program, a trace and post-processors, and two models of the same are
    equal, whichever cases they have seen. As text it shows its variables and these cases.
    """

    def __init__(self, mod: ir.IRModule, trace: Trace, postprocs: Sequence[Postproc]) -> None:
        self._mod, self._trace, self._postprocs = mod, trace, tuple(postprocs)
        self._interpreter = TraceInterpreter(mod, trace, postprocs)
        self._graphs: dict[object, ExprGraph] = {}  # what is known of products differs
        self.nests = NestTable()
        self.tree: CaseTree[StructureCase | Uncovered] = CaseTree(self._interpreted)
        self.decisions: tuple[Decision, ...] = self._any_case(0).interpretation.decisions

    def __reduce__(self) -> tuple[Any, ...]:
        made_of = (self._mod, self._trace, self._postprocs)
        return SpaceModel, made_of, {"ways": self.tree.ways}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Interpret the cases that were known."""
        self.tree.go(state["ways"])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SpaceModel):
            return NotImplemented
        return (
            self._trace.as_json() == other._trace.as_json()
            and list(map(_settings, self._postprocs)) == list(map(_settings, other._postprocs))
            and ir.structural_equal(self._mod, other._mod)
        )

    def __hash__(self) -> int:
        return hash(ir.structural_hash(self._mod))

    def __str__(self) -> str:
        lines = ["variables", *_indented(variable_lines(self.decisions))]
        for number, node in enumerate(self.tree.nodes):
            if isinstance(node, StructureCase):
                lines += [f"structure {number}", *_indented(structure_lines(node.interpretation))]
            elif isinstance(node, Uncovered):
                lines.append(f"structure {number} is not covered: {node.reason}")
        return "\n".join(lines)

    def columns(self, vectors: Sequence[Sequence[Any]]) -> Columns:
        """Decision vectors, as traces have them, as columns."""
        return columns_of(self.decisions, vectors)

    def cases(self, columns: Columns) -> Iterator[tuple[StructureCase | Uncovered, Rows]]:
        """The cases that occur in a population, each with its rows."""
        numbers = self.tree.numbers(columns)
        for number in np.unique(numbers):
            case = self.tree.nodes[number]
            assert not isinstance(case, Fork)
            yield case, np.flatnonzero(numbers == number)

    def _interpreted(self, choices: Choices) -> Fork | StructureCase | Uncovered:
        try:
            graph = self._graphs.setdefault(fixed_products(choices), ExprGraph())
            found = self._interpreter.interpret(choices, graph)
        except Undecided as fork:
            return Fork(fork.key, fork.value, choices)
        except NotInterpreted as why:
            return Uncovered(str(why))
        return StructureCase(found, tuple(map(self.nests.add, found.nests)))

    def _any_case(self, number: int) -> StructureCase:
        """A case that is covered; raises the reason where there is none."""
        node = self.tree.nodes[number]
        if isinstance(node, StructureCase):
            return node
        if isinstance(node, Uncovered):
            raise NotInterpreted(node.reason)
        for way in (node.value.high, node.value.low):
            try:
                return self._any_case(self.tree.behind(number, way))
            except NotInterpreted as why:
                reason = why
        raise reason


def _settings(postproc: Postproc) -> tuple[type, dict[str, Any]]:
    return type(postproc), vars(postproc)


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]

"""A nest with numbers in the place of expressions: arrays of slots by candidates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.algebra.decisions import Columns, rows_in
from tilewright.algebra.evaluation import ArrayProgram, Column
from tilewright.algebra.expr import Expr, ExprGraph, Value
from tilewright.algebra.nest_view import NestView
from tilewright.ir import ForKind, IntImm

Floats = npt.NDArray[np.float64]
Masks = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
_NOT_THERE = -1
_MOST_VALUES = 1 << 23  # of candidates that are looked at together: 64 MB


@dataclass(frozen=True, eq=False)
class NestColumns:
    """What `NestView` says, for many candidates; the store is the first access."""

    extents: Floats  # slots by candidates, as all that follow
    in_parallel: Masks
    in_vector: Masks
    is_parallel: Masks  # slots, as the next two
    is_vector: Masks
    is_serial: Masks
    footprints: Floats  # accesses by depths by candidates
    depends: Masks  # accesses by slots by candidates
    strides: Floats
    boundaries: Masks  # depths by candidates
    element_bytes: npt.NDArray[np.int64]
    scopes: tuple[str, ...]
    operations: Floats
    is_reduction: bool
    share: Floats
    unroll_step: Floats
    reduction_width: Floats
    unit_bytes: npt.NDArray[np.int64]  # of accesses, that a tensor instruction touches at once


@dataclass(frozen=True)
class NestLayout:
    """Where the values of a nest stand; nests that differ in their values alone share it."""

    kinds: tuple[ForKind, ...]
    scopes: tuple[str, ...]
    element_bytes: tuple[int, ...]
    unit_bytes: tuple[int, ...]
    is_reduction: bool
    shares: int

    @staticmethod
    def of(nest: NestView) -> NestLayout:
        """The layout of a nest."""
        return NestLayout(
            tuple(slot.kind for slot in nest.slots),
            tuple(each.buffer.scope for each in nest.accesses),
            tuple(each.element_bytes for each in nest.accesses),
            tuple(each.unit_bytes for each in nest.accesses),
            nest.is_reduction,
            len(nest.shares),
        )

    def columns(self, table: Floats) -> NestColumns:
        """Values of nests, by rows in the order of `values_of`, in their places."""
        slots, accesses, count = len(self.kinds), len(self.scopes), table.shape[1]
        parts = _Parts(table)
        operations, unroll_step, reduction_width = parts.next(3)
        boundaries = parts.next(slots + 1) != 0
        extents = parts.next(slots)
        in_parallel, in_vector = parts.next(slots) != 0, parts.next(slots) != 0
        footprints = parts.next(accesses * (slots + 1)).reshape(accesses, slots + 1, count)
        depends = parts.next(accesses * slots).reshape(accesses, slots, count) != 0
        strides = np.abs(parts.next(accesses * slots).reshape(accesses, slots, count))
        shares = parts.next(2 * self.shares)
        return NestColumns(
            extents,
            in_parallel,
            in_vector,
            self._is(ForKind.PARALLEL),
            self._is(ForKind.VECTORIZED),
            self._is(ForKind.SERIAL),
            footprints,
            depends,
            strides,
            boundaries,
            np.array(self.element_bytes),
            self.scopes,
            np.maximum(operations, 0.5),
            self.is_reduction,
            np.minimum(1.0, shares[::2] / shares[1::2]).prod(0),
            unroll_step,
            reduction_width,
            np.array(self.unit_bytes),
        )

    def _is(self, kind: ForKind) -> Masks:
        return np.array([each is kind for each in self.kinds], np.bool_)


class _Parts:
    """Rows of a table, one group after the other."""

    def __init__(self, table: Floats) -> None:
        self._table = table
        self._first = 0

    def next(self, count: int) -> Floats:
        self._first += count
        return self._table[self._first - count : self._first]


@dataclass(frozen=True, eq=False)
class NestProgram:
    """A nest on arrays; one object for all nests with the same numbers."""

    nest: NestView
    number: int  # among the nests of a model
    layout: NestLayout
    values: tuple[Value | float, ...]
    work: float

    @cached_property
    def _program(self) -> ArrayProgram:
        return ArrayProgram([each for each in self.values if isinstance(each, Expr)])

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the columns that the nest depends on."""
        return self._program.inputs

    def __call__(self, columns: Mapping[str, Column], count: int) -> NestColumns:
        """The nest of `count` candidates."""
        table = np.empty((len(self.values), count))
        made = iter(self._program(columns))
        for row, value in enumerate(self.values):
            table[row] = next(made) if isinstance(value, Expr) else value
        return self.layout.columns(table)


class NestGroup:
    """The nests of one layout, by the rows of a table where their values are."""

    def __init__(self, layout: NestLayout) -> None:
        self.layout = layout
        self._nests: list[Rows] = []
        self._varied = self._same = self._all = np.zeros((0, 0), np.int64)

    def add(self, places: Rows) -> int:
        """The number of a new nest."""
        self._nests.append(places)
        return len(self._nests) - 1

    def columns(self, values: Floats, nests: Rows, candidates: Rows) -> NestColumns:
        """The values of nests, each for one of the candidates.

        Many nests differ in a few values only, and many values of a nest are the same: those are
        copied, not looked up one by one.
        """
        if self._varied.shape[1] < len(self._nests):
            self._compare()
        same = values[self._same[:, 0]].take(candidates, axis=1)
        places = self._varied[:, nests] * values.shape[1]
        places += candidates
        return self.layout.columns(np.concatenate([same, values.ravel().take(places)])[self._all])

    def _compare(self) -> None:
        different, which = np.unique(np.stack(self._nests, axis=1), axis=0, return_inverse=True)
        is_same = (different == different[:, :1]).all(1)
        self._same, self._varied = different[is_same], different[~is_same]
        place = np.empty(len(different), np.int64)
        place[np.flatnonzero(is_same)] = np.arange(len(self._same))
        place[np.flatnonzero(~is_same)] = len(self._same) + np.arange(len(self._varied))
        self._all = place[which.ravel()]


class _GraphValues:
    """The values of nests that are expressions of one graph, with their rows in a table."""

    def __init__(self, graph: ExprGraph) -> None:
        self.graph = graph
        self._rows: dict[Expr, int] = {}
        self._program = ArrayProgram([])

    def add(self, values: Mapping[Expr, int]) -> None:
        self._rows.update(values)

    def fill(self, table: Floats, columns: Columns, candidates: Rows) -> None:
        """Put the values of some candidates into their places."""
        if not len(candidates):
            return
        if len(self._program.outputs) < len(self._rows):
            self._program = ArrayProgram(list(self._rows))
        if len(candidates) == table.shape[1]:
            for row, value in zip(self._rows.values(), self._program(columns), strict=True):
                table[row] = value
            return
        part = {name: columns[name][candidates] for name in self._program.inputs}
        places = np.ix_(np.array(list(self._rows.values())), candidates)
        table[places] = np.stack(self._program(part))


class NestTable:
    """All nests of a model. Values that several of them have are worked out once.

    What no candidate needs that is looked at is not worked out at all: the rest comes into the
    table when it is first asked for.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], NestProgram] = {}
        self._nests: list[NestProgram] = []
        self._rows: dict[Value | float, int] = {}
        self._groups: dict[NestLayout, NestGroup] = {}
        # By nest: its group, and its number there.
        self._members = np.zeros((2, 0), np.int64)
        self._graphs: list[_GraphValues] = []
        self._graph_of = np.zeros(0, np.int64)  # by nest

    def add(self, nest: NestView) -> NestProgram:
        """The nest on arrays."""
        values = tuple(values_of(nest))
        layout = NestLayout.of(nest)
        work = work_of(nest)
        key = (nest.packs_weights, work, layout, values)
        if key not in self._known:
            self._known[key] = NestProgram(nest, len(self._nests), layout, values, work)
            self._nests.append(self._known[key])
        return self._known[key]

    def ask_for(self, nests: Rows) -> None:
        """Take nests into the table."""
        missing = len(self._nests) - self._members.shape[1]
        if missing:
            self._members = np.append(self._members, np.full((2, missing), _NOT_THERE), axis=1)
            self._graph_of = np.append(self._graph_of, np.full(missing, _NOT_THERE))
        for number in np.unique(nests[self._members[0, nests] == _NOT_THERE]):
            nest = self._nests[number]
            places = [self._rows.setdefault(value, len(self._rows)) for value in nest.values]
            self._graph_of[number] = self._noted(nest)
            group = self._groups.setdefault(nest.layout, NestGroup(nest.layout))
            at = list(self._groups).index(nest.layout)
            self._members[:, number] = at, group.add(np.array(places, np.int64))

    @property
    def rows_at_once(self) -> int:
        """How many candidates fit a table of all values."""
        return max(1, _MOST_VALUES // max(1, len(self._rows)))

    def _noted(self, nest: NestProgram) -> int:
        """The number of the graph of a nest, which gets its expressions."""
        own = {value: self._rows[value] for value in nest.values if isinstance(value, Expr)}
        if not own:
            return _NOT_THERE
        graph = next(iter(own)).graph
        known = [each.graph for each in self._graphs]
        if graph not in known:
            self._graphs.append(_GraphValues(graph))
            known.append(graph)
        self._graphs[known.index(graph)].add(own)
        return known.index(graph)

    def values(self, columns: Columns, nests: Rows) -> Floats:
        """All values that candidates have, by rows; `nests` are those of each candidate.

        Values of cases that a candidate does not belong to are not worked out for it.
        """
        table = np.empty((len(self._rows), rows_in(columns)))
        constants = [(row, v) for v, row in self._rows.items() if not isinstance(v, Expr)]
        for row, value in constants:
            table[row] = value
        graphs = np.where(nests == _NOT_THERE, _NOT_THERE, self._graph_of[nests]).max(1, initial=-1)
        for number, each in enumerate(self._graphs):
            each.fill(table, columns, np.flatnonzero(graphs == number))
        return table

    def by_group(self, nests: Rows) -> Iterator[tuple[NestGroup, Rows, Rows]]:
        """The groups of some nests, each with the places of its nests and their numbers in it."""
        group, member = self._members
        order = np.argsort(nests, kind="stable")
        ordered = nests[order]
        own = group[ordered]
        for number, each in enumerate(self._groups.values()):
            chosen = own == number
            if chosen.any():
                yield each, order[chosen], member[ordered[chosen]]


def values_of(nest: NestView) -> Iterator[Value | float]:
    """All values of a nest, in the order that `NestLayout` takes them apart."""
    slots, accesses = nest.slots, nest.accesses
    yield from (nest.operations, nest.unroll_step, nest.reduction_width)
    yield from nest.boundaries
    for name in ("extent", "in_parallel", "in_vector"):
        yield from (getattr(slot, name) for slot in slots)
    for name in ("footprints", "depends", "strides"):
        yield from itertools.chain(*[getattr(access, name) for access in accesses])
    yield from itertools.chain(*nest.shares)


def work_of(nest: NestView) -> float:
    """Operations of a nest as far as all decisions agree; reductions come first."""
    extents = [each.value if isinstance(each, IntImm) else 1 for each in nest.store.buffer.shape]
    written = nest.operations
    operations = written.high if isinstance(written, Expr) else written
    return operations * math.prod(extents) * (1 << 20 if nest.is_reduction else 1)

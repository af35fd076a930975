"""A nest with numbers in the place of expressions: arrays of slots by candidates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.algebra.evaluation import ArrayProgram, Column
from tilewright.algebra.expr import Expr, Value
from tilewright.algebra.nest_view import NestView
from tilewright.ir import ForKind, IntImm

Floats = npt.NDArray[np.float64]
Masks = npt.NDArray[np.bool_]


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


class NestProgram:
    """Evaluates all expressions of a nest at once, and puts them in their places."""

    def __init__(self, nest: NestView) -> None:
        self.nest = nest
        self.work = work_of(nest)
        self._rows: dict[Value | float, int] = {}
        for value in values_of(nest):
            self._rows.setdefault(value, len(self._rows))
        self._program = ArrayProgram([each for each in self._rows if isinstance(each, Expr)])
        self._constants = [
            (n, each) for each, n in self._rows.items() if not isinstance(each, Expr)
        ]
        self._columns = [n for each, n in self._rows.items() if isinstance(each, Expr)]
        slots, accesses = nest.slots, nest.accesses
        self._extents = self._places([slot.extent for slot in slots])
        self._in_parallel = self._places([slot.in_parallel for slot in slots])
        self._in_vector = self._places([slot.in_vector for slot in slots])
        self._boundaries = self._places(nest.boundaries)
        self._footprints = np.stack([self._places(each.footprints) for each in accesses])
        self._depends = np.stack([self._places(each.depends) for each in accesses])
        self._strides = np.stack([self._places(each.strides) for each in accesses])
        self._shares = [self._places(each) for each in nest.shares]

    def _places(self, values: Sequence[Value]) -> npt.NDArray[np.int64]:
        return np.array([self._rows[value] for value in values], np.int64)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the columns that the nest depends on."""
        return self._program.inputs

    def __call__(self, columns: Mapping[str, Column], count: int) -> NestColumns:
        """The nest of `count` candidates."""
        table = np.empty((len(self._rows), count), np.float64)
        for row, constant in self._constants:
            table[row] = constant
        for row, column in zip(self._columns, self._program(columns), strict=True):
            table[row] = column
        share = np.ones(count)
        for limit, covered in self._shares:
            share *= np.minimum(1.0, table[limit] / table[covered])
        nest, accesses = self.nest, self.nest.accesses
        kinds = [slot.kind for slot in nest.slots]
        return NestColumns(
            table[self._extents],
            table[self._in_parallel] != 0,
            table[self._in_vector] != 0,
            np.array([kind is ForKind.PARALLEL for kind in kinds], np.bool_),
            np.array([kind is ForKind.VECTORIZED for kind in kinds], np.bool_),
            np.array([kind is ForKind.SERIAL for kind in kinds], np.bool_),
            table[self._footprints],
            table[self._depends] != 0,
            np.abs(table[self._strides]),
            table[self._boundaries] != 0,
            np.array([access.element_bytes for access in accesses]),
            tuple(access.buffer.scope for access in accesses),
            np.maximum(table[self._rows[nest.operations]], 0.5),
            nest.is_reduction,
            share,
            table[self._rows[nest.unroll_step]],
            table[self._rows[nest.reduction_width]],
            np.array([access.unit_bytes for access in accesses]),
        )


def values_of(nest: NestView) -> list[Value | float]:
    """All values of a nest, in a fixed order."""
    found: list[Value | float] = [
        nest.operations,
        nest.unroll_step,
        nest.reduction_width,
        *nest.boundaries,
    ]
    for slot in nest.slots:
        found += [slot.extent, slot.in_parallel, slot.in_vector]
    for access in nest.accesses:
        found += [*access.footprints, *access.depends, *access.strides]
    for limit, covered in nest.shares:
        found += [limit, covered]
    return found


def key_of(nest: NestView) -> tuple[Any, ...]:
    """The same for nests of which all numbers are the same."""
    kinds = tuple(slot.kind for slot in nest.slots)
    scopes = tuple((a.buffer.scope, a.element_bytes, a.unit_bytes) for a in nest.accesses)
    own = (nest.is_reduction, nest.packs_weights, work_of(nest))
    return (*own, kinds, scopes, *values_of(nest))


def work_of(nest: NestView) -> float:
    """Operations of a nest as far as all decisions agree; reductions come first."""
    extents = [each.value if isinstance(each, IntImm) else 1 for each in nest.store.buffer.shape]
    written = nest.operations
    operations = written.high if isinstance(written, Expr) else written
    return operations * math.prod(extents) * (1 << 20 if nest.is_reduction else 1)

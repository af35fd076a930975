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


class NestProgram:
    """Evaluates all expressions of a nest at once."""

    def __init__(self, nest: NestView) -> None:
        self.nest = nest
        self.work = work_of(nest)
        found: dict[Value, None] = {}
        for value in values_of(nest):
            if isinstance(value, Expr):
                found[value] = None
        self._program = ArrayProgram(list(found))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the columns that the nest depends on."""
        return self._program.inputs

    def __call__(self, columns: Mapping[str, Column], count: int) -> NestColumns:
        """The nest of `count` candidates."""
        made = self._program(columns)
        fill = _Filler(dict(zip(self._program.outputs, made, strict=True)), count)
        nest = self.nest
        kinds = [slot.kind for slot in nest.slots]
        accesses = nest.accesses
        return NestColumns(
            fill.table([slot.extent for slot in nest.slots]),
            fill.masks([slot.in_parallel for slot in nest.slots]),
            fill.masks([slot.in_vector for slot in nest.slots]),
            np.array([kind is ForKind.PARALLEL for kind in kinds], np.bool_),
            np.array([kind is ForKind.VECTORIZED for kind in kinds], np.bool_),
            np.array([kind is ForKind.SERIAL for kind in kinds], np.bool_),
            np.stack([fill.table(access.footprints) for access in accesses]),
            np.stack([fill.masks(access.depends) for access in accesses]),
            np.abs(np.stack([fill.table(access.strides) for access in accesses])),
            fill.masks(nest.boundaries),
            np.array([access.element_bytes for access in accesses]),
            tuple(access.buffer.scope for access in accesses),
            np.maximum(fill.table([nest.operations])[0], 0.5),
            nest.is_reduction,
            fill.share(nest.shares),
            fill.table([nest.unroll_step])[0],
            fill.table([nest.reduction_width])[0],
        )


class _Filler:
    """Puts columns and constants into tables."""

    def __init__(self, known: Mapping[Value, Column], count: int) -> None:
        self._known = known
        self._count = count

    def _numbers(self, value: Value | float) -> Any:
        return self._known[value] if isinstance(value, Expr) else value

    def table(self, values: Sequence[Value | float]) -> Floats:
        made = np.empty((len(values), self._count), np.float64)
        for row, value in enumerate(values):
            made[row] = self._numbers(value)
        return made

    def masks(self, values: Sequence[Value]) -> Masks:
        made = np.empty((len(values), self._count), np.bool_)
        for row, value in enumerate(values):
            made[row] = self._numbers(value)
        return made

    def share(self, shares: Sequence[tuple[Value, Value]]) -> Floats:
        share = np.ones(self._count)
        for limit, covered in shares:
            share *= np.minimum(1.0, self._numbers(limit) / np.asarray(self._numbers(covered)))
        return share


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
    scopes = tuple((each.buffer.scope, each.element_bytes) for each in nest.accesses)
    own = (nest.is_reduction, nest.packs_weights, work_of(nest))
    return (*own, kinds, scopes, *values_of(nest))


def work_of(nest: NestView) -> float:
    """Operations of a nest as far as all decisions agree; reductions come first."""
    extents = [each.value if isinstance(each, IntImm) else 1 for each in nest.store.buffer.shape]
    written = nest.operations
    operations = written.high if isinstance(written, Expr) else written
    return operations * math.prod(extents) * (1 << 20 if nest.is_reduction else 1)

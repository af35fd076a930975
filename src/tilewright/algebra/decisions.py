"""The open decisions of a sketch, as columns of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.schedule.trace.instruction import Instruction

Columns: TypeAlias = dict[str, npt.NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class CategoricalDecision:
    """One of some numbers; a decision is its position."""

    inst: Instruction
    name: str
    values: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def columns(self, decisions: npt.ArrayLike) -> Columns:
        """The numbers that a population of decisions stands for."""
        return {self.name: np.array(self.values, np.int64)[np.asarray(decisions, np.int64)]}


@dataclass(frozen=True, eq=False)
class TileDecision:
    """Factors of an extent."""

    inst: Instruction
    name: str
    extent: int
    parts: int
    max_innermost: int

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}.{part}" for part in range(self.parts))

    @property
    def most(self) -> tuple[int, ...]:
        """The largest factor in each place."""
        limit = self.extent if self.max_innermost < 1 else min(self.extent, self.max_innermost)
        return (*[self.extent] * (self.parts - 1), limit)

    def columns(self, decisions: npt.ArrayLike) -> Columns:
        table = np.asarray(decisions, np.int64).reshape(-1, self.parts)
        return {name: table[:, part] for part, name in enumerate(self.names)}


@dataclass(frozen=True, eq=False)
class LocationDecision:
    """Where a block is computed."""

    inst: Instruction
    name: str
    loops: int  # that it could be computed at

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def columns(self, decisions: npt.ArrayLike) -> Columns:
        return {self.name: np.asarray(decisions, np.int64)}


Decision: TypeAlias = CategoricalDecision | TileDecision | LocationDecision


def columns_of(decisions: Iterable[Decision], vectors: Sequence[Sequence[Any]]) -> Columns:
    """A population as columns; a vector has one decision for each."""
    found: Columns = {}
    for number, decision in enumerate(decisions):
        found.update(decision.columns([vector[number] for vector in vectors]))
    return found


def rows_in(columns: Columns) -> int:
    """The number of rows of a population; a sketch without decisions has one."""
    return max((len(column) for column in columns.values()), default=1)

"""A block half-way through tiling: what the steps of a tiling rule hand to one another."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from typing_extensions import Self

from tilewright.ir import PrimExpr
from tilewright.schedule import BlockRV, LoopRV, Schedule

Factor: TypeAlias = int | PrimExpr


@dataclass
class TilingState:
    """`tiles[i]` holds the loops of the i-th letter of the structure, outermost first.

    `factors[i][k]` is the extent that `tiles[i][k]` was given. Steps of subclassed rules derive
    from this class to remember more.
    """

    sch: Schedule
    block: BlockRV
    tiles: list[list[LoopRV]] = field(default_factory=list)
    factors: list[list[Factor]] = field(default_factory=list)
    read_caches: dict[int, BlockRV] = field(default_factory=dict)  # by the number of the read
    write_caches: dict[int, BlockRV] = field(default_factory=dict)  # by the level

    def copy(self) -> Self:
        """A state with a schedule of its own, which forks the random engine."""
        return replace(
            self,
            sch=self.sch.copy(),
            tiles=[list(tile) for tile in self.tiles],
            factors=[list(tile) for tile in self.factors],
            read_caches=dict(self.read_caches),
            write_caches=dict(self.write_caches),
        )

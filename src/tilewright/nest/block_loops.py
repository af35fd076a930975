"""The loops around a block as rules and post-processors ask for them, worked out in one walk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.arith.affine import used_vars
from tilewright.ir import BlockRealize, For, IterType, Var
from tilewright.nest.loops import known_extent
from tilewright.schedule.state import leaf_realizes
from tilewright.schedule.state.sref import StmtSRef


@dataclass(frozen=True)
class NestLoop:
    """One loop of a nest."""

    stmt: For
    extent: int | None  # None: not a number
    is_spatial: bool  # no block below binds a reduction or opaque iterator to it

    @property
    def is_free(self) -> bool:
        """Nobody has written anything on the loop or bound it to a thread."""
        return not self.stmt.annotations and self.stmt.thread_binding is None

    @property
    def has_one_child(self) -> bool:
        """Its body is another loop or a block, and nothing else."""
        return isinstance(self.stmt.body, (For, BlockRealize))


def nest_above(block: StmtSRef) -> list[NestLoop]:
    """The loops around a block up to the nearest block, outermost first."""
    nest: list[NestLoop] = []
    other: set[Var] = set()
    below: For | None = None
    for sref in reversed(block.loops):
        stmt = sref.loop
        if below is None or stmt.body is not below:
            other = _not_spatial(leaf_realizes(stmt.body))
        nest.append(NestLoop(stmt, known_extent(stmt), stmt.loop_var not in other))
        below = stmt
    nest.reverse()
    return nest


def _not_spatial(realizes: Iterator[BlockRealize]) -> set[Var]:
    """The variables that some block binds to an iterator that is not spatial."""
    return {
        var
        for realize in realizes
        for iter_var, value in realize.bindings
        if iter_var.iter_type is not IterType.DATA_PAR
        for var in used_vars(value)
    }


def first_not_spatial(nest: Sequence[NestLoop]) -> int | None:
    """The position of the outermost loop that is not spatial."""
    return next((i for i, loop in enumerate(nest) if not loop.is_spatial), None)

"""The parts of tiles that a block of threads does, one after another.

Whole tiles in rounds, where the blocks of a cluster may share each of them; or equal shares of all
steps of the sum, so that no block idles while others do the tiles of a last round ("stream-K").

Shares follow each other along all steps of all tiles. A block begins with the end of its share: the
first steps of a tile whose last steps belong to the block after it. It hands these sums over and
does the rest of its share, which ends with the last steps of a tile that blocks before it began.
So it waits only for what was done first, by blocks that started before it: nobody waits long, and
none for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tilewright import ir
from tilewright.lowering.gpu.tile_kernels.building import bound, loop, when
from tilewright.lowering.gpu.tile_kernels.layout import GroupLayout


@dataclass(frozen=True)
class Turn:
    """Some steps of a tile, which a block of threads does without a break."""

    number: ir.Var  # among those of the block
    tile: ir.Var
    first: ir.PrimExpr  # of the steps
    steps: ir.PrimExpr
    uses: ir.PrimExpr  # of stages, before it
    place: Callable[[ir.Var], ir.PrimExpr]  # the step that is done after a number of others


TurnBody = Callable[[Turn], ir.Stmt]


class Turns(Protocol):
    """The turns of each block."""

    def each(self, block: ir.Var, body: TurnBody) -> ir.Stmt:
        """`body` of all turns of a block."""


def turns_of(layout: GroupLayout, blocks: int) -> Turns:
    """How `blocks` blocks of threads share the tiles of a kernel."""
    is_even = layout.tiles % blocks == 0
    if layout.form.is_streamed and not is_even:
        return SharedSteps(layout, blocks)
    return Rounds(layout, blocks)


@dataclass(frozen=True)
class Rounds:
    """Blocks do whole tiles in turn; those of a cluster do a part of the steps of each."""

    layout: GroupLayout
    blocks: int

    def each(self, block: ir.Var, body: TurnBody) -> ir.Stmt:
        """`body` of all turns of a block."""
        splits, tiles = self.layout.form.splits, self.layout.tiles
        at_once = self.blocks // splits
        rank = ir.floormod(block, splits)
        first = self._first_step(rank)
        steps = self._first_step(rank + 1) - first if splits > 1 else ir.const(self.layout.steps)

        def one(number: ir.Var) -> ir.Stmt:
            tile = ir.Var("tile", ir.INT32)
            turn = Turn(number, tile, first, steps, number * steps, lambda step: first + step)
            inside = body(turn)
            if tiles % at_once:
                inside = when(ir.less(tile, tiles), inside)
            return ir.LetStmt(tile, number * at_once + ir.floordiv(block, splits), inside)

        return loop("round", -(-tiles // at_once), one)

    def _first_step(self, rank: ir.PrimExpr) -> ir.PrimExpr:
        """Where the steps of a block begin."""
        return ir.floordiv(rank * self.layout.steps, self.layout.form.splits)


@dataclass(frozen=True)
class SharedSteps:
    """Blocks do equal numbers of steps of the first tiles, then whole tiles in rounds.

    One to two tiles for each block are shared; of fewer, many blocks would share each tile. Blocks
    that need the same operands find them in the cache if they need them at the same time, so the
    steps of whole tiles begin where blocks are that began with the first step of a tile.
    """

    layout: GroupLayout
    blocks: int

    @property
    def rounds(self) -> int:
        """Of whole tiles."""
        return max(0, self.layout.tiles // self.blocks - 1)

    @property
    def shared_tiles(self) -> int:
        """Tiles whose steps are shared."""
        return self.layout.tiles - self.rounds * self.blocks

    @property
    def _all_steps(self) -> int:
        """Of the tiles that are shared."""
        return self.shared_tiles * self.layout.steps

    def begin(self, block: ir.PrimExpr) -> ir.PrimExpr:
        """The first of all steps that a block does."""
        return ir.floordiv(block * self._all_steps, self.blocks)

    def block_of(self, step: ir.PrimExpr) -> ir.PrimExpr:
        """The block that does one of all steps."""
        return ir.floordiv((step + 1) * self.blocks - 1, self._all_steps)

    def each(self, block: ir.Var, body: TurnBody) -> ir.Stmt:
        """`body` of all turns of a block."""
        return bound(
            "share_begin",
            self.begin(block),
            lambda begin: bound(
                "share_end",
                self.begin(block + 1),
                lambda end: self._turns(block, begin, end, body),
            ),
        )

    def _turns(self, block: ir.Var, begin: ir.Var, end: ir.Var, body: TurnBody) -> ir.Stmt:
        steps = self.layout.steps
        highest = ir.floordiv(end - 1, steps)
        parts = highest - ir.floordiv(begin, steps) + 1

        def one(number: ir.Var) -> ir.Stmt:
            # A whole tile is told by its number: it is not among those that are shared.
            rest = self.shared_tiles + (number - parts) * self.blocks + block
            tile = self._choice(number, parts, highest - number, rest)
            return bound("tile", tile, lambda tile: self._turn(number, tile, begin, end, body))

        return loop("turn", parts + self.rounds, one)

    def _choice(
        self, number: ir.Var, parts: ir.PrimExpr, shared: ir.PrimExpr, whole: ir.PrimExpr
    ) -> ir.PrimExpr:
        return ir.Select(ir.less(number, parts), shared, whole) if self.rounds else shared

    def _turn(
        self, number: ir.Var, tile: ir.Var, begin: ir.Var, end: ir.Var, body: TurnBody
    ) -> ir.Stmt:
        steps = self.layout.steps
        parts = ir.floordiv(end - 1, steps) - ir.floordiv(begin, steps) + 1
        before = tile * steps
        first = ir.Max(begin - before, ir.const(0))
        last = self._choice(number, parts, ir.Min(end - before, ir.const(steps)), ir.const(steps))
        done = self._choice(
            number,
            parts,
            ir.Max(end - before - steps, ir.const(0)),
            end - begin + (number - parts) * steps,
        )
        return bound(
            "first_step",
            first,
            lambda first: bound(
                "own_steps",
                last - first,
                lambda own: bound(
                    "uses",
                    done,
                    lambda uses: body(
                        Turn(number, tile, first, own, uses, self._places(first, own, uses))
                    ),
                ),
            ),
        )

    def _places(self, first: ir.Var, own: ir.Var, uses: ir.Var) -> Callable[[ir.Var], ir.PrimExpr]:
        steps = self.layout.steps

        def place(step: ir.Var) -> ir.PrimExpr:
            in_turn = ir.floormod(uses + step, steps)
            return ir.Select(ir.equal(own, steps), in_turn, first + step)

        return place

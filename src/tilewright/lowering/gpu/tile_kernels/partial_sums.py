"""Sums of tiles that several blocks of threads share, by way of memory.

A block that ends before the last step of a tile gives its sums away: each thread stores its
registers where the same thread of another block finds them, and a flag says that they are there.
The block that does the last step takes the sums of all others, in their order, so that results are
the same in every run. It also takes the flags down, so that the next launch finds none. A flag is a
number of 64 bits that is in no memory by chance, so that nobody has to clear them first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tilewright import ir
from tilewright.ir.intrinsics import address_of
from tilewright.lowering.gpu.tile_kernels.building import loop, run, when
from tilewright.lowering.gpu.tile_kernels.layout import WARP_GROUP
from tilewright.lowering.gpu.tile_kernels.turns import SharedSteps, Turn

if TYPE_CHECKING:
    from tilewright.lowering.gpu.tile_kernels.roles import KernelVars

_WIDTH = 4  # registers that a thread stores at once
_FIRST_BARRIER = 8  # of those with numbers; others use the first ones


@dataclass(frozen=True)
class PartialSums:
    """The memory of sums that blocks give away, and how they do that."""

    turns: SharedSteps

    @property
    def _groups(self) -> int:
        """Groups of warps that multiply, of all blocks: each has sums and a flag."""
        return self.turns.blocks * self.turns.layout.form.consumers

    @property
    def _pieces(self) -> int:
        return self.turns.layout.sums // _WIDTH

    @cached_property
    def sums(self) -> ir.Buffer:
        """The sums of all threads; those of neighbours lie together."""
        layout = self.turns.layout
        size = self._groups * WARP_GROUP * layout.sums
        return ir.decl_buffer((size,), layout.form.sums.dtype, "given_sums")

    @cached_property
    def flags(self) -> ir.Buffer:
        """Whether sums are there."""
        return ir.decl_buffer((self._groups,), "uint64", "flags")

    def around(self, kernel: ir.Stmt) -> ir.Stmt:
        """A kernel with its memory."""
        for buffer in (self.sums, self.flags):
            kernel = ir.Allocate(buffer.data, buffer.dtype, buffer.shape, ir.TRUE, kernel)
        return kernel

    def finish(self, sums: ir.Buffer, turn: Turn, at: KernelVars, write: ir.Stmt) -> ir.Stmt:
        """At the end of a turn: give sums away, or take those of others and write results."""
        finished = ir.seq([self._take_all(sums, turn, at), write])
        return ir.IfThenElse(self.is_last(turn), finished, self._give(sums, at))

    def is_last(self, turn: Turn) -> ir.PrimExpr:
        """True if a turn ends with the last step of its tile."""
        return ir.equal(turn.first + turn.steps, self.turns.layout.steps)

    def _give(self, sums: ir.Buffer, at: KernelVars) -> ir.Stmt:
        def store(piece: ir.Var) -> ir.Stmt:
            values = [sums[piece * _WIDTH + n] for n in range(_WIDTH)]
            to = address_of(self.sums[self._place(at.block, piece, at)])
            return run(f"tw_give_sums_{self._kind}", to, *values)

        return ir.seq(
            [
                loop("piece", self._pieces, store, unrolled=True),
                self._barrier(at),
                when(self._is_leader(at), run("tw_put_flag", self._flag(at.block, at))),
            ]
        )

    def _take_all(self, sums: ir.Buffer, turn: Turn, at: KernelVars) -> ir.Stmt:
        """Add what the blocks have that did the first steps of a tile."""
        first = self.turns.block_of(turn.tile * self.turns.layout.steps)
        count = ir.Select(ir.greater(turn.first, 0), at.block - first, ir.const(0))

        def take(number: ir.Var) -> ir.Stmt:
            giver = first + number

            def add(piece: ir.Var) -> ir.Stmt:
                source = address_of(self.sums[self._place(giver, piece, at)])
                return run(f"tw_take_sums_{self._kind}", address_of(sums[piece * _WIDTH]), source)

            return ir.seq(
                [
                    when(self._is_leader(at), run("tw_take_flag", self._flag(giver, at))),
                    self._barrier(at),
                    loop("piece", self._pieces, add, unrolled=True),
                ]
            )

        return loop("giver", count, take)

    @property
    def _kind(self) -> str:
        return "s32" if self.turns.layout.form.sums.dtype.is_int else "f32"

    def _group(self, block: ir.PrimExpr, at: KernelVars) -> ir.PrimExpr:
        return block * self.turns.layout.form.consumers + ir.floordiv(at.warp, 4)

    def _place(self, block: ir.PrimExpr, piece: ir.PrimExpr, at: KernelVars) -> ir.PrimExpr:
        own = ir.floormod(at.thread, WARP_GROUP)
        return ((self._group(block, at) * self._pieces + piece) * WARP_GROUP + own) * _WIDTH

    def _flag(self, block: ir.PrimExpr, at: KernelVars) -> ir.PrimExpr:
        return address_of(self.flags[self._group(block, at)])

    def _barrier(self, at: KernelVars) -> ir.Stmt:
        """All threads of a group meet."""
        number = ir.floordiv(at.warp, 4) + _FIRST_BARRIER
        return run("tw_named_barrier", number, WARP_GROUP)

    def _is_leader(self, at: KernelVars) -> ir.PrimExpr:
        return ir.equal(ir.floormod(at.thread, WARP_GROUP), 0)

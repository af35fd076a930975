"""Sums of slices of a step, added by way of shared memory at the end of a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from tilewright import ir
from tilewright.lowering.gpu.tile_kernels.building import loop, put, sync, vector, vector_copy
from tilewright.lowering.gpu.tile_kernels.thread_tiles import WIDTH


@dataclass(frozen=True)
class Exchange:
    """Every thread has sums of its slice; each slice gets the results of its share of them."""

    shared: ir.Buffer
    sums: ir.Buffer  # of a thread
    results: ir.Buffer  # of a thread: as many fewer as there are slices
    threads: int  # of a slice

    def statement(self, own: ir.PrimExpr, in_slice: ir.PrimExpr) -> ir.Stmt:
        """For a thread of slice `own`, with its number there."""
        pieces, share = (_pieces(buffer) for buffer in (self.sums, self.results))

        def place(which: ir.PrimExpr, piece: ir.PrimExpr) -> ir.PrimExpr:
            return ((which * pieces + piece) * self.threads + in_slice) * WIDTH

        def give(piece: ir.Var) -> ir.Stmt:
            return vector_copy(self.shared, place(own, piece), self.sums, piece * WIDTH, WIDTH)

        def take(piece: ir.Var) -> ir.Stmt:
            places = [place(ir.const(n), own * share + piece) for n in range(pieces // share)]
            return vector(
                WIDTH, lambda v: self._total([at + v for at in places], piece * WIDTH + v)
            )

        return ir.seq(
            [
                sync(),
                loop("piece", pieces, give, unrolled=True),
                sync(),
                loop("piece", share, take, unrolled=True),
            ]
        )

    def _total(self, places: list[ir.PrimExpr], to: ir.PrimExpr) -> ir.Stmt:
        values: list[ir.PrimExpr] = [self.shared[at] for at in places]
        return put(self.results, reduce(ir.add, values), to)


def _pieces(buffer: ir.Buffer) -> int:
    """Vectors in the registers of a thread."""
    (count,) = buffer.shape
    assert isinstance(count, ir.IntImm)
    return count.value // WIDTH

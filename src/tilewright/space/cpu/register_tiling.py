"""`RegisterTiling`: a tile of results stays in vector registers for the whole reduction.

This is what a hand-written matrix product or convolution does, and what a tiling of loops alone
cannot say: a tile of `rows` x `vectors` accumulators lives in a `local` buffer that becomes
registers; it is set to zero before the reduction, written back after it, and in between each step
loads one row of the right operand and broadcasts elements of the left one. Tiles need not divide:
the last vector is masked, the last rows are a smaller tile.

One sketch for each number of vectors, with and without a packed right operand, and with producers
(padding) in a pass of their own, beside the rows that need them or, where the reduction is so short
that a pass would count, not at all: tiles at the border leave out what is zero.

A right operand that lies across the vectors (the weights of a dense layer: `A[i, k] * W[j, k]`) is
always packed. If few rows use the copy, other rules get the block as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.errors import ScheduleError
from tilewright.ir import Block, PrimFunc
from tilewright.schedule import BlockRV, Schedule, StmtSRef
from tilewright.schedule.primitives.get_blocks import neighbours
from tilewright.space.base import NotApplied, schedule_rules
from tilewright.space.conditions import NO_REDUCTION, all_iters_spatial, is_tiled, why_not_free
from tilewright.space.cpu.contraction import Contraction
from tilewright.space.cpu.cpu_rule import CpuRule
from tilewright.space.cpu.register_tile import register_tile
from tilewright.space.cpu.tile_builder import (
    LEAST_USE,
    NotTiled,
    ProducerPlace,
    TileSite,
    TileVariant,
    is_window,
    pads,
    used_share,
)
from tilewright.space.layout_free import has_bound_weights, is_layout_free

MAX_VECTORS = 4
PACKING_REUSE = 64
TURNING_REUSE = 8  # of a copy that puts columns side by side: without it, sums run along the depth
PACKING_BYTES = 1 << 18


@schedule_rules.register("RegisterTiling")
class RegisterTiling(CpuRule):
    """Tiles contractions for the vector registers of a CPU."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        sref = sch.get_sref(block)
        if taken := why_not_free(sref):
            return NotApplied(sch, taken)
        found = Contraction.of(sref.block)
        variants = []
        if found is not None and found.right is not None:
            variants = self._variants(sch, block, found)
        elif (found := _turned(sref)) is not None:
            variants = self._turned_variants(sch, block, found)
        sketches = []
        for variant in variants:
            copy = sch.copy()
            try:
                register_tile(TileSite(copy, block, variant, self._shape, self._cores)).run()
            except (NotTiled, ScheduleError):
                continue  # this way does not fit the program around the block
            sketches.append(copy)
        if found is not None and sketches and variants[0].turned and not _is_reused(found):
            sketches.append(sch)
        return sketches or NotApplied(sch, _why_no_tile(sref.block))

    def _variants(self, sch: Schedule, block: BlockRV, found: Contraction) -> list[TileVariant]:
        sref = sch.get_sref(block)
        lanes = self._shape.lanes(sref.block.writes[0].buffer.dtype.bits)
        producers = [p for p in neighbours(sch, sref, before=True) if not is_tiled(p)]
        places = [ProducerPlace.BEFORE]
        if producers and found.rows:
            places.append(ProducerPlace.BESIDE)
        if is_window(found) and any(pads(producer.block) for producer in producers):
            places.append(ProducerPlace.INLINE)
        func = sch.mod[sch.state.function_of(sref)]
        packing = (False, True) if _is_worth_packing(func, sref, found, producers) else (False,)
        return [
            TileVariant(vectors * lanes, packed, place)
            for vectors in _widths(found, lanes)
            for packed in packing
            for place in places
        ]

    def _turned_variants(
        self, sch: Schedule, block: BlockRV, found: Contraction
    ) -> list[TileVariant]:
        sref = sch.get_sref(block)
        func = sch.mod[sch.state.function_of(sref)]
        if _row_count(found) < TURNING_REUSE and not has_bound_weights(func):
            return []  # the copy costs more than it saves
        lanes = self._shape.lanes(sref.block.writes[0].buffer.dtype.bits)
        return [
            TileVariant(vectors * lanes, packed=True, place=ProducerPlace.BEFORE, turned=True)
            for vectors in _widths(found, lanes)
        ]


def _why_no_tile(block: Block) -> str:
    """Why none of the ways to tile a block has worked."""
    if all_iters_spatial(block):
        return NO_REDUCTION
    found = Contraction.of(block)
    if found is None:
        return "it is no sum of products that runs along the last axis of its result"
    if found.right is None:
        return "no input is contiguous along the last axis of its result"
    return "no register tile fits the program around it"


def _turned(block: StmtSRef) -> Contraction | None:
    """A contraction whose right operand lies across the vectors; its only one."""
    found = Contraction.of(block.block, any_layout=True)
    if found is None or found.right is None or not found.rows:
        return None
    written = block.block.writes[0].buffer
    operands = [region for region in block.block.reads if region.buffer is not written]
    return found if len(found.left) == len(operands) - 1 else None


def _widths(found: Contraction, lanes: int) -> list[int]:
    """How many vectors wide a tile may be: those that waste few lanes of the last one."""
    width = found.extents[found.vector]
    limit = found.vector_limit or width
    used = {
        count: used_share(width, count * lanes)
        for count in range(1, MAX_VECTORS + 1)
        if limit >= width or limit % (count * lanes) == 0
    }
    best = max(used.values(), default=0.0)
    good = [count for count, share in used.items() if share >= LEAST_USE * best]
    return [count for count in good if count > 1] or good


def _is_worth_packing(
    func: PrimFunc, block: StmtSRef, found: Contraction, producers: Sequence[StmtSRef]
) -> bool:
    """Copies pay if they are made once, or of a large input that many rows use again."""
    assert found.right is not None
    buffer = block.block.reads[found.right].buffer
    if any(write.buffer is buffer for producer in producers for write in producer.block.writes):
        return False
    if is_layout_free(func, buffer):
        return True
    size = math.prod(getattr(extent, "value", 0) for extent in buffer.shape)
    return _is_reused(found) and size * buffer.dtype.bits // 8 >= PACKING_BYTES


def _is_reused(found: Contraction) -> bool:
    """Do many rows use each element of the right operand?"""
    return _row_count(found) >= PACKING_REUSE


def _row_count(found: Contraction) -> int:
    return math.prod(found.extents[n] for n in found.rows)

"""`ScratchpadTiling`: matrix products and convolutions on the accelerator VTA.

Tiles of results stay in the accumulator while tiles of both operands are loaded, step by step along
the sum. What follows a sum is computed where a tile is stored. The search chooses the tiles.
"""

from __future__ import annotations

from tilewright.errors import ScheduleError
from tilewright.ir import Block, BufferRegion, IntImm, IterType, annotation_keys as keys
from tilewright.nest.loops import known_extent
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.space.base import NotApplied, ScheduleRule, schedule_rules
from tilewright.vta.names import ACC, BLOCK, GEMM, INP, WGT

STRUCTURE = "scratchpads"
_LARGEST_TILE = 2048  # elements of the largest scratchpad along one axis
_OPERANDS = 2


@schedule_rules.register("ScratchpadTiling")
class ScratchpadTiling(ScheduleRule):
    """Tiles sums of products of int8 blocks for scratchpads."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if reason := why_not(sch.get_sref(block).block):
            return NotApplied(sch, reason)
        copy = sch.copy()
        try:
            _schedule(copy, block)
        except ScheduleError as error:
            return NotApplied(sch, str(error).splitlines()[0])
        return [copy]


def why_not(block: Block) -> str:
    """Why a block does not fit the matrix instruction; empty if it does."""
    kinds = [each.iter_type for each in block.iter_vars]
    if IterType.COMM_REDUCE not in kinds:
        return "it is not a reduction"
    reads = [r.buffer for r in block.reads if r.buffer not in {w.buffer for w in block.writes}]
    if len(reads) != _OPERANDS or any(str(buffer.dtype) != "int8" for buffer in reads):
        return "it is no sum of products of int8"
    if str(block.writes[0].buffer.dtype) != "int32":
        return "its sums are not int32"
    last = [kinds.index(IterType.COMM_REDUCE) - 1, len(kinds) - 1]
    if any(known_extent(block.iter_vars[axis]) != BLOCK for axis in last):
        return f"its last axes of results and of the sum are not blocks of {BLOCK}"
    if _weights_of(block) is None:
        return f"no operand consists of blocks of {BLOCK}x{BLOCK}"
    return ""


def _weights_of(block: Block) -> int | None:
    """Which operand is made of blocks of outputs and inputs: the last one that looks so."""
    found = None
    for position, region in enumerate(_operands(block)):
        shape = [e.value if isinstance(e, IntImm) else 0 for e in region.buffer.shape]
        if shape[-2:] == [BLOCK, BLOCK] and len(shape) > _OPERANDS:
            found = position
    return found


def _operands(block: Block) -> list[BufferRegion]:
    written = {region.buffer for region in block.writes}
    return [region for region in block.reads if region.buffer not in written]


def _schedule(sch: Schedule, block: BlockRV) -> None:
    of = sch.get_sref(block).block
    weights = _weights_of(of)
    assert weights is not None
    out = _inlined_consumers(sch, block)
    data = _data(sch, block, 1 - weights)
    blocks = sch.cache_read(block, weights, WGT)
    sch.set_scope(block, 0, ACC)
    at = _tiled_results(sch, out)
    sch.compute_at(block, at, preserve_unit_loops=True)
    step = _tiled_sum(sch, block, len(sch.get_loops(out)))
    for operand in (data, blocks):
        sch.compute_at(operand, step, preserve_unit_loops=True)
    start = sch.decompose_reduction(block, step)
    sch.tensorize(sch.get_loops(block)[-2], GEMM)
    for made in (out, data, blocks, start):
        sch.annotate(made, keys.TILING_STRUCTURE, STRUCTURE)


def _inlined_consumers(sch: Schedule, block: BlockRV) -> BlockRV:
    """What follows the sum, in one block."""
    current = block
    while consumers := sch.get_consumers(current):
        if current is not block:
            sch.compute_inline(current)
        if len(consumers) > 1:
            raise ScheduleError("its results are used by more than one block")
        current = consumers[0]
    if current is block:
        raise ScheduleError("its sums are stored as int32; cast them to int8 in a block of its own")
    return current


def _data(sch: Schedule, block: BlockRV, operand: int) -> BlockRV:
    """The block that fills the scratchpad of inputs: one that adds padding, or a copy."""
    buffer = _operands(sch.get_sref(block).block)[operand].buffer
    for producer in sch.get_producers(block):
        if sch.get_sref(producer).block.writes[0].buffer is buffer:
            sch.set_scope(producer, 0, INP)
            return producer
    return sch.cache_read(block, operand, INP)


def _tiled_results(sch: Schedule, out: BlockRV) -> LoopRV:
    """Cut tiles from all loops but that over lanes; the innermost loop over tiles."""
    *loops, lanes = sch.get_loops(out)
    outer, inner = [], []
    for loop in loops:
        factors = sch.sample_perfect_tile(loop, 2, _LARGEST_TILE)
        pair = sch.split(loop, factors, preserve_unit_iters=True)
        outer.append(pair[0])
        inner.append(pair[1])
    sch.reorder(*outer, *inner, lanes)
    return outer[-1]


def _tiled_sum(sch: Schedule, block: BlockRV, count: int) -> LoopRV:
    """Steps along the sum outside of the loops over a tile of results; the loop over steps."""
    loops = sch.get_loops(block)
    results = (count - 1) // 2  # loops over tiles, and over results in one
    tile, lanes = loops[results : 2 * results], loops[2 * results]
    first, *window, inputs = loops[2 * results + 1 :]
    factors = sch.sample_perfect_tile(first, 2, _LARGEST_TILE)
    steps, within = sch.split(first, factors, preserve_unit_iters=True)
    sch.reorder(steps, within, *window, *tile, lanes, inputs)
    return steps

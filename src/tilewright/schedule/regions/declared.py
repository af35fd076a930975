"""Declared accesses of blocks whose bodies changed."""

from __future__ import annotations

from tilewright.ir import Block, Buffer, replace
from tilewright.ir.access import block_access_regions


def with_detected_reads(block: Block, *, without: Buffer) -> Block:
    """`block` with reads as its body has them now; it no longer touches the buffer `without`.

    What a block does through pointers cannot be seen, so there the declared reads stay.
    """
    found = block_access_regions(block)
    reads = found.reads
    if found.opaque:
        declared = tuple(region for region in block.reads if region.buffer is not without)
        known = {region.buffer for region in declared}
        reads = declared + tuple(region for region in reads if region.buffer not in known)
    return replace(block, reads=reads)

"""The regions that bring values into a block."""

from __future__ import annotations

from tilewright.ir import nodes as ir
from tilewright.ir.structure import structural_equal


def inputs_of(block: ir.Block) -> dict[int, ir.BufferRegion]:
    """The declared reads that bring values into a block, by their number among all its reads.

    A block with an initialisation accumulates into what it writes; where its reads name that, too,
    as older programs do, the values are its own.
    """
    if block.init is None:
        return dict(enumerate(block.reads))
    return {
        number: region
        for number, region in enumerate(block.reads)
        if not any(
            region.buffer is written.buffer and structural_equal(region, written)
            for written in block.writes
        )
    }

"""The passes before LLVM IR is generated, in order."""

from __future__ import annotations

from tilewright.lowering.base import Pass
from tilewright.lowering.context import PassContext
from tilewright.lowering.pipeline import (
    blocks_to_buffers,
    buffers_to_memory,
    cpu_loops,
    statements_to_calls,
)
from tilewright.lowering.tile_registers import TileRegisters


def passes_of(context: PassContext) -> list[Pass]:
    """All passes; `context` gives their options and the user's own passes."""
    return [
        *blocks_to_buffers(context),
        TileRegisters(),  # buffers of AMX tiles become registers while their blocks are known
        *buffers_to_memory(context),
        *cpu_loops(context),
        *statements_to_calls(context),
    ]

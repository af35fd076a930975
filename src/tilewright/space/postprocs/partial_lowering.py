"""Programs lowered as far as post-processors need to see flat buffers and their sizes."""

from __future__ import annotations

from tilewright.ir import IRModule
from tilewright.lowering.base import get_pass

# Up to flat buffers in their final size, still with loops and what is noted on them.
_PASSES = (
    "LowerInitBlock",
    "ConvertBlocksToOpaque",
    "PlanBufferAllocation",
    "CompactBufferAllocation",
    "LowerMatchBuffer",
    "LowerOpaqueBlock",
    "FlattenBuffer",
    "Simplify",
)


def flattened(mod: IRModule) -> IRModule:
    """The module with flat buffers; raises LowerError where it cannot be lowered."""
    for name in _PASSES:
        mod = get_pass(name)(mod)
    return mod

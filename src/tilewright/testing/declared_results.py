"""Reductions that name their result among their reads, as older printers of TVM wrote them.

They mean the same as those that do not, so every schedule must do the same to both.
"""

from __future__ import annotations

from tilewright.ir import Block, IRModule, PrimFunc, replace, rewrite
from tilewright.ir.access import inputs_of


def with_results_read(func: PrimFunc) -> PrimFunc:
    """The function with the results of its reductions among their reads, behind all others."""
    return rewrite(func, {Block: _naming})


def without_results_read(module: IRModule) -> IRModule:
    """Functions whose reductions do not name their results; updates name theirs first."""
    functions = module.functions.items()
    return IRModule({name: rewrite(func, {Block: _hiding}) for name, func in functions})


def _naming(block: Block) -> Block:
    read = {region.buffer for region in block.reads}
    if block.init is None or any(region.buffer in read for region in block.writes):
        return block
    return replace(block, reads=(*block.reads, *block.writes))


def _hiding(block: Block) -> Block:
    if block.init is not None:
        return replace(block, reads=tuple(inputs_of(block).values()))
    written = {region.buffer for region in block.writes}
    reads = sorted(block.reads, key=lambda region: region.buffer not in written)
    return replace(block, reads=tuple(reads))

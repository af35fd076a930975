"""Questions about programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.database.anchor_block import find_anchor_block
from tilewright.ir import (
    Block,
    Buffer,
    BufferRegion,
    Node,
    Var,
    free_vars,
    structural_equal as expr_deep_equal,
    verify_well_formed as verify_well_formed,
)
from tilewright.ir.access import block_access_regions
from tilewright.schedule.analysis import estimate_tir_flops as estimate_tir_flops

__all__ = [
    "estimate_tir_flops",
    "expr_deep_equal",
    "find_anchor_block",
    "get_block_access_region",
    "get_block_read_write_region",
    "undefined_vars",
    "verify_well_formed",
]

Regions = list[BufferRegion]


def undefined_vars(node: Node, defs: Sequence[Var] | None = None) -> list[Var]:
    """Variables that a statement or an expression uses and neither it nor `defs` defines."""
    known = set(defs or ())
    return [var for var in free_vars(node) if var not in known]


def get_block_access_region(block: Block, buffer_var_map: Mapping[Var, Buffer]) -> list[Regions]:
    """What a block reads, what it writes, and what it reaches through pointers."""
    found = block_access_regions(block, buffer_var_map.values())
    opaque = [BufferRegion.full(buffer_var_map[var]) for var in found.opaque]
    return [list(found.reads), list(found.writes), opaque]


def get_block_read_write_region(
    block: Block, buffer_var_map: Mapping[Var, Buffer]
) -> list[Regions]:
    """What a block reads and writes; what it reaches through pointers is among both."""
    reads, writes, opaque = get_block_access_region(block, buffer_var_map)
    return [reads + opaque, writes + opaque]

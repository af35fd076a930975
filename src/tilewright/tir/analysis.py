"""Questions about programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright import ir
from tilewright.arith.block_access import block_access_regions
from tilewright.database.module_equality import find_anchor_block as find_anchor_block
from tilewright.ir import (
    expr_deep_equal as expr_deep_equal,
    verify_well_formed as verify_well_formed,
)
from tilewright.schedule.analysis import estimate_tir_flops as estimate_tir_flops
from tilewright.tir.access_lca import detect_buffer_access_lca as detect_buffer_access_lca
from tilewright.tir.memory_use import (
    calculate_allocated_bytes as calculate_allocated_bytes,
    calculate_constant_bytes as calculate_constant_bytes,
    calculate_workspace_bytes as calculate_workspace_bytes,
)
from tilewright.tir.program_checks import (
    OOBChecker as OOBChecker,
    assert_pure_function as assert_pure_function,
    is_pure_function as is_pure_function,
    verify_gpu_code as verify_gpu_code,
    verify_memory as verify_memory,
    verify_ssa as verify_ssa,
)

Regions = list[ir.BufferRegion]


def undefined_vars(node: ir.Node, defs: Sequence[ir.Var] | None = None) -> list[ir.Var]:
    """Variables and pointers of buffers that `node` uses, and neither it nor `defs` defines."""
    pointers: dict[ir.Var, None] = {}
    known = set(defs or ())

    def look(part: Any) -> None:
        match part:
            case ir.BufferLoad(buffer=buffer) | ir.BufferStore(buffer=buffer):
                pointers[buffer.data] = None
            case ir.Allocate(buffer_var=var) | ir.AllocateConst(buffer_var=var):
                known.add(var)
            case ir.Block():
                known.update(buffer.data for buffer in part.alloc_buffers)
                known.update(match.buffer.data for match in part.match_buffers)

    ir.post_order_visit(node, look)
    return [var for var in dict.fromkeys((*ir.free_vars(node), *pointers)) if var not in known]


def get_block_access_region(
    block: ir.Block, buffer_var_map: Mapping[ir.Var, ir.Buffer]
) -> list[Regions]:
    """What a block reads, what it writes, and what it reaches through pointers."""
    found = block_access_regions(block, buffer_var_map.values())
    opaque = [ir.BufferRegion.full(buffer_var_map[var]) for var in found.opaque]
    return [list(found.reads), list(found.writes), opaque]


def get_block_read_write_region(
    block: ir.Block, buffer_var_map: Mapping[ir.Var, ir.Buffer]
) -> list[Regions]:
    """What a block reads and writes; what it reaches through pointers is among both."""
    reads, writes, opaque = get_block_access_region(block, buffer_var_map)
    return [reads + opaque, writes + opaque]

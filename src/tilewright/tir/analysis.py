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
from tilewright.tir.program_checks import *  # noqa: F403 - its `__all__`

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


Scope = ir.For | ir.Block


def detect_buffer_access_lca(func: ir.PrimFunc) -> dict[ir.Buffer, Scope | None]:
    """For each buffer that is accessed, the innermost scope in which its values are complete.

    That lies around the loops over which a block reduces into the buffer, and around those of
    iterators of which nothing is known. None: there is no loop and no block around.
    """
    scopes = _AccessScopes(func)
    scopes.visit(func.body)
    return {buffer: path[-1] if path else None for buffer, path in scopes.common.items()}


class _AccessScopes(ir.Visitor):
    """For each buffer of the function the scopes that all its accesses share, outermost first."""

    def __init__(self, func: ir.PrimFunc) -> None:
        self.common: dict[ir.Buffer, tuple[Scope, ...]] = {}
        self._by_data: dict[ir.Var, ir.Buffer] = {b.data: b for b in func.buffer_map.values()}
        self._path: tuple[Scope, ...] = ()

    def visit_block_realize(self, node: ir.BlockRealize) -> None:
        block = node.block
        self._by_data.update((buffer.data, buffer) for buffer in block.alloc_buffers)
        for part in (*node.iter_values, node.predicate):
            self.visit(part)
        self._inside(block)
        carried = {ir.IterType.COMM_REDUCE: block.writes}
        for iter_var, value in zip(block.iter_vars, node.iter_values, strict=True):
            if iter_var.iter_type is not ir.IterType.DATA_PAR:
                regions = carried.get(iter_var.iter_type, (*block.reads, *block.writes))
                for region in regions:
                    self._access(region.buffer.data, self._around(set(ir.free_vars(value))))

    def _inside(self, scope: Scope) -> None:
        outer, self._path = self._path, (*self._path, scope)
        if isinstance(scope, ir.Block):
            for match in scope.match_buffers:
                self._access(match.source.buffer.data, self._path)
        self.generic_visit(scope)
        self._path = outer

    visit_for = _inside

    def _around(self, variables: set[ir.Var]) -> tuple[Scope, ...]:
        """The scopes around the outermost loop over one of the variables."""
        for depth, scope in enumerate(self._path):
            if isinstance(scope, ir.For) and scope.loop_var in variables:
                return self._path[:depth]
        return self._path

    def visit_buffer_load(self, node: ir.BufferLoad | ir.BufferStore) -> None:
        self._access(node.buffer.data, self._path)
        self.generic_visit(node)

    visit_buffer_store = visit_buffer_load

    def visit_var(self, node: ir.Var) -> None:
        self._access(node, self._path)

    def _access(self, data: ir.Var, path: tuple[Scope, ...]) -> None:
        buffer = self._by_data.get(data)
        if buffer is not None:
            known = self.common.get(buffer, path)
            shared = [a for a, b in zip(known, path, strict=False) if a is b]
            self.common[buffer] = path[: len(shared)]

"""Finds the regions of buffers that a block reads and writes, in terms of its own iterators.

Loops inside the block are relaxed to the box they sweep; a dimension whose bounds cannot be
expressed is taken whole. Blocks nested inside count by what they declare.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from tilewright import ir
from tilewright.arith.symbolic_bounds import SymbolicBounds, SymbolicInterval, UnboundedError

_READ, _WRITE = 1, 2  # the bits of the access mask of tvm_access_ptr


@dataclasses.dataclass(frozen=True)
class AccessRegions:
    """What a block touches; `opaque` are pointers that it uses in ways that cannot be seen."""

    reads: tuple[ir.BufferRegion, ...]
    writes: tuple[ir.BufferRegion, ...]
    opaque: tuple[ir.Var, ...]


def block_access_regions(block: ir.Block, buffers: Iterable[ir.Buffer] = ()) -> AccessRegions:
    """The regions a block accesses; `buffers` are those that pointers may belong to.

    A block with an initialisation accumulates into what it writes; that is not a read of it.
    """
    collector = _Collector(block, buffers)
    if block.init is not None:
        collector.visit(block.init)
    collector.visit(block.body)
    reads, writes = collector.reads, collector.writes
    if block.init is not None:
        reads = {buffer: boxes for buffer, boxes in reads.items() if buffer not in writes}
    regions = (collector.union(reads), collector.union(writes))
    return AccessRegions(*regions, tuple(collector.opaque))


Box = tuple[SymbolicInterval | None, ...]  # for each dimension its bounds, None if they are unknown


class _Collector(ir.Visitor):
    def __init__(self, block: ir.Block, buffers: Iterable[ir.Buffer]) -> None:
        self.reads: dict[ir.Buffer, list[Box]] = {}
        self.writes: dict[ir.Buffer, list[Box]] = {}
        self.opaque: dict[ir.Var, None] = {}
        self._bounds = SymbolicBounds()
        self._lets: dict[ir.Var, ir.PrimExpr] = {}
        self._matches = {match.buffer: match.source for match in block.match_buffers}
        self._own_pointers = {buffer.data for buffer in (*block.alloc_buffers, *self._matches)}
        self._by_pointer = {buffer.data: buffer for buffer in buffers}

    def _record(
        self,
        boxes: dict[ir.Buffer, list[Box]],
        buffer: ir.Buffer,
        region: Sequence[ir.Range | ir.PrimExpr],
    ) -> None:
        source = self._matches.get(buffer)
        if source is not None:
            buffer, region = source.buffer, source.region
        if buffer.data not in self._own_pointers:
            boxes.setdefault(buffer, []).append(tuple(map(self._interval, region)))

    def _interval(self, item: ir.Range | ir.PrimExpr) -> SymbolicInterval | None:
        try:
            if not isinstance(item, ir.Range):
                return self._bounds.of(self._without_lets(item))
            begin = self._bounds.of(self._without_lets(item.min))
            extent = self._bounds.of(self._without_lets(item.extent))
        except UnboundedError:
            return None
        if ir.is_one(item.extent):
            return begin
        whole = SymbolicInterval(begin.low, begin.high.plus(extent.high), begin.dtype)
        return whole.widened(0, -1)

    def _without_lets(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        return ir.substitute(expr, self._lets)

    def union(self, boxes: dict[ir.Buffer, list[Box]]) -> tuple[ir.BufferRegion, ...]:
        """For each buffer the smallest box around all accesses; unknown dimensions are whole."""
        regions = []
        for buffer, found in boxes.items():
            ranges = list(ir.BufferRegion.full(buffer).region)
            for axis, intervals in enumerate(zip(*found, strict=True)):
                known = [interval for interval in intervals if interval is not None]
                if len(known) == len(found):
                    ranges[axis] = self._bounds.hull(known).to_range()
            regions.append(ir.BufferRegion(buffer, tuple(ranges)))
        return tuple(regions)

    def visit_buffer_load(self, node: ir.BufferLoad) -> None:
        self._record(self.reads, node.buffer, node.indices)
        self.generic_visit(node)

    def visit_buffer_store(self, node: ir.BufferStore) -> None:
        self._record(self.writes, node.buffer, node.indices)
        self.generic_visit(node)

    def visit_for(self, node: ir.For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        self._bounds.domains[node.loop_var] = self._interval(ir.Range(node.min, node.extent))
        self.visit(node.body)

    def visit_attr_stmt(self, node: ir.AttrStmt) -> None:
        if isinstance(node.node, ir.IterVar):
            zero = ir.const(0, node.value.dtype)
            self._bounds.domains[node.node.var] = self._interval(ir.Range(zero, node.value))
        self.generic_visit(node)

    def visit_let_stmt(self, node: ir.LetStmt | ir.Let) -> None:
        self.visit(node.value)
        self._lets[node.var] = self._without_lets(node.value)
        self.visit(node.body)

    visit_let = visit_let_stmt

    def visit_allocate(self, node: ir.Allocate | ir.AllocateConst) -> None:
        self._own_pointers.add(node.buffer_var)
        self.generic_visit(node)

    visit_allocate_const = visit_allocate

    def visit_block_realize(self, node: ir.BlockRealize) -> None:
        for expr in (*node.iter_values, node.predicate):
            self.visit(expr)
        iterators = (iter_var.var for iter_var in node.block.iter_vars)
        values = dict(zip(iterators, node.iter_values, strict=True))
        for boxes, regions in ((self.reads, node.block.reads), (self.writes, node.block.writes)):
            for region in regions:
                self._record(boxes, region.buffer, ir.substitute(region, values).region)

    def visit_call(self, node: ir.Call) -> None:
        pointer = node.args[1] if len(node.args) == 5 else None
        buffer = self._by_pointer.get(pointer) if isinstance(pointer, ir.Var) else None
        mask = node.args[-1] if node.args else None
        is_access = getattr(node.op, "name", "") == "tir.tvm_access_ptr"
        if not is_access or buffer is None or not isinstance(mask, ir.IntImm):
            self.generic_visit(node)
            return
        whole = ir.BufferRegion.full(buffer).region
        if mask.value & _READ:
            self._record(self.reads, buffer, whole)
        if mask.value & _WRITE:
            self._record(self.writes, buffer, whole)

    def visit_var(self, node: ir.Var) -> None:
        if node.dtype.is_handle and node not in self._own_pointers and node not in self._lets:
            self.opaque[node] = None

"""The regions that a block of scalar loads and stores touches."""

from __future__ import annotations

from tilewright.ir import (
    Block, Buffer, BufferLoad, BufferRegion, BufferStore, PrimExpr, Range, Visitor, const, maximum, minimum,
)


class _Points(Visitor):
    def __init__(self) -> None:
        self.reads: dict[Buffer, list[tuple[PrimExpr, ...]]] = {}
        self.writes: dict[Buffer, list[tuple[PrimExpr, ...]]] = {}

    def visit_buffer_load(self, node: BufferLoad) -> None:
        self.reads.setdefault(node.buffer, []).append(node.indices)
        self.generic_visit(node)

    def visit_buffer_store(self, node: BufferStore) -> None:
        self.writes.setdefault(node.buffer, []).append(node.indices)
        self.generic_visit(node)


def _same(a, b):
    from tilewright.ir.equal import structural_equal
    return structural_equal(a, b)


def _union(buffer, points):
    region = []
    for dim in range(len(points[0])):
        lo = hi = points[0][dim]
        for p in points[1:]:
            if not _same(lo, p[dim]): lo = minimum(lo, p[dim])
            if not _same(hi, p[dim]): hi = maximum(hi, p[dim])
        region.append(Range(lo, const(1, lo.dtype)) if lo is hi else Range(lo, hi + 1 - lo))
    return BufferRegion(buffer, tuple(region))


def block_access_regions(block: Block):
    points = _Points()
    if block.init is not None:
        points.visit(block.init)
    points.visit(block.body)
    if block.init is not None:
        for buffer in points.writes:
            points.reads.pop(buffer, None)
    return (
        tuple(_union(b, p) for b, p in points.reads.items()),
        tuple(_union(b, p) for b, p in points.writes.items()),
    )

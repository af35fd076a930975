"""Buffers shrink to the part that is really used, and get the strides that `buffer_dim_align` asks.

For every buffer that a block allocates, the boxes that its accesses cover while the loops inside
the block run are united. The buffer then holds just this box, and indices count from its corner.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tilewright import ir
from tilewright.arith import POS_INF, Analyzer
from tilewright.errors import LowerError
from tilewright.ir.annotation_keys import BUFFER_DIM_ALIGN
from tilewright.lowering.access_bounds import IndexBounds, IndexInterval
from tilewright.lowering.analyzing_rewriter import AnalyzingRewriter
from tilewright.lowering.base import function_pass
from tilewright.lowering.rewriters import ADDRESS_OF, thread_tag, threads_share


@dataclass
class _Usage:
    """What is known about a buffer: the loops around it, its box so far, and how to align it."""

    buffer: ir.Buffer
    depth: int  # number of loops outside the allocation
    box: list[IndexInterval | None] | None = None  # None in a dimension: all of it
    opaque: bool = False  # its pointer is used, so its layout must stay
    alignment: dict[int, tuple[int, int]] = field(default_factory=dict)


class _UsageFinder(ir.Visitor):
    def __init__(self) -> None:
        self.usages: dict[ir.Buffer, _Usage] = {}
        self._by_data: dict[ir.Var, _Usage] = {}
        self._analyzer = Analyzer()
        self._loops: list[ir.For] = []
        self._unknown: set[ir.Var] = set()  # bound by lets: no domain

    def visit_for(self, node: ir.For) -> None:
        self._analyzer.bind(node.loop_var, node.domain, allow_override=True)
        self._loops.append(node)
        self.visit(node.body)
        self._loops.pop()

    def visit_let_stmt(self, node: ir.LetStmt | ir.Let) -> None:
        self._unknown.add(node.var)
        self.generic_visit(node)

    visit_let = visit_let_stmt

    def visit_block_realize(self, node: ir.BlockRealize) -> None:
        block = node.block
        for buffer in block.alloc_buffers:
            usage = self.usages[buffer] = _Usage(buffer, len(self._loops))
            self._by_data[buffer.data] = usage
        self.visit(node.predicate)
        for match in block.match_buffers:
            self.visit(match)
        self._note_alignment(block)
        self.visit(block.body)

    def _note_alignment(self, block: ir.Block) -> None:
        for entry in block.annotations.get(BUFFER_DIM_ALIGN, ()):
            index, dim, factor, offset = (int(number) for number in entry)
            if not 0 <= index < len(block.writes):
                raise LowerError(
                    f"block {block.name_hint!r}: {BUFFER_DIM_ALIGN} refers to write {index}, but "
                    f"the block has {len(block.writes)}"
                )
            usage = self.usages.get(block.writes[index].buffer)
            if usage is not None:
                usage.alignment[dim] = (factor, offset)

    def visit_buffer_load(self, node: ir.BufferLoad | ir.BufferStore) -> None:
        self._access(node.buffer, ((index, None) for index in node.indices))
        self.generic_visit(node)

    visit_buffer_store = visit_buffer_load

    def visit_match_buffer_region(self, node: ir.MatchBufferRegion) -> None:
        source = node.source
        self._access(source.buffer, ((axis.min, axis.extent) for axis in source.region))

    def visit_call(self, node: ir.Call) -> None:
        load = node.args[0] if node.op is ADDRESS_OF else None
        if isinstance(load, ir.BufferLoad) and load.buffer in self.usages:
            self.usages[load.buffer].opaque = True
        self.generic_visit(node)

    def visit_var(self, node: ir.Var) -> None:
        usage = self._by_data.get(node) if node.dtype.is_handle else None
        if usage is not None:
            usage.opaque = True

    def _access(
        self, buffer: ir.Buffer, axes: Iterable[tuple[ir.PrimExpr, ir.PrimExpr | None]]
    ) -> None:
        usage = self.usages.get(buffer)
        if usage is None:
            # Memory that is used under another name as well keeps its layout.
            if buffer.data in self._by_data:
                self._by_data[buffer.data].opaque = True
            return
        if usage.opaque:
            return
        inner = {
            loop.loop_var: loop.domain
            for depth, loop in enumerate(self._loops)
            if _shares_buffer(loop, buffer, inside=depth >= usage.depth)
        }
        bounds = IndexBounds(inner, self._analyzer)
        box = [self._interval(bounds, start, extent) for start, extent in axes]
        if usage.box is None:
            usage.box = box
        else:
            usage.box = [self._union(a, b) for a, b in zip(usage.box, box, strict=True)]

    def _interval(
        self, bounds: IndexBounds, start: ir.PrimExpr, extent: ir.PrimExpr | None
    ) -> IndexInterval | None:
        # Digits of a sum of loops, such as `(i * 8 + t) % 8`, are known once they are simplified.
        interval = bounds.of(self._analyzer.simplify(start))
        if interval is None:
            return None
        if self._unknown and any(ir.uses_var(end, self._unknown.__contains__) for end in interval):
            return None
        low, high = interval
        if extent is not None:
            size = bounds.of(extent)
            if size is None:
                return None
            high = high + size.high - 1
        return IndexInterval(self._analyzer.simplify(low), self._analyzer.simplify(high))

    def _union(self, a: IndexInterval | None, b: IndexInterval | None) -> IndexInterval | None:
        if a is None or b is None:
            return None
        lows, highs = self._ordered(a.low, b.low), self._ordered(a.high, b.high)
        return lows and highs and IndexInterval(lows[0], highs[1])

    def _ordered(self, a: ir.PrimExpr, b: ir.PrimExpr) -> tuple[ir.PrimExpr, ir.PrimExpr] | None:
        """Two indices, the smaller one first, if it is known which one that is."""
        if a is b or self._analyzer.can_prove(a <= b):
            return a, b
        return (b, a) if self._analyzer.can_prove(b <= a) else None

    def plan(self, usage: _Usage) -> _Plan | None:
        """The new shape of a buffer, or None if it stays as it is."""
        buffer = usage.buffer
        if usage.opaque or usage.box is None or buffer.strides or buffer.elem_offset is not None:
            return None
        axes = [
            self._plan_axis(old, interval)
            for old, interval in zip(buffer.shape, usage.box, strict=True)
        ]
        shape = tuple(extent for extent, _ in axes)
        strides = _aligned_strides(shape, usage.alignment)
        if not strides and all(new is old for new, old in zip(shape, buffer.shape, strict=True)):
            return None
        new = ir.replace(buffer, shape=shape, strides=strides)
        return _Plan(new, tuple(origin for _, origin in axes))

    def _plan_axis(
        self, old: ir.PrimExpr, used: IndexInterval | None
    ) -> tuple[ir.PrimExpr, ir.PrimExpr]:
        """The new extent and where it starts."""
        everything = old, ir.const(0, old.dtype)
        if used is None:
            return everything
        extent = self._analyzer.simplify(used.high - used.low + 1)
        size = self._analyzer.const_int_bound(extent).max_value
        if size == POS_INF or size < 1:
            return everything
        whole = old.value if isinstance(old, ir.IntImm) else _LARGEST_TILE
        return everything if size >= whole else (ir.const(size, old.dtype), used.low)


def _shares_buffer(loop: ir.For, buffer: ir.Buffer, *, inside: bool) -> bool:
    """True when all iterations of a loop use one copy of a buffer that may be allocated inside."""
    tag = thread_tag(loop)
    if threads_share(tag, buffer.scope):
        return True
    is_private = tag.startswith(("blockIdx", "threadIdx")) and buffer.scope != "global"
    return inside and not is_private


# Of an extent that is not known a constant bound up to this is that of a tile; a larger one comes
# from the range of the integers that sizes are held in.
_LARGEST_TILE = 1 << 20


@dataclass(frozen=True)
class _Plan:
    buffer: ir.Buffer
    origin: tuple[ir.PrimExpr, ...]


def _aligned_strides(
    shape: tuple[ir.PrimExpr, ...], alignment: dict[int, tuple[int, int]]
) -> tuple[ir.PrimExpr, ...]:
    """Row-major strides where stride d is congruent to `offset` modulo `factor` as asked for d."""
    if not alignment:
        return ()
    strides: list[ir.PrimExpr] = []
    stride: ir.PrimExpr = ir.const(1)
    for dim in reversed(range(len(shape))):
        if dim in alignment:
            factor, offset = alignment[dim]
            stride = stride + (factor + offset - stride % factor) % factor
        strides.append(stride)
        stride = stride * shape[dim]
    return tuple(reversed(strides))


class _Compactor(AnalyzingRewriter):
    def __init__(self, plans: dict[ir.Buffer, _Plan]) -> None:
        super().__init__()
        self._plans = plans

    def _shifted(self, plan: _Plan, indices: tuple[ir.PrimExpr, ...]) -> tuple[ir.PrimExpr, ...]:
        pairs = zip(indices, plan.origin, strict=True)
        return tuple(self.analyzer.simplify(index - origin) for index, origin in pairs)

    def visit_buffer_load(self, node: ir.BufferLoad | ir.BufferStore) -> ir.Node:
        node = ir.map_children(node, self.visit)
        plan = self._plans.get(node.buffer)
        if plan is None:
            return node
        return ir.replace(node, buffer=plan.buffer, indices=self._shifted(plan, node.indices))

    visit_buffer_store = visit_buffer_load

    def visit_buffer_region(self, node: ir.BufferRegion) -> ir.Node:
        plan = self._plans.get(node.buffer)
        if plan is None:
            return node
        starts = self._shifted(plan, tuple(axis.min for axis in node.region))
        extents = (axis.extent for axis in node.region)
        return ir.BufferRegion(plan.buffer, tuple(map(ir.Range, starts, extents)))

    def visit_block(self, node: ir.Block) -> ir.Block:
        plans, node = self._plans, ir.map_children(node, self.visit)
        buffers = ir.map_tuple(node.alloc_buffers, lambda b: plans[b].buffer if b in plans else b)
        return ir.updated(node, alloc_buffers=buffers)


@function_pass
def CompactBufferAllocation(func: ir.PrimFunc) -> ir.PrimFunc:
    """Shrink allocated buffers to the region that is accessed."""
    finder = _UsageFinder()
    finder.visit(func.body)
    plans = {
        buffer: plan
        for buffer, usage in finder.usages.items()
        if (plan := finder.plan(usage)) is not None
    }
    return func.with_body(_Compactor(plans).rewrite(func.body)) if plans else func

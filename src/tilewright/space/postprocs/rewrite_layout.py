"""`RewriteLayout`: buffers whose layout is free are stored in the order in which they are read.

Such a buffer (a weight, usually) is copied into its new layout by a block of its own, marked so
that whoever builds the program may take the copy out and prepare the buffer once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tilewright import ir
from tilewright.arith import IndexMap
from tilewright.ir import annotation_keys as keys
from tilewright.schedule import BlockRV, Schedule
from tilewright.schedule.analysis import suggest_index_map
from tilewright.space.base import Postproc, postprocs
from tilewright.space.layout_free import has_bound_weights, layout_free_buffers


@postprocs.register("RewriteLayout")
class RewriteLayout(Postproc):
    """Give each layout-free buffer the layout that its last reader would like best."""

    def apply(self, sch: Schedule) -> bool:
        for name in list(sch.mod.functions):
            for buffer in layout_free_buffers(sch.mod[name]):
                rewrite_layout(sch, name, buffer)
        return True


@dataclass(frozen=True)
class _Read:
    """Where a buffer is read, in terms of the loops around."""

    block: ir.Block
    indices: tuple[ir.PrimExpr, ...]
    loops: tuple[ir.For, ...]
    predicate: ir.PrimExpr

    def layout(self, buffer: ir.Buffer) -> IndexMap | None:
        """The layout in which this read walks the buffer from front to back."""
        return suggest_index_map(buffer, self.indices, self.loops, self.predicate)

    def position(self, buffer: ir.Buffer) -> int:
        """The number of the buffer among the reads of the block."""
        regions = enumerate(self.block.reads)
        return next(index for index, region in regions if region.buffer is buffer)


def rewrite_layout(sch: Schedule, function: str, buffer: ir.Buffer) -> bool:
    """Give one buffer the layout that its last reader would like best; False if it stays."""
    body = sch.mod[function].body
    copies = _copies_of(body, buffer)
    final = buffer
    if copies:
        final = copies[-1].writes[0].buffer
        sch.get_block(copies[-1].name_hint, function)  # traces of TVM have this step
    assert isinstance(body, ir.BlockRealize)
    reads = list(_reads(body.block.body, final, (), {}, None))
    if any(keys.LAYOUT_REWRITE_PREPROC in read.block.annotations for read in reads):
        return False  # it is packed already
    layout = reads[-1].layout(final) if reads else None
    if layout is None or (has_bound_weights(sch.mod[function]) and _keeps_order(layout, final)):
        return False
    index = reads[-1].position(final)
    anchor = sch.get_block(reads[-1].block.name_hint, function)
    if not copies:
        _add_preprocessing(sch, anchor, index)
    sch.transform_layout(anchor, ("read", index), layout)
    for place, copy in reversed(list(enumerate(copies))):
        block = sch.get_block(copy.name_hint, function)
        if place == 0:
            _add_preprocessing(sch, block, 0)
        sch.transform_layout(block, ("read", 0), layout)
    return True


def _keeps_order(layout: IndexMap, buffer: ir.Buffer) -> bool:
    """True if the elements of a vector stay in place, as those of a bias with axes of extent 1."""
    shape = _numbers(buffer.shape)
    long = [axis for axis, extent in enumerate(shape) if extent != 1]
    if len(shape) != len(buffer.shape) or len(long) > 1:
        return False
    extents = _numbers(layout.map_shape(buffer.shape))
    for place in range(len(extents) if long else 0):
        # The element at which the digit in this place is 1 for the first time.
        number = math.prod(extents[place + 1 :])
        indices = [number if axis in long else 0 for axis in range(len(shape))]
        if _numbers(layout.map_indices(indices)) != [int(n == place) for n in range(len(extents))]:
            return False
    return True


def _numbers(expressions: Iterable[ir.PrimExpr]) -> list[int]:
    return [each.value for each in expressions if isinstance(each, ir.IntImm)]


def _add_preprocessing(sch: Schedule, block: BlockRV, index: int) -> None:
    """Let the block read a copy of the buffer, which may then have another layout."""
    copy = sch.cache_read(block, index, "global")
    sch.annotate(copy, keys.LAYOUT_REWRITE_PREPROC, True)


def _copies_of(body: ir.Stmt, buffer: ir.Buffer) -> list[ir.Block]:
    """The blocks that copy a buffer on, one after the other."""
    chain: list[ir.Block] = []
    for block in ir.nodes_of(body, ir.Block):
        if _is_copy(block) and block.reads[0].buffer is buffer:
            chain.append(block)
            buffer = block.writes[0].buffer
    return chain


def _is_copy(block: ir.Block) -> bool:
    """One element goes from the one buffer that is read to the same place of the one written."""
    if block.init is not None or len(block.reads) != 1 or len(block.writes) != 1:
        return False
    match block.body:
        case ir.BufferStore(indices=to, value=ir.BufferLoad(indices=source)):
            return len(to) == len(source) and all(a is b for a, b in zip(to, source, strict=True))
    return False


def _reads(
    node: ir.Node,
    buffer: ir.Buffer,
    loops: tuple[ir.For, ...],
    values: Mapping[ir.Var, ir.PrimExpr],
    around: tuple[ir.Block, ir.PrimExpr] | None,
) -> Iterator[_Read]:
    """The reads of a buffer in program order; `around` is the outermost block and its predicate."""
    match node:
        case ir.For():
            loops = (*loops, node)
        case ir.BlockRealize(block=inner):
            here = ir.substitute(node.predicate, values)
            new = {var: ir.substitute(value, values) for var, value in node.values.items()}
            values = {**values, **new}
            # What an inner block reads, the outer one reads, too.
            around = (
                (inner, here) if around is None else (around[0], ir.logical_and(around[1], here))
            )
        case ir.BufferLoad() if node.buffer is buffer and around is not None:
            block, predicate = around
            indices = tuple(ir.substitute(index, values) for index in node.indices)
            yield _Read(block, indices, loops, predicate)
    # What a block declares to read is no read, only what its statements do.
    inside = (node.init, node.body) if isinstance(node, ir.Block) else ir.children(node)
    for child in inside:
        if child is not None:
            yield from _reads(child, buffer, loops, values, around)

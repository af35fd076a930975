"""Arguments that say where rows begin, such as those of sparse matrices.

A loop that runs `begin[i + 1] - begin[i]` times wants numbers that rise, up to the length of what
it goes over. With any others most rows would be empty, and times would say nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir import (
    Buffer,
    BufferLoad,
    For,
    IntImm,
    IRModule,
    Node,
    PrimExpr,
    Sub,
    post_order_visit,
)
from tilewright.records import entry_function


def row_offsets_in(mod: IRModule) -> dict[int, int]:
    """The arguments of a program that are offsets, by position, and the number they rise to."""
    func = entry_function(mod)
    nodes: list[Node] = []
    post_order_visit(func.body, nodes.append)
    offsets = [buffer for node in nodes if isinstance(node, For) for buffer in _counted_by(node)]
    found: dict[int, int] = {}
    for position, param in enumerate(func.params):
        buffer = func.buffer_map.get(param)
        if buffer is not None and any(buffer is each for each in offsets):
            lengths = [length for node in nodes for length in _lengths_read_at(node, buffer)]
            if lengths:
                found[position] = min(lengths)
    return found


def _counted_by(loop: For) -> Iterator[Buffer]:
    """The buffer of which two elements differ by the extent of a loop."""
    match loop.extent:
        case Sub(a=BufferLoad(buffer=end), b=BufferLoad(buffer=begin)) if end is begin:
            yield end


def _lengths_read_at(node: Node, offsets: Buffer) -> Iterator[int]:
    """The lengths of the axes on which elements are read at places that offsets decide."""
    if isinstance(node, BufferLoad):
        for index, extent in zip(node.indices, node.buffer.shape, strict=True):
            if isinstance(extent, IntImm) and _reads(index, offsets):
                yield extent.value


def _reads(index: PrimExpr, buffer: Buffer) -> bool:
    """Is an element of a buffer a part of an index, other than inside of another one?"""
    if isinstance(index, BufferLoad):
        return index.buffer is buffer
    fields = (getattr(index, name) for name in index.child_fields)
    return any(isinstance(field, PrimExpr) and _reads(field, buffer) for field in fields)

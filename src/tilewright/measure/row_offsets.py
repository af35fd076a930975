"""Arguments that say where rows begin, such as those of sparse matrices.

A loop that runs `begin[i + 1] - begin[i]` times wants numbers that rise, up to the length of what
it goes over. With any others most rows would be empty, and times would say nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tilewright import ir
from tilewright.measure.arguments import TensorSpec
from tilewright.records import TensorInfo, args_info_of, entry_function


def specs_of(mod: ir.IRModule) -> tuple[TensorSpec, ...]:
    """The arguments of a program, with what must be known to fill them."""
    return argument_specs(args_info_of(mod), row_offsets_in(mod))


def argument_specs(
    infos: Iterable[TensorInfo], offsets: Mapping[int, int]
) -> tuple[TensorSpec, ...]:
    """The same where the offsets are known, by position."""
    return tuple(
        TensorSpec(info.dtype, tuple(info.shape), offsets.get(position))
        for position, info in enumerate(infos)
    )


def row_offsets_in(mod: ir.IRModule) -> dict[int, int]:
    """The arguments of a program that are offsets, by position, and the number they rise to."""
    func = entry_function(mod)
    nodes: list[ir.Node] = []
    ir.post_order_visit(func.body, nodes.append)
    offsets = [buffer for node in nodes if isinstance(node, ir.For) for buffer in _counted_by(node)]
    found: dict[int, int] = {}
    for position, param in enumerate(func.params):
        buffer = func.buffer_map.get(param)
        if buffer is not None and any(buffer is each for each in offsets):
            lengths = [length for node in nodes for length in _lengths_read_at(node, buffer)]
            if lengths:
                found[position] = min(lengths)
    return found


def _counted_by(loop: ir.For) -> Iterator[ir.Buffer]:
    """The buffer of which two elements differ by the extent of a loop."""
    match loop.extent:
        case ir.Sub(a=ir.BufferLoad(buffer=end), b=ir.BufferLoad(buffer=begin)) if end is begin:
            yield end


def _lengths_read_at(node: ir.Node, offsets: ir.Buffer) -> Iterator[int]:
    """The lengths of the axes on which elements are read at places that offsets decide."""
    if isinstance(node, ir.BufferLoad):
        for index, extent in zip(node.indices, node.buffer.shape, strict=True):
            if isinstance(extent, ir.IntImm) and _reads(index, offsets):
                yield extent.value


def _reads(index: ir.PrimExpr, buffer: ir.Buffer) -> bool:
    """True if an element of a buffer is a part of an index, other than inside another one."""
    if isinstance(index, ir.BufferLoad):
        return index.buffer is buffer
    fields = (getattr(index, name) for name in index.child_fields)
    return any(isinstance(field, ir.PrimExpr) and _reads(field, buffer) for field in fields)

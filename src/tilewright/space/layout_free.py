"""Buffers whose layout a program does not care about: weights, usually, prepared once."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir import Block, Buffer, Node, PrimFunc, Stmt, children

LAYOUT_FREE_BUFFERS = "layout_free_buffers"  # attribute of a function: positions of parameters
LAYOUT_FREE_PLACEHOLDERS = "layout_free_placeholders"  # annotation of a block: buffers


def layout_free_buffers(func: PrimFunc) -> list[Buffer]:
    positions = func.attrs.get(LAYOUT_FREE_BUFFERS, ())
    params = [func.buffer_map[func.params[int(position)]] for position in positions]
    noted = [
        buffer
        for block in blocks_below(func.body)
        for buffer in block.annotations.get(LAYOUT_FREE_PLACEHOLDERS, ())
    ]
    return list(dict.fromkeys([*params, *noted]))


def blocks_below(node: Node) -> Iterator[Block]:
    if isinstance(node, Block):
        yield node
    for child in children(node):
        if isinstance(child, Stmt):
            yield from blocks_below(child)


def is_layout_free(func: PrimFunc, buffer: Buffer) -> bool:
    """May a buffer be stored in any order?"""
    return any(free is buffer for free in layout_free_buffers(func))

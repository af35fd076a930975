"""The loops and blocks of a program as a tree of plain values, for a drawing of them."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir import Block, BlockRealize, For, ForKind, IRModule, IterType, Stmt, statements_in

Tree = dict[str, object]
_WAYS = {
    ForKind.SERIAL: "serial",
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.UNROLLED: "unrolled",
    ForKind.THREAD_BINDING: "thread",
}


def loop_trees(mod: IRModule) -> list[Tree]:
    """The outermost loops and blocks of all functions."""
    return [tree for func in mod.functions.values() for tree in _trees(func.body)]


def _trees(node: Stmt) -> Iterator[Tree]:
    match node:
        case For():
            yield {**_loop(node), "inside": list(_trees(node.body))}
        case BlockRealize() if node.block.iter_vars:
            yield {**_block(node.block), "inside": list(_trees(node.block.body))}
        case _:  # the root block is no loop nest of its own, nor is a condition
            for child in statements_in(node):
                yield from _trees(child)


def _loop(loop: For) -> Tree:
    bound = loop.thread_binding
    way = _WAYS[loop.kind] if bound is None else bound.thread_tag
    return {"loop": loop.loop_var.name, "extent": str(loop.extent), "way": way}


def _block(block: Block) -> Tree:
    return {
        "block": block.name_hint,
        "reads": [each.buffer.name for each in block.reads],
        "writes": [each.buffer.name for each in block.writes],
        "reduces": any(each.iter_type is IterType.COMM_REDUCE for each in block.iter_vars),
    }

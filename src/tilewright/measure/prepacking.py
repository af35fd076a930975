"""Weights whose layout was rewritten: their packing is not part of what is measured.

`RewriteLayout` lets a kernel read a copy of a weight in a layout of its own. Weights do not change
between calls, so that copy is made once, when a model is compiled. Here the copying becomes a
function of its own, `pack.<position of the argument>`, and the kernel takes the copy as argument.
The runner calls the former before it checks and times the latter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.ir import (
    Block,
    BlockRealize,
    Buffer,
    BufferRewriter,
    IRModule,
    PrimFunc,
    SeqStmt,
    Stmt,
    Var,
    children,
    replace,
    seq,
)
from tilewright.space.annotations import LAYOUT_REWRITE_PREPROC

PACK_PREFIX = "pack."


@dataclass(frozen=True)
class _Packing:
    """A statement that copies a weight, which is the argument at a position, into its layout."""

    statement: Stmt
    position: int
    source: Buffer
    packed: Buffer


def separate_packing(mod: IRModule) -> IRModule:
    """The module with the packing of its weights in functions of their own, if there is any."""
    if len(mod.functions) != 1:
        return mod
    ((_, func),) = mod.functions.items()
    root = func.body.block if isinstance(func.body, BlockRealize) else None
    packings = [] if root is None else list(_packings(func, root))
    if root is None or not packings:
        return mod
    functions = {"main": _without(func, root, packings)}
    for packing in packings:
        functions[f"{PACK_PREFIX}{packing.position}"] = _packing_function(func, root, packing)
    return IRModule(functions, mod.attrs)


def _packings(func: PrimFunc, root: Block) -> Iterator[_Packing]:
    statements = root.body.seq if isinstance(root.body, SeqStmt) else (root.body,)
    arguments = [func.buffer_map.get(param) for param in func.params]
    for statement in statements:
        block = _packing_block(statement)
        if block is None:
            continue
        source, packed = block.reads[0].buffer, block.writes[0].buffer
        others = [other for other in statements if other is not statement]
        own = any(buffer is packed for buffer in root.alloc_buffers)
        position = next((i for i, buffer in enumerate(arguments) if buffer is source), None)
        if own and position is not None and not any(_uses(other, source) for other in others):
            yield _Packing(statement, position, source, packed)


def _packing_block(statement: Stmt) -> Block | None:
    if isinstance(statement, Block) and LAYOUT_REWRITE_PREPROC in statement.annotations:
        return statement
    below = (child for child in children(statement) if isinstance(child, Stmt))
    return next((found for child in below if (found := _packing_block(child))), None)


class _Buffers(BufferRewriter):
    """Meets every buffer of a statement, and rewrites none."""

    def __init__(self) -> None:
        self.met: set[Buffer] = set()

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        self.met.add(buffer)
        return buffer


def _uses(statement: Stmt, buffer: Buffer) -> bool:
    buffers = _Buffers()
    buffers.visit(statement)
    return buffer in buffers.met


def _without(func: PrimFunc, root: Block, packings: Sequence[_Packing]) -> PrimFunc:
    """The kernel, which now takes packed weights."""
    gone = {id(packing.statement) for packing in packings}
    assert isinstance(root.body, SeqStmt)
    rest = [statement for statement in root.body.seq if id(statement) not in gone]
    packed = [packing.packed for packing in packings]
    kept = tuple(b for b in root.alloc_buffers if not any(b is each for each in packed))
    buffer_map = dict(func.buffer_map)
    for packing in packings:
        buffer_map[func.params[packing.position]] = packing.packed
    body = _realize(func, replace(root, body=seq(rest), alloc_buffers=kept))
    return replace(func, body=body, buffer_map=buffer_map)


def _packing_function(func: PrimFunc, root: Block, packing: _Packing) -> PrimFunc:
    block = replace(root, body=packing.statement, alloc_buffers=())
    source = func.params[packing.position]
    packed = Var(packing.packed.name, source.dtype)
    return PrimFunc(
        (source, packed),
        _realize(func, block),
        buffer_map={source: packing.source, packed: packing.packed},
        attrs={"global_symbol": f"{PACK_PREFIX}{packing.position}", "tir.noalias": True},
    )


def _realize(func: PrimFunc, root: Block) -> BlockRealize:
    assert isinstance(func.body, BlockRealize)
    return replace(func.body, block=root)

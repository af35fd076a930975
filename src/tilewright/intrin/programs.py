"""Descriptions and implementations of instructions that move tiles, made without a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir import (
    HANDLE,
    INT32,
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    Call,
    Evaluate,
    For,
    ForKind,
    IterType,
    IterVar,
    PrimExpr,
    PrimFunc,
    Range,
    Stmt,
    Var,
    const,
    replace,
    root_realize,
    seq,
)
from tilewright.ir.access import block_access_regions

Element = Callable[..., PrimExpr]


def tile_function(
    name: str,
    operands: Sequence[Buffer],
    written: Buffer,
    body: Stmt | Sequence[Call],
    *,
    accumulates: bool = False,
) -> PrimFunc:
    """A function of whole buffers: one is written, and read if it accumulates, others are read."""
    read = [buffer for buffer in operands if buffer is not written]
    block = Block(
        (),
        tuple(map(BufferRegion.full, [written, *read] if accumulates else read)),
        (BufferRegion.full(written),),
        "root",
        body if isinstance(body, Stmt) else seq([Evaluate(call) for call in body]),
    )
    handles = tuple(Var(_handle_name(buffer.name), HANDLE) for buffer in operands)
    return PrimFunc(
        handles,
        root_realize(block),
        dict(zip(handles, operands, strict=True)),
        {"global_symbol": name},
    )


def _handle_name(name: str) -> str:
    return name.lower() if name.isupper() else f"{name}_handle"


def elementwise(
    names: tuple[str, str],
    operands: Sequence[Buffer],
    written: Buffer,
    element: Element,
    loop_names: str = "ij",
) -> PrimFunc:
    """The description of an instruction that sets each element; `element` takes its indices.

    `names` are those of the function and of the block in its loops.
    """
    loops = [Var(loop, INT32) for loop in loop_names]
    iters = [Var(f"v{loop}", INT32) for loop in loop_names]
    store = BufferStore(written, element(*iters), tuple(iters))
    domains = [Range(const(0), extent) for extent in written.shape]
    inner = Block(
        tuple(IterVar(d, v, IterType.DATA_PAR) for d, v in zip(domains, iters, strict=True)),
        (),
        (),
        names[1],
        store,
    )
    found = block_access_regions(inner)
    inner = replace(inner, reads=found.reads, writes=found.writes)
    body: Stmt = BlockRealize(tuple(loops), TRUE, inner)
    for loop, domain in zip(reversed(loops), reversed(domains), strict=True):
        body = For(loop, domain.min, domain.extent, ForKind.SERIAL, body)
    return tile_function(names[0], operands, written, body)

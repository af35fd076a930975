"""Descriptions and implementations of instructions that move tiles, made without a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright import ir
from tilewright.ir.access import block_access_regions

Element = Callable[..., ir.PrimExpr]


def tile_function(
    name: str,
    operands: Sequence[ir.Buffer],
    written: ir.Buffer,
    body: ir.Stmt | Sequence[ir.Call],
    *,
    accumulates: bool = False,
) -> ir.PrimFunc:
    """A function of whole buffers: one is written, and read if it accumulates, others are read."""
    read = [buffer for buffer in operands if buffer is not written]
    block = ir.Block(
        (),
        tuple(map(ir.BufferRegion.full, [written, *read] if accumulates else read)),
        (ir.BufferRegion.full(written),),
        "root",
        body if isinstance(body, ir.Stmt) else ir.seq([ir.Evaluate(call) for call in body]),
    )
    handles = tuple(ir.Var(_handle_name(buffer.name), ir.HANDLE) for buffer in operands)
    return ir.PrimFunc(
        handles,
        ir.root_realize(block),
        dict(zip(handles, operands, strict=True)),
        {"global_symbol": name},
    )


def _handle_name(name: str) -> str:
    return name.lower() if name.isupper() else f"{name}_handle"


def elementwise(
    names: tuple[str, str],
    operands: Sequence[ir.Buffer],
    written: ir.Buffer,
    element: Element,
    loop_names: str = "ij",
) -> ir.PrimFunc:
    """The description of an instruction that sets each element; `element` takes its indices.

    `names` are those of the function and of the block in its loops.
    """
    loops = [ir.Var(loop, ir.INT32) for loop in loop_names]
    iters = [ir.Var(f"v{loop}", ir.INT32) for loop in loop_names]
    store = ir.BufferStore(written, element(*iters), tuple(iters))
    domains = [ir.Range(ir.const(0), extent) for extent in written.shape]
    inner = ir.Block(
        tuple(ir.IterVar(d, v, ir.IterType.DATA_PAR) for d, v in zip(domains, iters, strict=True)),
        (),
        (),
        names[1],
        store,
    )
    found = block_access_regions(inner)
    inner = ir.replace(inner, reads=found.reads, writes=found.writes)
    body: ir.Stmt = ir.BlockRealize(tuple(loops), ir.TRUE, inner)
    for loop, domain in zip(reversed(loops), reversed(domains), strict=True):
        body = ir.For(loop, domain.min, domain.extent, ir.ForKind.SERIAL, body)
    return tile_function(names[0], operands, written, body)

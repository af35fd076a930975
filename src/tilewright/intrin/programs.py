"""Descriptions and implementations of instructions that move tiles, made without a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright import ir
from tilewright.arith.block_access import block_access_regions

Pair = tuple[ir.PrimFunc, ir.PrimFunc]  # a description and an implementation


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
    names = [b.name.lower() if b.name.isupper() else f"{b.name}_handle" for b in operands]
    handles = tuple(ir.Var(each, ir.HANDLE) for each in names)
    return ir.PrimFunc(
        handles,
        ir.root_realize(block),
        dict(zip(handles, operands, strict=True)),
        {"global_symbol": name},
    )


def description(
    names: tuple[str, str],
    operands: Sequence[ir.Buffer],
    written: ir.Buffer,
    extents: Sequence[int],
    element: Callable[..., ir.PrimExpr],
    *,
    at: Callable[..., Sequence[ir.ExprLike]] | None = None,
    accumulates: bool = False,
) -> ir.PrimFunc:
    """The description of an instruction that sets each element, or adds to it.

    `names` are those of the function and of the block in its loops. `element` takes the iterators;
    where it accumulates, the last one is a reduction. `at` says where an element is, if not just
    there where the other iterators say.
    """
    letters = "ijk"[: len(extents) - accumulates] + "k" * accumulates
    loops = [ir.Var(letter, ir.INT32) for letter in letters]
    iters = [ir.Var(f"v{letter}", ir.INT32) for letter in letters]
    domains = [ir.Range(ir.const(0), ir.const(extent)) for extent in extents]
    kinds = [ir.IterType.DATA_PAR] * len(extents)
    spatial = iters
    if accumulates:
        kinds[-1], spatial = ir.IterType.COMM_REDUCE, iters[:-1]
    place = tuple(map(ir.convert, spatial if at is None else at(*spatial)))
    value = element(*iters)
    if accumulates:
        value = ir.BufferLoad(written, place) + value
    inner = ir.Block(
        tuple(map(ir.IterVar, domains, iters, kinds)),
        (),
        (),
        names[1],
        ir.BufferStore(written, value, place),
    )
    found = block_access_regions(inner)
    inner = ir.replace(inner, reads=found.reads, writes=found.writes)
    body: ir.Stmt = ir.BlockRealize(tuple(loops), ir.TRUE, inner)
    for loop, domain in zip(reversed(loops), reversed(domains), strict=True):
        body = ir.For(loop, domain.min, domain.extent, ir.ForKind.SERIAL, body)
    return tile_function(names[0], operands, written, body, accumulates=accumulates)


def product(dtype: str, left: ir.PrimExpr, right: ir.PrimExpr) -> ir.PrimExpr:
    """The product of two elements in a wider type."""
    return ir.cast(dtype, left) * ir.cast(dtype, right)


def whole_store(written: ir.Buffer, value: ir.PrimExpr) -> ir.Stmt:
    """Stores one vector to all of a buffer that lies in one piece."""
    outer = [ir.const(0)] * (len(written.shape) - 1)
    return ir.BufferStore(
        written, value, (*outer, ir.Ramp(ir.const(0), ir.const(1), value.dtype.lanes))
    )

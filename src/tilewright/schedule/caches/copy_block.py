"""Blocks that copy one buffer into another, and the loops around them."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import ir
from tilewright.schedule.state.splice import loop_nest

Access = tuple[ir.Buffer, tuple[ir.PrimExpr, ...]]


def make_copy_block(
    name: str, iterators: Sequence[ir.IterVar], source: Access, target: Access
) -> ir.Block:
    """A block that copies one element, converted if need be, for each value of its iterators."""
    load = ir.BufferLoad(*source)
    store = ir.BufferStore(target[0], ir.cast(target[0].dtype, load), target[1])
    return store_block(name, iterators, store, load)


def store_block(
    name: str, iterators: Sequence[ir.IterVar], store: ir.BufferStore, *loads: ir.BufferLoad
) -> ir.Block:
    """A block that makes one element of these."""
    reads = tuple(ir.BufferRegion.from_point(load.buffer, load.indices) for load in loads)
    write = ir.BufferRegion.from_point(store.buffer, store.indices)
    return ir.Block(tuple(iterators), reads, (write,), name, store)


def spatial_iterator(name: str, extent: ir.PrimExpr) -> ir.IterVar:
    """A spatial iterator over `[0, extent)`."""
    domain = ir.Range(ir.const(0, extent.dtype), extent)
    return ir.IterVar(domain, ir.Var(name, extent.dtype), ir.IterType.DATA_PAR)


def iterators_over(shape: Sequence[ir.PrimExpr], prefix: str = "v") -> tuple[ir.IterVar, ...]:
    """Spatial iterators `v0`, `v1`, ... over all elements of a shape."""
    return tuple(spatial_iterator(f"{prefix}{axis}", e) for axis, e in enumerate(shape))


def realize_over(shape: Sequence[ir.PrimExpr], block: ir.Block) -> ir.Stmt:
    """A block in loops `ax0`, `ax1`, ... over a shape, each bound to one of its iterators."""
    loops = [(ir.Var(f"ax{axis}", extent.dtype), extent) for axis, extent in enumerate(shape)]
    return realize_in_loops(loops, [variable for variable, _ in loops], block)


def realize_in_loops(
    loops: Sequence[tuple[ir.Var, ir.PrimExpr]],
    bindings: Sequence[ir.PrimExpr],
    block: ir.Block,
    predicate: ir.PrimExpr = ir.TRUE,
) -> ir.Stmt:
    """A block bound to loops around it."""
    return loop_nest(loops, ir.BlockRealize(tuple(bindings), predicate, block))

"""Blocks that copy one buffer into another, and the loops around them."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import (
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    IterType,
    IterVar,
    PrimExpr,
    Range,
    Stmt,
    Var,
    cast,
    const,
)
from tilewright.schedule.state.splice import loop_nest

Access = tuple[Buffer, tuple[PrimExpr, ...]]


def make_copy_block(
    name: str, iterators: Sequence[IterVar], source: Access, target: Access
) -> Block:
    """A block that copies one element, converted if need be, for each value of its iterators."""
    return Block(
        tuple(iterators),
        (BufferRegion.from_point(*source),),
        (BufferRegion.from_point(*target),),
        name,
        BufferStore(target[0], cast(target[0].dtype, BufferLoad(*source)), target[1]),
    )


def spatial_iterator(name: str, extent: PrimExpr) -> IterVar:
    """A spatial iterator over `[0, extent)`."""
    domain = Range(const(0, extent.dtype), extent)
    return IterVar(domain, Var(name, extent.dtype), IterType.DATA_PAR)


def realize_in_loops(
    loops: Sequence[tuple[Var, PrimExpr]],
    bindings: Sequence[PrimExpr],
    block: Block,
    predicate: PrimExpr = TRUE,
) -> Stmt:
    """A block bound to loops around it."""
    return loop_nest(loops, BlockRealize(tuple(bindings), predicate, block))

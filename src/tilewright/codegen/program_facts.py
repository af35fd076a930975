"""Facts of lowered programs that code generators ask for: captured variables, sizes of memory."""

from __future__ import annotations

import math

from tilewright.ir import (
    Allocate,
    AllocateConst,
    BufferLoad,
    BufferStore,
    For,
    IntImm,
    Let,
    LetStmt,
    PrimExpr,
    Ramp,
    Var,
    is_one,
)
from tilewright.ir.patterns import walk


def captured_vars(loop: For) -> list[Var]:
    """Variables and data pointers from outside that the body of `loop` uses, in order of use.

    In lowered programs a name has one definition, so what is bound anywhere inside is inner.
    """
    used: dict[Var, None] = {}
    bound = {loop.loop_var}
    for node in walk(loop.body):
        match node:
            case Var():
                used[node] = None
            case BufferLoad() | BufferStore():
                used[node.buffer.data] = None
            case For(loop_var=var) | Let(var=var) | LetStmt(var=var):
                bound.add(var)
            case Allocate(buffer_var=var) | AllocateConst(buffer_var=var):
                bound.add(var)
    return [var for var in used if var not in bound]


def constant_bytes(node: Allocate) -> int | None:
    """The size of an allocation, if it is known."""
    extents = [extent.value for extent in node.extents if isinstance(extent, IntImm)]
    if len(extents) < len(node.extents):
        return None
    return node.dtype.itemsize * node.dtype.lanes * math.prod(extents)


def first_of_run(index: PrimExpr) -> PrimExpr | None:
    """Where a vector of neighbours starts; None for any other index."""
    if isinstance(index, Ramp) and is_one(index.stride) and index.base.dtype.lanes == 1:
        return index.base
    return None

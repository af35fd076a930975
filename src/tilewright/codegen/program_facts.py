"""Facts of lowered programs that code generators ask for: captured variables, sizes of memory."""

from __future__ import annotations

import math

from tilewright import ir


def captured_vars(loop: ir.For) -> list[ir.Var]:
    """Variables and data pointers from outside that the body of `loop` uses, in order of use.

    In lowered programs a name has one definition, so what is bound anywhere inside is inner.
    """
    used: dict[ir.Var, None] = {}
    bound = {loop.loop_var}
    for node in ir.walk(loop.body):
        match node:
            case ir.Var():
                used[node] = None
            case ir.BufferLoad() | ir.BufferStore():
                used[node.buffer.data] = None
            case ir.For(loop_var=var) | ir.Let(var=var) | ir.LetStmt(var=var):
                bound.add(var)
            case ir.Allocate(buffer_var=var) | ir.AllocateConst(buffer_var=var):
                bound.add(var)
    return [var for var in used if var not in bound]


def constant_bytes(node: ir.Allocate | ir.AllocateConst) -> int | None:
    """The size of an allocation, if it is known."""
    extents = [extent.value for extent in node.extents if isinstance(extent, ir.IntImm)]
    if len(extents) < len(node.extents):
        return None
    return node.dtype.nbytes * math.prod(extents)


def first_of_run(index: ir.PrimExpr) -> ir.PrimExpr | None:
    """Where a vector of neighbours starts; None for any other index."""
    if isinstance(index, ir.Ramp) and ir.is_one(index.stride) and index.base.dtype.lanes == 1:
        return index.base
    return None

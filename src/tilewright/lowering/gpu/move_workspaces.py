"""Memory that a thread allocates for itself becomes a part of one array for all threads.

A kernel cannot allocate memory of the device, so the host does, for as long as the kernel runs.
Elements of neighbouring threads lie next to each other, as threads mostly move on together.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Container

from tilewright import ir
from tilewright.errors import LowerError
from tilewright.lowering.base import function_pass
from tilewright.lowering.gpu.threads import launched_tag, launches_of
from tilewright.lowering.storage_rewrite import scope_of


def _moved(kernel: ir.AttrStmt) -> ir.Stmt | None:
    """A kernel inside of the memory that its threads work in."""
    if not launched_tag(kernel):
        return None
    count: ir.PrimExpr = ir.const(1)
    number: ir.PrimExpr = ir.const(0)
    for launch in launches_of(kernel):
        extent = ir.cast(ir.INT32, launch.value)
        count = count * extent
        number = number * extent + ir.cast(ir.INT32, launch.node.var)
    found = [a for a in ir.nodes_of(kernel, ir.Allocate) if scope_of(a.buffer_var) == "global"]
    if not found:
        return kernel
    sizes = {each.buffer_var: (each.dtype, _size(each)) for each in found}
    made: ir.Stmt = _in_parts_of(sizes, kernel, count, number)
    for var, (dtype, size) in sizes.items():
        made = ir.Allocate(var, dtype, (count * size,), ir.TRUE, made)
    return made


def _size(node: ir.Allocate) -> int:
    extents = [extent.value for extent in node.extents if isinstance(extent, ir.IntImm)]
    if len(extents) < len(node.extents):
        raise LowerError(
            f"{node.buffer_var.name!r} is allocated in a kernel with a size that is "
            "not a constant; allocate it outside of the kernel"
        )
    return math.prod(extents)


def _in_parts_of(
    memory: Container[ir.Var], kernel: ir.Stmt, count: ir.PrimExpr, number: ir.PrimExpr
) -> ir.Stmt:
    """A kernel each thread of which has a part of memory that it allocated until now."""

    @functools.cache
    def whole(buffer: ir.Buffer) -> ir.Buffer:
        return ir.replace(buffer, shape=(buffer.shape[0] * count,))

    def access(node: ir.BufferLoad | ir.BufferStore) -> ir.Node:
        if node.buffer.data not in memory:
            return node
        (index,) = node.indices
        if index.dtype.lanes > 1:
            raise LowerError(
                f"{node.buffer.name!r} is allocated in a kernel and accessed in vectors; allocate "
                "it outside of the kernel"
            )
        return ir.replace(node, buffer=whole(node.buffer), indices=(index * count + number,))

    def kept(node: ir.Allocate) -> ir.Stmt:
        return node.body if node.buffer_var in memory else node

    return ir.rewrite(kernel, {(ir.BufferLoad, ir.BufferStore): access, ir.Allocate: kept})


@function_pass
def MoveWorkspaces(func: ir.PrimFunc) -> ir.PrimFunc:
    """Let the host allocate memory that threads work in."""
    return ir.rewrite(func, before={ir.AttrStmt: _moved})

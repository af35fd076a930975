"""Every buffer becomes one-dimensional; strides and offsets move into the index."""

from __future__ import annotations

import functools
import math

from tilewright import ir
from tilewright.lowering.base import function_pass

_INT32_LIMIT = 2**31


def flat_index(buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...]) -> ir.PrimExpr:
    """The position of an element; a ramp along the last axis stays a ramp."""
    size = flat_size(buffer)
    if isinstance(size, ir.IntImm) and size.value >= _INT32_LIMIT:
        indices = tuple(ir.cast(ir.INT64.with_lanes(i.dtype.lanes), i) for i in indices)
    last = indices[-1] if indices else None
    if not isinstance(last, ir.Ramp):
        return buffer.offset_of(indices)
    base = buffer.offset_of((*indices[:-1], last.base))
    stride = last.stride if not buffer.strides else ir.multiply(last.stride, buffer.strides[-1])
    return ir.Ramp(base, ir.cast(base.dtype, stride), last.lanes)


def flat_size(buffer: ir.Buffer) -> ir.PrimExpr:
    """The number of elements from the first to the last one, its offset not counted."""
    if not buffer.strides:
        return _product(buffer.shape)
    size: ir.PrimExpr = ir.const(1)
    for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
        size = size + (extent - 1) * stride
    return size


def _product(extents: tuple[ir.PrimExpr, ...]) -> ir.PrimExpr:
    total = math.prod(extent.value for extent in extents if isinstance(extent, ir.IntImm))
    symbolic = [extent for extent in extents if not isinstance(extent, ir.IntImm)]
    if not symbolic:
        return ir.const(total)
    product = functools.reduce(ir.multiply, symbolic)
    return product if total == 1 else product * total


def _flat(buffer: ir.Buffer) -> ir.Buffer:
    if len(buffer.shape) == 1 and not buffer.strides and buffer.elem_offset is None:
        return buffer
    plain = {"strides": (), "elem_offset": None, "offset_factor": 0, "axis_separators": ()}
    return ir.replace(buffer, shape=(flat_size(buffer),), **plain)


def _of_one_extent(node: ir.Allocate | ir.AllocateConst) -> ir.Stmt:
    return node if len(node.extents) == 1 else ir.replace(node, extents=(_product(node.extents),))


@function_pass
def FlattenBuffer(func: ir.PrimFunc) -> ir.PrimFunc:
    """Turn multi-dimensional accesses into one-dimensional ones."""
    flat_one = functools.cache(_flat)

    def access(node: ir.BufferLoad | ir.BufferStore) -> ir.Node:
        flat = flat_one(node.buffer)
        if flat is node.buffer:
            return node
        return ir.replace(node, buffer=flat, indices=(flat_index(node.buffer, node.indices),))

    return ir.rewrite(
        func,
        {
            (ir.BufferLoad, ir.BufferStore): access,
            (ir.Allocate, ir.AllocateConst): _of_one_extent,
            ir.DeclBuffer: lambda node: node.body,
        },
    )

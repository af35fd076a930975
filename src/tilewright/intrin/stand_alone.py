"""A description or an implementation as a program of its own, with all its operands in memory."""

from __future__ import annotations

import math

from tilewright import ir
from tilewright.ir.tensor_intrin import parameters, root_block_of


def stand_alone(func: ir.PrimFunc) -> ir.PrimFunc:
    """A function whose arguments have one more, leading dimension of two.

    The instruction works on the second half, so that one which forgets about offsets is found out.
    Operands that do not live in memory are copied to their scope and back.
    """
    buffers = parameters(func)
    arguments = [
        ir.decl_buffer((2, *buffer.shape), buffer.dtype, f"{buffer.name}_argument")
        for buffer in buffers
    ]
    operands = [
        argument
        if buffer.scope == "global"
        else ir.decl_buffer(argument.shape, buffer.dtype, buffer.name, scope=buffer.scope)
        for buffer, argument in zip(buffers, arguments, strict=True)
    ]
    moved = [pair for pair in zip(arguments, operands, strict=True) if pair[0] is not pair[1]]
    body = ir.seq(
        [
            *(_copy(source, copy) for source, copy in moved),
            _instruction(func, buffers, operands),
            *(_copy(copy, source) for source, copy in moved),
        ]
    )
    root = ir.Block((), (), (), "root", body, alloc_buffers=tuple(copy for _, copy in moved))
    params = tuple(ir.Var(argument.name, ir.HANDLE) for argument in arguments)
    return ir.PrimFunc(
        params,
        ir.BlockRealize((), ir.TRUE, root),
        dict(zip(params, arguments, strict=True)),
        {"global_symbol": "main"},
    )


def constant_shape(buffer: ir.Buffer) -> tuple[int, ...] | None:
    """The extents of a buffer; None if one of them is no number."""
    extents = tuple(extent.value for extent in buffer.shape if isinstance(extent, ir.IntImm))
    return extents if len(extents) == len(buffer.shape) else None


def _instruction(func: ir.PrimFunc, buffers: list[ir.Buffer], operands: list[ir.Buffer]) -> ir.Stmt:
    root = root_block_of(func)
    views = {
        buffer: ir.MatchBufferRegion(buffer, _half(operand, buffer))
        for buffer, operand in zip(buffers, operands, strict=True)
    }
    block = ir.replace(
        root,
        name_hint="instruction",
        reads=tuple(views[region.buffer].source for region in root.reads),
        writes=tuple(views[region.buffer].source for region in root.writes),
        match_buffers=(*views.values(), *root.match_buffers),
    )
    return ir.BlockRealize((), ir.TRUE, block)


def _half(operand: ir.Buffer, view: ir.Buffer) -> ir.BufferRegion:
    """The second half of an operand, or the first one if the view may not begin there."""
    size = math.prod(constant_shape(view) or ())
    start = 1 if size % max(view.offset_factor, 1) == 0 else 0
    ranges = [ir.Range(ir.const(start), ir.const(1))]
    ranges += [ir.Range(ir.const(0), extent) for extent in view.shape]
    return ir.BufferRegion(operand, tuple(ranges))


def _copy(source: ir.Buffer, destination: ir.Buffer) -> ir.Stmt:
    loops = [ir.Var(f"i{axis}", ir.INT32) for axis in range(len(source.shape))]
    indices: tuple[ir.PrimExpr, ...] = tuple(loops)
    body: ir.Stmt = ir.BufferStore(destination, ir.BufferLoad(source, indices), indices)
    for var, extent in zip(reversed(loops), reversed(source.shape), strict=True):
        body = ir.For(var, ir.const(0), extent, ir.ForKind.SERIAL, body)
    return body

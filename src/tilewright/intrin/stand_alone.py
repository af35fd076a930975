"""A description or an implementation as a program of its own, with all its operands in memory."""

from __future__ import annotations

import math

from tilewright.ir import (
    HANDLE,
    INT32,
    TRUE,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IntImm,
    MatchBufferRegion,
    PrimExpr,
    PrimFunc,
    Range,
    Stmt,
    Var,
    const,
    decl_buffer,
    replace,
    seq,
)
from tilewright.ir.tensor_intrin import parameters, root_block_of


def stand_alone(func: PrimFunc) -> PrimFunc:
    """A function whose arguments have one more, leading dimension of two.

    The instruction works on the second half, so that one which forgets about offsets is found out.
    Operands that do not live in memory are copied to their scope and back.
    """
    buffers = parameters(func)
    arguments = [
        decl_buffer((2, *buffer.shape), buffer.dtype, f"{buffer.name}_argument")
        for buffer in buffers
    ]
    operands = [
        argument if buffer.scope == "global" else replace_scope(argument, buffer)
        for buffer, argument in zip(buffers, arguments, strict=True)
    ]
    moved = [pair for pair in zip(arguments, operands, strict=True) if pair[0] is not pair[1]]
    body = seq(
        [
            *(_copy(source, copy) for source, copy in moved),
            _instruction(func, buffers, operands),
            *(_copy(copy, source) for source, copy in moved),
        ]
    )
    root = Block((), (), (), "root", body, alloc_buffers=tuple(copy for _, copy in moved))
    params = tuple(Var(argument.name, HANDLE) for argument in arguments)
    return PrimFunc(
        params,
        BlockRealize((), TRUE, root),
        dict(zip(params, arguments, strict=True)),
        {"global_symbol": "main"},
    )


def replace_scope(argument: Buffer, operand: Buffer) -> Buffer:
    """A buffer like `argument` where `operand` lives."""
    return decl_buffer(argument.shape, operand.dtype, operand.name, scope=operand.scope)


def constant_shape(buffer: Buffer) -> tuple[int, ...] | None:
    """The extents of a buffer; None if one of them is no number."""
    extents = tuple(extent.value for extent in buffer.shape if isinstance(extent, IntImm))
    return extents if len(extents) == len(buffer.shape) else None


def _instruction(func: PrimFunc, buffers: list[Buffer], operands: list[Buffer]) -> Stmt:
    root = root_block_of(func)
    views = {
        buffer: MatchBufferRegion(buffer, _half(operand, buffer))
        for buffer, operand in zip(buffers, operands, strict=True)
    }
    block = replace(
        root,
        name_hint="instruction",
        reads=tuple(views[region.buffer].source for region in root.reads),
        writes=tuple(views[region.buffer].source for region in root.writes),
        match_buffers=(*views.values(), *root.match_buffers),
    )
    return BlockRealize((), TRUE, block)


def _half(operand: Buffer, view: Buffer) -> BufferRegion:
    """The second half of an operand, or the first one if the view may not begin there."""
    size = math.prod(constant_shape(view) or ())
    start = 1 if size % max(view.offset_factor, 1) == 0 else 0
    ranges = [Range(_index(start), _index(1))]
    ranges += [Range(_index(0), extent) for extent in view.shape]
    return BufferRegion(operand, tuple(ranges))


def _copy(source: Buffer, destination: Buffer) -> Stmt:
    loops = [Var(f"i{axis}", INT32) for axis in range(len(source.shape))]
    indices: tuple[PrimExpr, ...] = tuple(loops)
    body: Stmt = BufferStore(destination, BufferLoad(source, indices), indices)
    for var, extent in zip(reversed(loops), reversed(source.shape), strict=True):
        body = For(var, _index(0), extent, ForKind.SERIAL, body)
    return body


def _index(value: int) -> PrimExpr:
    return const(value, INT32)

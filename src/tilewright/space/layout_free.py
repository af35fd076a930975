"""Buffers whose layout a program does not care about: weights, usually, prepared once."""

from __future__ import annotations

from tilewright.ir import Block, Buffer, IRModule, PrimFunc, nodes_of
from tilewright.ir.annotation_keys import (
    BOUND_WEIGHTS,
    LAYOUT_FREE_BUFFERS,
    LAYOUT_FREE_PLACEHOLDERS,
)


def layout_free_buffers(func: PrimFunc) -> list[Buffer]:
    positions = func.attrs.get(LAYOUT_FREE_BUFFERS, ())
    params = [func.buffer_map[func.params[int(position)]] for position in positions]
    noted = [
        buffer
        for block in nodes_of(func.body, Block)
        for buffer in block.annotations.get(LAYOUT_FREE_PLACEHOLDERS, ())
    ]
    return list(dict.fromkeys([*params, *noted]))


def is_layout_free(func: PrimFunc, buffer: Buffer) -> bool:
    """True if a buffer may be stored in any order."""
    return any(free is buffer for free in layout_free_buffers(func))


def has_bound_weights(func: PrimFunc) -> bool:
    """True if packing the weights of a function is no part of a call."""
    return bool(func.attrs.get(BOUND_WEIGHTS))


def with_bound_weights(mod: IRModule) -> IRModule:
    """The module for callers who bind the weights of its functions; those without stay as is."""
    for name, func in mod.functions.items():
        if layout_free_buffers(func):
            mod = mod.with_function(name, func.with_attr(BOUND_WEIGHTS, True))
    return mod


def other_way_to_call(func: PrimFunc) -> PrimFunc | None:
    """The same function with its weights bound, or not bound any more; None if it has none."""
    if has_bound_weights(func):
        return func.without_attr(BOUND_WEIGHTS)
    return func.with_attr(BOUND_WEIGHTS, True) if layout_free_buffers(func) else None

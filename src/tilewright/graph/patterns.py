"""The kind of an operator, which decides what it fuses with, read from its program.

The kinds are TVM's. Each block with one store is looked at: how the indices of what it reads relate
to the index that it writes. A function is of the kind of its least simple block.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from tilewright import ir
from tilewright.ir.patterns import nodes_of


class Kind(enum.IntEnum):
    """From what fuses with everything to what fuses with nothing."""

    ELEMENTWISE = 0  # reads where it writes
    BROADCAST = 1  # reads at some of the indices, in their order
    INJECTIVE = 2  # moves elements about
    REDUCTION = 3  # sums and their like; takes in what makes its input
    ANCHOR = 4  # products, convolutions, pools: takes in elementwise consumers
    OPAQUE = 8  # stays alone


def kind_of(func: ir.PrimFunc) -> Kind:
    """The kind of a function."""
    blocks = [block for block in nodes_of(func.body, ir.Block) if block.name_hint != "root"]
    kinds = [_kind_of_block(block) for block in blocks]
    if not kinds or Kind.OPAQUE in kinds:
        return Kind.OPAQUE
    highest = max(kinds)
    if highest is not Kind.REDUCTION:
        return highest
    # What spreads a sum over its terms again (a softmax, a norm) has to run after all of it.
    last = len(kinds) - 1 - kinds[::-1].index(highest)
    return highest if _only_finish(blocks[last], blocks[last + 1 :]) else Kind.ANCHOR


def _only_finish(reduction: ir.Block, blocks: Sequence[ir.Block]) -> bool:
    """True if blocks work on nothing but what a reduction left, as a mean or a rounded sum does."""
    known = {store.buffer for store in nodes_of(reduction.body, ir.BufferStore)}
    for block in blocks:
        (store,) = nodes_of(block.body, ir.BufferStore)
        read = {load.buffer for load in nodes_of(store.value, ir.BufferLoad)}
        if not read <= known or _kind_of_block(block) is not Kind.ELEMENTWISE:
            return False
        known.add(store.buffer)
    return True


def _kind_of_block(block: ir.Block) -> Kind:
    stores = list(nodes_of(block.body, ir.BufferStore))
    reduces = any(variable.iter_type == ir.IterType.COMM_REDUCE for variable in block.iter_vars)
    # A reduction of pairs, of values and where they stand, writes both to the same place.
    if reduces and len({tuple(map(id, store.indices)) for store in stores}) == 1:
        stores = stores[:1]
    if len(stores) != 1 or any(True for _ in nodes_of(block.body, ir.Block)):
        return Kind.OPAQUE
    (store,) = stores
    loads = [
        load for load in nodes_of(block.body, ir.BufferLoad) if load.buffer is not store.buffer
    ]
    if reduces:
        written = {one.buffer for one in nodes_of(block.body, ir.BufferStore)}
        return _kind_of_reduction(block, [one for one in loads if one.buffer not in written])
    written_at = {index for index in store.indices if isinstance(index, ir.Var)}
    kinds = [_kind_of_load(load.indices, store.indices, written_at) for load in loads]
    if Kind.ELEMENTWISE in kinds and max(kinds) is Kind.BROADCAST:
        return Kind.ELEMENTWISE
    return max(kinds, default=Kind.ELEMENTWISE)


def _kind_of_load(
    read: Sequence[ir.PrimExpr], stored: Sequence[ir.PrimExpr], written: set[ir.Var]
) -> Kind:
    if len(read) == len(stored) and all(a is b for a, b in zip(read, stored, strict=True)):
        return Kind.ELEMENTWISE
    rest = iter(stored)
    if all(isinstance(index, ir.IntImm) or any(index is other for other in rest) for index in read):
        return Kind.BROADCAST
    variables = {v for index in read for v in nodes_of(index, ir.Var)}
    gathered = any(True for index in read for _ in nodes_of(index, ir.BufferLoad))
    return Kind.INJECTIVE if variables <= written or gathered else Kind.OPAQUE


def _kind_of_reduction(block: ir.Block, loads: Sequence[ir.BufferLoad]) -> Kind:
    reduced = {v.var for v in block.iter_vars if v.iter_type == ir.IterType.COMM_REDUCE}
    inside = any(
        not isinstance(index, ir.Var) and reduced & set(nodes_of(index, ir.Var))
        for load in loads
        for index in load.indices
    )
    # Two tensors, or one that is read at two places (a matrix times itself).
    operands = {(load.buffer, tuple(map(id, load.indices))) for load in loads}
    return Kind.ANCHOR if inside or len(operands) > 1 else Kind.REDUCTION

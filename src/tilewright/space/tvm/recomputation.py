"""Operations that inlining a block repeats: each read of an element computes it again."""

from __future__ import annotations

import math

from tilewright.ir import (
    Block,
    BufferLoad,
    BufferStore,
    Call,
    IntImm,
    Node,
    Op,
    PrimExpr,
    Select,
    expr_deep_equal,
    post_order_visit,
)
from tilewright.ir.expr import BinaryOp
from tilewright.schedule import Schedule, StmtSRef
from tilewright.schedule.primitives.get_blocks import neighbours

_CALL = 8.0  # operations that a function like `exp` stands for
_IF_THEN_ELSE = Op.get("tir.if_then_else")


def repeated_operations(sch: Schedule, block: StmtSRef) -> float:
    """Operations for one element that are carried out more than once if a block is inlined."""
    stmt = block.block
    readers = neighbours(sch, block, before=False)
    read = sum(_reads(stmt, reader.block) for reader in readers)
    return max(0.0, read - 1.0) * operations(stmt)


def operations(block: Block) -> float:
    """Operations of one run of a block, those on indices left out."""
    stores: list[BufferStore] = []
    post_order_visit(block.body, lambda n: stores.append(n) if isinstance(n, BufferStore) else None)
    return sum(_of_value(store.value) for store in stores)


def _of_value(expr: PrimExpr) -> float:
    match expr:
        case BufferLoad():
            return 0.0
        case Call(op=op, args=args) if op is not _IF_THEN_ELSE:
            return _CALL + sum(map(_of_value, args))
        case Call(args=(_, *values)):
            return 1.0 + sum(map(_of_value, values))
        case Select(true_value=chosen, false_value=other):
            return 1.0 + _of_value(chosen) + _of_value(other)
        case BinaryOp(a=a, b=b):
            return 1.0 + _of_value(a) + _of_value(b)
    return sum(_of_value(getattr(expr, name)) for name in expr.child_fields if name == "value")


def _reads(block: Block, reader: Block) -> float:
    """How often each result of a block is read by another one, on average."""
    buffer = block.writes[0].buffer
    places: list[BufferLoad] = []

    def look(node: Node) -> None:
        if not isinstance(node, BufferLoad) or node.buffer is not buffer:
            return
        if not any(all(map(expr_deep_equal, node.indices, p.indices)) for p in places):
            places.append(node)

    post_order_visit(reader.body, look)
    return len(places) * max(1.0, _points(reader) / max(1.0, _points(block)))


def _points(block: Block) -> float:
    """Iterations of a block; symbolic extents count as one, since both sides have them."""
    extents = [v.dom.extent for v in block.iter_vars if v.dom is not None]
    return math.prod(e.value for e in extents if isinstance(e, IntImm))

"""Operations that inlining a block repeats: each read of an element computes it again."""

from __future__ import annotations

import math

from tilewright import ir
from tilewright.schedule import Schedule, StmtSRef
from tilewright.schedule.primitives.get_blocks import neighbours

_CALL = 8.0  # operations that a function like `exp` stands for
_IF_THEN_ELSE = ir.Op.get("tir.if_then_else")


def repeated_operations(sch: Schedule, block: StmtSRef) -> float:
    """Operations for one element that are carried out more than once if a block is inlined."""
    stmt = block.block
    readers = neighbours(sch, block, before=False)
    read = sum(_reads(stmt, reader.block) for reader in readers)
    return max(0.0, read - 1.0) * operations(stmt)


def operations(block: ir.Block) -> float:
    """Operations of one run of a block, those on indices left out."""
    stores: list[ir.BufferStore] = []
    ir.post_order_visit(
        block.body, lambda n: stores.append(n) if isinstance(n, ir.BufferStore) else None
    )
    return sum(_of_value(store.value) for store in stores)


def _of_value(expr: ir.PrimExpr) -> float:
    match expr:
        case ir.BufferLoad():
            return 0.0
        case ir.Call(op=op, args=args) if op is not _IF_THEN_ELSE:
            return _CALL + sum(map(_of_value, args))
        case ir.Call(args=(_, *values)):
            return 1.0 + sum(map(_of_value, values))
        case ir.Select(true_value=chosen, false_value=other):
            return 1.0 + _of_value(chosen) + _of_value(other)
        case ir.BinaryOp(a=a, b=b):
            return 1.0 + _of_value(a) + _of_value(b)
    return sum(_of_value(getattr(expr, name)) for name in expr.child_fields if name == "value")


def _reads(block: ir.Block, reader: ir.Block) -> float:
    """How often each result of a block is read by another one, on average."""
    buffer = block.writes[0].buffer
    places: list[ir.BufferLoad] = []

    def look(node: ir.Node) -> None:
        if not isinstance(node, ir.BufferLoad) or node.buffer is not buffer:
            return
        if not any(all(map(ir.expr_deep_equal, node.indices, p.indices)) for p in places):
            places.append(node)

    ir.post_order_visit(reader.body, look)
    return len(places) * max(1.0, _points(reader) / max(1.0, _points(block)))


def _points(block: ir.Block) -> float:
    """Iterations of a block; symbolic extents count as one, since both sides have them."""
    extents = [v.dom.extent for v in block.iter_vars if v.dom is not None]
    return math.prod(e.value for e in extents if isinstance(e, ir.IntImm))

"""`AutoInline`: cheap blocks become part of the blocks that read, or make, their data."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tilewright import ir
from tilewright.ir import annotation_keys as keys
from tilewright.ir.access import inputs_of
from tilewright.nest.loops import known_extent
from tilewright.nest.nests import distinct_loads
from tilewright.schedule import BlockRV, Schedule, StmtSRef
from tilewright.schedule.analysis import analyze_read_write_pattern, has_if_then_else
from tilewright.schedule.conditions.checks import is_complete_block
from tilewright.schedule.primitives.compute_inline import can_compute_inline
from tilewright.schedule.primitives.get_blocks import neighbours
from tilewright.schedule.primitives.reverse_compute_inline import can_reverse_compute_inline
from tilewright.space.base import NotApplied, ScheduleRule, schedule_rules
from tilewright.space.conditions import all_iters_spatial, is_root, is_spatial_function

# Repeated operations for an element: fewer cost less than a store and a load, more never pay.
FEW_REPEATED = 2.0
MOST_REPEATED = 16.0
_CALL = 8.0  # operations that a function like `exp` stands for
_IF_THEN_ELSE = ir.Op.get("tir.if_then_else")
REPEATED: Final = "the blocks that read its result would compute it again at each place they read"


class Inline(enum.Enum):
    """Where a block goes."""

    INTO_CONSUMER = 1
    INTO_PRODUCER = 2


@schedule_rules.register("AutoInline")
@dataclass(eq=False, repr=False)
class AutoInline(ScheduleRule):
    """Inlines blocks into consumers and producers unless one of the conditions forbids it.

    In functions without any reduction only `into_producer` and `into_consumer` count, and with
    `count_recomputation` the operations that are repeated where a block is read at several places:
    the search decides about a few, a block with more of them stays.
    """

    into_producer: bool
    into_consumer: bool
    inline_const_tensor: bool
    disallow_if_then_else: bool
    require_injective: bool
    require_ordered: bool
    disallow_op: Sequence[str] = ()
    count_recomputation: bool = False

    def __post_init__(self) -> None:
        self.disallow_op = list(self.disallow_op or ())
        for name in self.disallow_op:
            ir.Op.get(name)  # raises if there is no such function

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        match self._place(sch, sch.get_sref(block)):
            case str(reason):
                return NotApplied(sch, reason)
            case Inline.INTO_PRODUCER:
                sch.reverse_compute_inline(block)
                return [sch]
        may_stay = self._repeated(sch, sch.get_sref(block)) > FEW_REPEATED
        kept = [sch.copy()] if may_stay else []
        sch.compute_inline(block)
        return [sch, *kept]

    def _place(self, sch: Schedule, block: StmtSRef) -> Inline | str:
        """Where a block goes, or the reason why it stays."""
        stmt = block.block
        if is_root(block):
            return "it is the root block"
        if len(stmt.writes) != 1:
            return "it writes more than one buffer"
        if self.inline_const_tensor and not inputs_of(stmt) and _fits_consumers(sch, block):
            return Inline.INTO_CONSUMER
        unfit = _why_unfit(sch, block)
        if unfit and not self.into_producer:
            return unfit
        if not is_spatial_function(sch.state, block) and (costly := self._why_costly(block)):
            return unfit or costly
        if stmt.annotations.get(keys.INLINE_RULE) == "disable":
            return unfit or f"its annotation {keys.INLINE_RULE} forbids it"
        if self.into_consumer and _fits_consumers(sch, block):
            return REPEATED if self._repeated(sch, block) > MOST_REPEATED else Inline.INTO_CONSUMER
        if self.into_producer and _fits_producer(sch, block):
            return Inline.INTO_PRODUCER
        return unfit or "the blocks that read its result cannot take it in"

    def _repeated(self, sch: Schedule, block: StmtSRef) -> float:
        return repeated_operations(sch, block) if self.count_recomputation else 0.0

    def _why_costly(self, block: StmtSRef) -> str:
        """Why computing the block again where it is used may cost more than it saves."""
        realize, stmt = block.realize, block.block
        called = {call.op for call in ir.nodes_of(realize, ir.Call)} if self.disallow_op else set()
        for name in self.disallow_op:
            if ir.Op.get(name) in called:
                return f"it calls {name.removeprefix('tir.')}, which is expensive to recompute"
        if self.disallow_if_then_else and has_if_then_else(realize):
            return "it holds a condition (T.if_then_else), which is expensive to recompute"
        if not self.require_injective and not self.require_ordered:
            return ""
        patterns = [analyze_read_write_pattern(read, stmt.writes[0]) for read in stmt.reads]
        if self.require_injective and not all(pattern.injective for pattern in patterns):
            return "it does not read an element of its inputs for each element of its result"
        if self.require_ordered and not all(pattern.ordered for pattern in patterns):
            return "it reads its inputs in another order than it writes its result"
        return ""


def _why_unfit(sch: Schedule, block: StmtSRef) -> str:
    """Why no block could take this one in."""
    if not neighbours(sch, block, before=False):
        return "no other block reads its result"
    return "" if all_iters_spatial(block.block) else "it is a reduction"


def _fits_consumers(sch: Schedule, block: StmtSRef) -> bool:
    return bool(neighbours(sch, block, before=False)) and can_compute_inline(sch.state, block)


def _fits_producer(sch: Schedule, block: StmtSRef) -> bool:
    producers = neighbours(sch, block, before=True)
    return (
        len(producers) == 1
        and is_complete_block(sch.state, producers[0])
        and can_reverse_compute_inline(sch.state, block)
        and keys.AUTO_TENSORIZE not in producers[0].block.annotations
    )


# --- operations that inlining repeats: each read of an element computes it again ----------------


def repeated_operations(sch: Schedule, block: StmtSRef) -> float:
    """Operations for one element that are carried out more than once if a block is inlined.

    A single number changes in no loop: it is computed ahead of them, wherever it is written.
    """
    stmt = block.block
    if _points(stmt) <= 1.0:
        return 0.0
    readers = neighbours(sch, block, before=False)
    read = sum(_reads(stmt, reader.block) for reader in readers)
    return max(0.0, read - 1.0) * operations(stmt)


def operations(block: ir.Block) -> float:
    """Operations of one run of a block, those on indices left out."""
    return sum(_of_value(store.value) for store in ir.nodes_of(block.body, ir.BufferStore))


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
    loads = [load for load in ir.nodes_of(reader.body, ir.BufferLoad) if load.buffer is buffer]
    return len(distinct_loads(loads)) * max(1.0, _points(reader) / max(1.0, _points(block)))


def _points(block: ir.Block) -> float:
    """Iterations of a block; symbolic extents count as one, since both sides have them."""
    extents = map(known_extent, block.iter_vars)
    return math.prod(extent for extent in extents if extent is not None)

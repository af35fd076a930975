"""`AutoInline`: cheap blocks become part of the blocks that read, or make, their data."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from tilewright.ir import Call, Node, Op, children
from tilewright.ir.access import inputs_of
from tilewright.ir.annotation_keys import AUTO_TENSORIZE, INLINE_RULE
from tilewright.schedule import BlockRV, Schedule, StmtSRef
from tilewright.schedule.analysis import analyze_read_write_pattern, has_if_then_else
from tilewright.schedule.conditions.checks import is_complete_block
from tilewright.schedule.primitives.compute_inline import can_compute_inline
from tilewright.schedule.primitives.get_blocks import neighbours
from tilewright.schedule.primitives.reverse_compute_inline import can_reverse_compute_inline
from tilewright.schedule.state.scope import realize_of
from tilewright.space.base import ScheduleRule, schedule_rules
from tilewright.space.conditions import is_root, is_spatial_function
from tilewright.space.tvm.recomputation import repeated_operations

# Repeated operations for an element: fewer cost less than a store and a load, more never pay.
FEW_REPEATED = 2.0
MOST_REPEATED = 16.0


class Inline(enum.Enum):
    """Where a block goes."""

    NOWHERE = 0
    INTO_CONSUMER = 1
    INTO_PRODUCER = 2


@schedule_rules.register("AutoInline")
class AutoInline(ScheduleRule):
    """Inlines blocks into consumers and producers unless one of the conditions forbids it.

    In functions without any reduction only `into_producer` and `into_consumer` count, and with
    `count_recomputation` the operations that are repeated where a block is read at several places:
    the search decides about a few, a block with more of them stays.
    """

    def __init__(
        self,
        into_producer: bool,
        into_consumer: bool,
        inline_const_tensor: bool,
        disallow_if_then_else: bool,
        require_injective: bool,
        require_ordered: bool,
        disallow_op: Sequence[str] | None = None,
        count_recomputation: bool = False,
    ) -> None:
        self.into_producer = into_producer
        self.into_consumer = into_consumer
        self.inline_const_tensor = inline_const_tensor
        self.disallow_if_then_else = disallow_if_then_else
        self.require_injective = require_injective
        self.require_ordered = require_ordered
        self.disallow_op = list(disallow_op or ())
        self.count_recomputation = count_recomputation
        self._costly = frozenset(Op.get(name).name for name in self.disallow_op)

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        match self.check_inline(sch, sch.get_sref(block)):
            case Inline.INTO_CONSUMER:
                kept = [sch.copy()] if self._may_stay(sch, sch.get_sref(block)) else []
                sch.compute_inline(block)
                return [sch, *kept]
            case Inline.INTO_PRODUCER:
                sch.reverse_compute_inline(block)
        return [sch]

    def check_inline(self, sch: Schedule, block: StmtSRef) -> Inline:
        """Where the rule would put a block; nothing is recorded."""
        stmt = block.block
        if is_root(block) or len(stmt.writes) != 1:
            return Inline.NOWHERE
        if self.inline_const_tensor and not inputs_of(stmt) and _fits_consumers(sch, block):
            return Inline.INTO_CONSUMER
        if not is_spatial_function(sch.state, block) and self._is_costly(block):
            return Inline.NOWHERE
        if stmt.annotations.get(INLINE_RULE) == "disable":
            return Inline.NOWHERE
        if self.into_consumer and _fits_consumers(sch, block):
            return Inline.NOWHERE if self.repeats_much(sch, block) else Inline.INTO_CONSUMER
        if self.into_producer and _fits_producer(sch, block):
            return Inline.INTO_PRODUCER
        return Inline.NOWHERE

    def repeats_much(self, sch: Schedule, block: StmtSRef) -> bool:
        """True when computing a block wherever it is read costs more than writing and reading."""
        return self._repeated(sch, block) > MOST_REPEATED

    def _may_stay(self, sch: Schedule, block: StmtSRef) -> bool:
        return self._repeated(sch, block) > FEW_REPEATED

    def _repeated(self, sch: Schedule, block: StmtSRef) -> float:
        return repeated_operations(sch, block) if self.count_recomputation else 0.0

    def _is_costly(self, block: StmtSRef) -> bool:
        """True when computing the block again where it is used may cost more than it saves."""
        realize = realize_of(block)
        if self._costly and _calls(realize, self._costly):
            return True
        if self.disallow_if_then_else and has_if_then_else(realize):
            return True
        if not self.require_injective and not self.require_ordered:
            return False
        stmt = block.block
        patterns = [analyze_read_write_pattern(read, stmt.writes[0]) for read in stmt.reads]
        return any(
            (self.require_injective and not pattern.injective)
            or (self.require_ordered and not pattern.ordered)
            for pattern in patterns
        )


def _fits_consumers(sch: Schedule, block: StmtSRef) -> bool:
    return bool(neighbours(sch, block, before=False)) and can_compute_inline(sch.state, block)


def _fits_producer(sch: Schedule, block: StmtSRef) -> bool:
    producers = neighbours(sch, block, before=True)
    return (
        len(producers) == 1
        and is_complete_block(sch.state, producers[0])
        and can_reverse_compute_inline(sch.state, block)
        and AUTO_TENSORIZE not in producers[0].block.annotations
    )


def _calls(node: Node, names: frozenset[str]) -> bool:
    if isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in names:
        return True
    return any(_calls(child, names) for child in children(node))

"""`reorder_block_iter_var`: the iterators of a block in another order."""

from __future__ import annotations

from tilewright.ir import BlockRealize, PrimExpr, replace
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state import BlockRV
from tilewright.schedule.state.splice import replace_in_parent
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive


class NotAPermutation(PrimitiveError):
    reason = "{order} does not name each of the {count} iterators of block {block!r} once"
    remedy = "give the numbers 0 to {last} in the new order"


class RootHasNoIterators(PrimitiveError):
    reason = "the root block {block!r} has no iterators"


@register_primitive
class ReorderBlockIterVar(Primitive[None]):
    """Put the iterators, with their bindings, into the given order."""

    block: BlockRV = given()
    new_order: list[int | PrimExpr] = given()

    def run(self, sch: ScheduleCore) -> None:
        order = [sch.int_of(index) for index in self.new_order]
        state, block = sch.state, sch.get_sref(self.block)
        if block.parent is None:
            raise RootHasNoIterators(block=block)
        realize = block.realize
        stmt = realize.block
        count = len(stmt.iter_vars)
        if sorted(order) != list(range(count)):
            raise NotAPermutation(block=block, order=list(order), count=count, last=count - 1)
        changed = replace(stmt, iter_vars=tuple(stmt.iter_vars[index] for index in order))
        values = tuple(realize.iter_values[index] for index in order)
        new = BlockRealize(values, realize.predicate, changed)
        replace_in_parent(state, block, (new,), {stmt: changed})

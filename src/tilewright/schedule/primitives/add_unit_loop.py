"""`add_unit_loop`: a loop that runs once, around a block or a loop."""

from __future__ import annotations

from tilewright.ir import INT32, For, ForKind, Stmt, Var, const
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state import BlockRV, LoopRV
from tilewright.schedule.state.splice import replace_in_parent
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive


class NoLoopAroundRoot(PrimitiveError):
    reason = "{name!r} is the root block of its function"
    remedy = "give a block or loop inside it"


@register_primitive
class AddUnitLoop(Primitive[LoopRV]):
    """Wrap a block or loop into a loop `u` of extent 1."""

    moves_blocks = False
    block_or_loop: BlockRV | LoopRV = given()

    def run(self, sch: ScheduleCore) -> LoopRV:
        state, place = sch.state, sch.get_sref(self.block_or_loop)
        if place.parent is None:
            raise NoLoopAroundRoot(name=place)
        body: Stmt = place.realize if place.is_block else place.loop
        loop = For(Var("u", INT32), const(0, INT32), const(1, INT32), ForKind.SERIAL, body)
        replace_in_parent(state, place, (loop,), {})
        return sch.loop_rv(state.srefs[loop])

"""`set_axis_separator`: groups of dimensions that memory keeps apart."""

from __future__ import annotations

import functools

from tilewright.ir import replace
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.layouts.allocated_buffer import AllocationChanger
from tilewright.schedule.layouts.layout import buffer_site, change_buffer
from tilewright.schedule.trace.instruction import BufferPrimitive, register_primitive


class BadSeparators(PrimitiveError):
    reason = "the axis separators {given} do not divide the {ndim} dimensions of {buffer!r}"
    remedy = "give ascending positions from 0 to the number of dimensions"


@register_primitive
class SetAxisSeparator(BufferPrimitive[None]):
    """Let `buffer` have these axis separators wherever it is used."""

    axis_separators: list[int]

    def run(self, sch: ScheduleCore) -> None:
        buffer = sch.buffer_of(self.block, self.side, self.buffer_index)
        state, block, separators = sch.state, sch.get_sref(self.block), self.axis_separators
        if list(separators) != sorted(separators) or not all(
            0 <= position <= buffer.ndim for position in separators
        ):
            raise BadSeparators(block, given=list(separators), ndim=buffer.ndim, buffer=buffer.name)
        site = buffer_site(state, block, buffer)
        divide = functools.partial(replace, axis_separators=tuple(separators))
        changer = AllocationChanger(buffer, divide(buffer), divide)
        changed = changer.visit(site.owner.block)
        change_buffer(state, site, changer.buffers[buffer], changed, changer.reuse)

"""`set_axis_separator`: groups of dimensions that memory keeps apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import Buffer, replace
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.layouts.allocated_buffer import AllocationChanger
from tilewright.schedule.layouts.layout import buffer_site, change_buffer
from tilewright.schedule.state import BlockRV
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive
from tilewright.schedule.trace.text import buffer_text


class BadSeparators(PrimitiveError):
    reason = "the axis separators {given} do not divide the {ndim} dimensions of {buffer!r}"
    remedy = "give ascending positions from 0 to the number of dimensions"


@register_primitive
class SetAxisSeparator(Primitive[None]):
    """Let `buffer` have these axis separators wherever it is used."""

    block: BlockRV = given()
    buffer_index: int
    side: int  # 0 for reads, 1 for writes
    axis_separators: list[int]

    def run(self, sch: ScheduleCore) -> None:
        buffer = sch.buffer_of(self.block, self.side, self.buffer_index)
        state, block, separators = sch.state, sch.get_sref(self.block), self.axis_separators
        if list(separators) != sorted(separators) or not all(
            0 <= position <= buffer.ndim for position in separators
        ):
            raise BadSeparators(block, given=list(separators), ndim=buffer.ndim, buffer=buffer.name)
        site = buffer_site(state, block, buffer)
        changer = _SeparatorChanger(buffer, tuple(separators))
        changed = changer.visit(site.owner.block)
        change_buffer(state, site, changer.buffers[buffer], changed, changer.reuse)

    def spelled(self, names: Mapping[Any, str]) -> list[str]:
        block, _, _, *others = super().spelled(names)
        return [block, f"buffer={buffer_text(self.side, self.buffer_index)}", *others]


class _SeparatorChanger(AllocationChanger):
    """Gives a buffer, and what is matched to parts of it, other separators."""

    def __init__(self, buffer: Buffer, separators: tuple[int, ...]) -> None:
        super().__init__(buffer, replace(buffer, axis_separators=separators))
        self._separators = separators

    def change_match(self, buffer: Buffer) -> Buffer:
        return replace(buffer, axis_separators=self._separators)

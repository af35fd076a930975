"""`set_axis_separator`: groups of dimensions that memory keeps apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.ir import Buffer, replace
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.layouts.allocated_buffer import AllocationChanger
from tilewright.schedule.layouts.layout import buffer_site, change_buffer
from tilewright.schedule.primitives.transform_layout import buffer_text
from tilewright.schedule.state.sref import StmtSRef
from tilewright.schedule.state.state import ScheduleState
from tilewright.schedule.trace.instruction import Outputs, Primitive, register_primitive

if TYPE_CHECKING:
    from tilewright.schedule.schedule import Schedule


class BadSeparators(PrimitiveError):
    reason = "the axis separators {given} do not divide the {ndim} dimensions of {buffer!r}"
    remedy = "give ascending positions from 0 to the number of dimensions"


def set_axis_separator(
    state: ScheduleState, block: StmtSRef, buffer: Buffer, separators: Sequence[int]
) -> None:
    """Let `buffer` have these axis separators wherever it is used."""
    if list(separators) != sorted(separators) or not all(
        0 <= position <= buffer.ndim for position in separators
    ):
        raise BadSeparators(block, given=list(separators), ndim=buffer.ndim, buffer=buffer.name)
    site = buffer_site(state, block, buffer)
    changer = _SeparatorChanger(buffer, tuple(separators))
    changed = changer.visit(site.owner.block)
    change_buffer(state, site, changer.buffers[buffer], changed, changer.reuse)


class _SeparatorChanger(AllocationChanger):
    """Gives a buffer, and what is matched to parts of it, other separators."""

    def __init__(self, buffer: Buffer, separators: tuple[int, ...]) -> None:
        super().__init__(buffer, replace(buffer, axis_separators=separators))
        self._separators = separators

    def change_match(self, buffer: Buffer) -> Buffer:
        return replace(buffer, axis_separators=self._separators)


def _run(
    sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
) -> tuple[Outputs, Any]:
    index, kind, separators = attrs
    buffer = sch.buffer_of(inputs[0], kind, index)
    set_axis_separator(sch.state, sch.get_sref(inputs[0]), buffer, separators)
    return None, None


def _spell(inputs: Sequence[str], attrs: Sequence[str]) -> list[str]:
    (block,) = inputs
    index, kind, separators = attrs
    return [
        f"block={block}",
        f"buffer={buffer_text(index, kind)}",
        f"axis_separators={separators}",
    ]


register_primitive(Primitive("SetAxisSeparator", "set_axis_separator", _run, _spell))

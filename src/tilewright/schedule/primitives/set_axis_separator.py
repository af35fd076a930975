"""`set_axis_separator`: groups of dimensions that memory keeps apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.ir import Buffer, replace
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.instruction import Outputs, Primitive, register_primitive
from tilewright.schedule.layout import LayoutRewriter, buffer_site, change_buffer
from tilewright.schedule.primitives.transform_layout import buffer_text
from tilewright.schedule.sref import StmtSRef
from tilewright.schedule.state import ScheduleState

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
    new = replace(buffer, axis_separators=tuple(separators))
    rewriter = LayoutRewriter(buffer, new, None)
    changed = rewriter.visit(site.owner.block)
    rewriter.check(block)
    change_buffer(state, site, changed, rewriter)


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

"""`enter_postproc`: the mark between a trace and its post-processing."""

from __future__ import annotations

from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.trace.instruction import Primitive, register_primitive


@register_primitive
class EnterPostproc(Primitive[None]):
    moves_blocks = False
    is_postproc = True

    def run(self, sch: ScheduleCore) -> None:
        """Leave the mark: there is nothing else to do."""

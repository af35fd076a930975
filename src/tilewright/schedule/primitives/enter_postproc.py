"""`enter_postproc`: the mark between a trace and its post-processing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.schedule.trace.instruction import Outputs, Primitive, keywords, register_primitive

if TYPE_CHECKING:
    from tilewright.schedule.schedule import Schedule


def _run(
    sch: Schedule, inputs: Sequence[Any], attrs: Sequence[Any], decision: Any
) -> tuple[Outputs, Any]:
    return None, None


register_primitive(Primitive("EnterPostproc", "enter_postproc", _run, keywords()))

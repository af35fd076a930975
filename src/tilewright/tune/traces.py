"""The trace of a candidate."""

from __future__ import annotations

from tilewright.errors import TuneError
from tilewright.records import MeasureCandidate
from tilewright.schedule import Trace


def trace_of(candidate: MeasureCandidate) -> Trace:
    """How a candidate came about."""
    trace = candidate.sch.trace
    if trace is None:
        raise TuneError("a candidate without a trace cannot be kept: use Schedule, traced")
    return trace

"""Numbers as people read them."""

from __future__ import annotations

import datetime
import math

from tilewright.runtime.timing import format_seconds
from tilewright.support.text import counted
from tilewright.target import Target

NOTHING = "-"


def seconds(value: float | None) -> str:
    """A running time with three digits; a dash if there is none."""
    return NOTHING if value is None else format_seconds(value)


def gflops(flop: float, value: float | None) -> str:
    """The speed of a run of `flop` operations that takes `value` seconds."""
    if not value:
        return NOTHING
    speed = flop / value / 1e9
    return f"{speed:.0f}" if speed >= 100 else f"{speed:.1f}" if speed >= 1 else f"{speed:.3f}"


def percent(share: float | None) -> str:
    """A share of 1."""
    return NOTHING if share is None else f"{100 * share:.0f} %"


def speed_up(before: float | None, after: float | None) -> str:
    """How many times faster something became."""
    if not before or not after:
        return NOTHING
    times = before / after
    return f"{times:.0f}x" if times >= 10 else f"{times:.1f}x"


def duration(value: float) -> str:
    """A span of time that somebody waits: `7 s`, `2:05`, `1:02:05`."""
    if not math.isfinite(value):
        return NOTHING
    whole = max(0, round(value))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def date(moment: float) -> str:
    """A moment, in seconds since 1970, on the reader's clock; a dash if no calendar has it."""
    try:
        return datetime.datetime.fromtimestamp(moment).strftime("%Y-%m-%d %H:%M")
    except (OSError, OverflowError, ValueError):
        return NOTHING


def short_target(target: Target | None) -> str:
    """A target in a few words: its kind, and the processor and the cores that it means."""
    if target is None:
        return NOTHING
    kind = target.kind.name
    if target.is_cpu:
        return f"{kind} {target.mcpu}, {counted(target.num_cores, 'core')}"
    return f"{kind} {target.attrs.get('arch', '')}".rstrip()

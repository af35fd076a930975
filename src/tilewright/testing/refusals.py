"""Refusals of a schedule: a program, a step that is tried on it, and the text of the error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.ir import PrimFunc
from tilewright.schedule import Schedule
from tilewright.schedule.errors import PrimitiveError

_PACKAGE = "tilewright.schedule."


@dataclass(frozen=True)
class Refusal:
    """A program, what is tried on it, and what comes of it."""

    error: str  # as `error_name` gives it
    func: PrimFunc
    act: Callable[[Schedule], object]
    text: str
    enable_check: bool = True


def error_name(error: type[PrimitiveError]) -> str:
    """The module of an error below the schedule package, and its class."""
    return f"{error.__module__}.{error.__qualname__}".removeprefix(_PACKAGE)


def check_refusal(case: Refusal) -> None:
    """That very error with that very text, and a program that did not change."""
    sch = Schedule(
        case.func,
        debug_mask="all" if case.enable_check else "none",
        error_render_level="fast",
        enable_check=case.enable_check,
    )
    before = sch.mod
    try:
        case.act(sch)
    except PrimitiveError as refusal:
        found = (error_name(type(refusal)), str(refusal))
    else:
        found = ("nothing", "")
    assert found == (case.error, f"ScheduleError: {case.text}")
    assert sch.mod is before

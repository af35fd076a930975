"""Errors of schedule primitives: structured, cheap to raise, rendered when somebody reads them.

A search raises thousands of them and reads none, so building one costs next to nothing: the message
is put together, and the program excerpt printed, only in `str(error)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, ParamSpec

from tilewright.errors import ScheduleError
from tilewright.ir import IRModule, Node
from tilewright.schedule.state import StmtSRef

P = ParamSpec("P")
Excerpt = Callable[[IRModule, Sequence[Node]], str]


class NoSuchBuffer(ScheduleError, AssertionError):
    """What was said of a buffer fits none of the block; TVM asserts that one does."""


class PrimitiveError(ScheduleError):
    """A precondition of a primitive that does not hold.

    Subclasses set `reason` and `remedy`, templates over the keyword arguments given at the raise;
    `places` are the blocks and loops to point at. A reference among the keyword arguments is a
    place, too, and its name in the templates. The schedule adds what it knows (`attach`).
    """

    reason: ClassVar[str] = "the precondition does not hold"
    remedy: ClassVar[str] = ""

    def __init__(self, *places: StmtSRef | Node, **details: object) -> None:
        super().__init__()
        self.details = details
        for key, value in details.items():
            if isinstance(value, StmtSRef):
                places = (*places, value)
                details[key] = value.name
        self.places = tuple(
            place.stmt if isinstance(place, StmtSRef) else place for place in places
        )
        self.primitive = ""
        self.mod: IRModule | None = None
        self.render_level = "detail"

    @property
    def args(self) -> tuple[str]:  # type: ignore[override] # made when somebody asks
        """The message, as other exceptions hold it."""
        return (str(self),)

    def attach(self, primitive: str, mod: IRModule, render_level: str) -> None:
        """Tell the error where it happened."""
        if not self.primitive:
            self.primitive, self.mod, self.render_level = primitive, mod, render_level

    def headline(self) -> str:
        """The message in one line."""
        reason = self.reason.format(**self.details)
        remedy = self.remedy.format(**self.details)
        prefix = f"{self.primitive}: " if self.primitive else ""
        return f"ScheduleError: {prefix}{reason}" + (f"; {remedy}" if remedy else "")

    def __str__(self) -> str:
        if self.render_level == "none":
            return f"ScheduleError: {self.primitive}"
        text = self.headline()
        if self.render_level != "detail" or self.mod is None:
            return text
        nodes = [place for place in self.places if place is not None]
        shown = _excerpt[0](self.mod, nodes) if nodes else ""
        return f"{text}\n{shown}" if shown else text


def is_allowed(check: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> bool:
    """True when a check, or a plan that changes nothing, raises no `PrimitiveError`."""
    try:
        check(*args, **kwargs)
    except PrimitiveError:
        return False
    return True


# The renderer of program excerpts; `render` replaces it when it is imported.
_excerpt: list[Excerpt] = [lambda mod, nodes: str(mod)]


def register_excerpt(render: Excerpt) -> None:
    """Make `render` what errors show of the program."""
    _excerpt[:] = [render]

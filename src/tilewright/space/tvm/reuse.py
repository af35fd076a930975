"""Requests for copies of what tiles read or write, and at which levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tilewright.errors import TuneError

Requirement = Literal["no", "may", "must"]


@dataclass(frozen=True, init=False)
class ReuseType:
    """`levels` are tiles counted from 1, outermost first; a copy lives in `scope`."""

    req: Requirement
    levels: tuple[int, ...]
    scope: str

    def __init__(
        self, req: Requirement = "no", levels: Sequence[int] = (), scope: str = ""
    ) -> None:
        if req not in get_args(Requirement):
            raise TuneError(f"ReuseType: req is 'no', 'may' or 'must', got {req!r}")
        for name, value in (("req", req), ("levels", tuple(levels)), ("scope", scope)):
            object.__setattr__(self, name, value)

    def as_dict(self) -> dict[str, object]:
        """The form in which rules of TVM take it."""
        return {"req": self.req, "levels": list(self.levels), "scope": self.scope}


NO_REUSE = ReuseType()
ReuseLike = ReuseType | Mapping[str, Any] | None


def as_reuse(value: ReuseLike) -> ReuseType:
    """A reuse given as such, as a dictionary, or not at all."""
    if value is None:
        return NO_REUSE
    return value if isinstance(value, ReuseType) else ReuseType(**value)

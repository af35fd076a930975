"""Traces as they lie in a database: read when somebody looks into them, never replayed."""

from __future__ import annotations

from typing import Any

import msgspec

from tilewright.errors import ScheduleError
from tilewright.schedule import Trace
from tilewright.support.decoding import decoding

_SHALLOW: Any = msgspec.json.Decoder(tuple[list[msgspec.Raw], msgspec.Raw])


class StoredTrace(Trace):
    """A trace that is still text. `insts` and `decisions` appear at the first look."""

    def __init__(self, text: bytes, is_canonical: bool = False) -> None:
        # The attributes of the base class are left out on purpose: see `__getattr__`.
        self.text = text
        self.is_canonical = is_canonical  # written by `trace_text`

    def __getattr__(self, name: str) -> Any:
        if name not in ("insts", "decisions"):
            raise AttributeError(name)
        with decoding("the stored trace is damaged", ScheduleError):
            document = msgspec.json.decode(self.text)
        read = Trace.from_json(document)
        self.insts, self.decisions = read.insts, read.decisions
        return getattr(self, name)

    def has_steps(self) -> bool:
        """True when something comes before the post-processing; found without reading it all."""
        if "insts" in self.__dict__:
            return super().has_steps()
        try:
            with decoding("the stored trace is damaged", ScheduleError):
                insts, _ = _SHALLOW.decode(self.text)
                return bool(insts) and msgspec.json.decode(insts[0])[:1] != ["EnterPostproc"]
        except ScheduleError:
            return False


def trace_text(trace: Trace) -> bytes:
    """A trace as JSON; the same text for the same trace, wherever it was read."""
    if isinstance(trace, StoredTrace) and trace.is_canonical and "insts" not in trace.__dict__:
        return trace.text
    return msgspec.json.encode(trace.as_json())

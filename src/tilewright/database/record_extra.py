"""The keys of a record's `extra` that databases know, and their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

_Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # what a column holds


class _Known(msgspec.Struct, frozen=True):
    protocol: str | None = None
    seed: _Number | None = None
    round: _Number | None = None
    run: _Number | None = None
    task: str | None = None
    trial: _Number | None = None
    prediction: float | None = None
    elapsed: float | None = None


def checked_extra(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """`extra` as it was read; a known key with a value of another type is a `ValueError`."""
    msgspec.convert(extra, _Known)
    return extra

"""`NodeWork`: what a machine has done for a builder or a runner so far."""

from __future__ import annotations

from typing import NamedTuple


class NodeWork(NamedTuple):
    """A machine, its devices, and the work of all of them together."""

    node: str
    devices: int
    done: int  # tasks
    busy_secs: float

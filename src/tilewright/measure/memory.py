"""How much memory there is for workers."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_USABLE = 0.8  # the rest is for the system, and for the tuner itself


def usable_memory() -> int:
    """The bytes that all workers together may hold."""
    amounts = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in _CGROUP_LIMITS:
        try:
            amounts.append(int(file.read_text()))
        except (OSError, ValueError):  # no such group, or no limit: "max"
            continue
    return int(min(amounts) * _USABLE)

"""Memory that workers may use."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_COUNTERS = Path("/proc/vmstat")
# A machine that cannot give so much to a worker has no memory left, whoever asks.
LEAST = 256 << 20
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


def can_get(amount: int) -> bool:
    """Whether the system would give this process `amount` bytes more."""
    try:
        mmap.mmap(-1, amount, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, ValueError, MemoryError):
        return False
    return True


def system_kills() -> int:
    """How many processes the system has ended so far because memory ran out; 0: it does not say."""
    try:
        counters = dict(line.split() for line in _COUNTERS.read_text().splitlines())
        return int(counters.get("oom_kill", 0))
    except (OSError, ValueError):
        return 0

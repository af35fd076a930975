"""Cores and caches of this machine, read from the operating system.

Linux tells everything in `/proc` and `/sys`; where a file is missing (another system, a locked-down
container) a documented default stands in. Every function takes the root of the file system, so
that tests can lay out machines of their own.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_SYSTEM_ROOT = Path("/")
_QUOTA_FILES = {"": ("cpu.max",), "cpu": ("cpu.cfs_quota_us", "cpu.cfs_period_us")}
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Caches:
    """Data-cache sizes that one core sees, in bytes; the defaults stand for an unknown CPU."""

    l1d_bytes: int = 32 << 10
    l2_bytes: int = 1 << 20
    l3_bytes: int = 8 << 20
    line_bytes: int = 64


@dataclass(frozen=True, slots=True)
class Topology:
    """What this process may use of the machine."""

    physical_cores: int
    logical_cores: int
    caches: Caches


def detect(root: Path = _SYSTEM_ROOT) -> Topology:
    """Look at the machine, as far as affinity and control groups let this process use it."""
    cpus = allowed_cpus()
    limit = cgroup_cpu_limit(root) or len(cpus)
    return Topology(
        physical_cores=max(1, min(count_physical(cpus, root), limit)),
        logical_cores=max(1, min(len(cpus), limit)),
        caches=read_caches(root),
    )


def allowed_cpus() -> frozenset[int]:
    """Numbers of the logical CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def count_physical(cpus: Iterable[int], root: Path = _SYSTEM_ROOT) -> int:
    """How many different cores the given logical CPUs sit on."""
    cores = set()
    for cpu in cpus:
        folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        package, core = _read(folder / "physical_package_id"), _read(folder / "core_id")
        cores.add((package, core) if core else ("unknown", str(cpu)))
    return len(cores)


def cgroup_cpu_limit(root: Path = _SYSTEM_ROOT) -> int | None:
    """The CPU quota of the control groups around this process in whole cores, None if unlimited."""
    quotas = list(_quotas(root))
    return max(1, math.floor(min(quotas))) if quotas else None


def _own_groups(root: Path) -> dict[str, Path]:
    """Controller -> group of this process; the empty controller is the unified hierarchy."""
    groups = {}
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = Path(path.lstrip("/"))
    return groups


def _quotas(root: Path) -> Iterator[float]:
    """Cores that groups around this process grant: in one file of the unified hierarchy, or two."""
    groups = _own_groups(root)
    for controller, files in _QUOTA_FILES.items():
        group = groups.get(controller, Path())
        for folder in (group, *group.parents):
            place = root / "sys/fs/cgroup" / controller / folder
            words = " ".join(_read(place / file) for file in files).split()
            if len(words) == 2 and words[0].isdecimal() and int(words[0]) > 0:
                yield int(words[0]) / int(words[1])


def read_caches(root: Path = _SYSTEM_ROOT) -> Caches:
    """Cache sizes of CPU 0; what the system does not tell keeps its default."""
    found: dict[str, int] = {}
    for index in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if _read(index / "type") not in ("Data", "Unified"):
            continue
        name = {"1": "l1d_bytes", "2": "l2_bytes", "3": "l3_bytes"}.get(_read(index / "level"))
        size = parse_size(_read(index / "size"))
        if name is None or size is None:
            continue
        found[name] = size
        line = _read(index / "coherency_line_size")
        if line.isdecimal():
            found["line_bytes"] = int(line)
    return Caches(**found)


def parse_size(text: str) -> int | None:
    """`"32K"` -> 32768; None for anything that is not a size."""
    unit = _UNITS.get(text[-1:], 1)
    digits = text.rstrip("KMG")
    return int(digits) * unit if digits.isdecimal() else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""

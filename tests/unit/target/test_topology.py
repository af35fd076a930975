"""Detection on machines laid out as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.target import topology
from tilewright.target.topology import Caches


def _lay_out(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def _cache(index: int, level: int, kind: str, size: str) -> dict[str, str]:
    folder = f"sys/devices/system/cpu/cpu0/cache/index{index}"
    return {
        f"{folder}/level": str(level),
        f"{folder}/type": kind,
        f"{folder}/size": size,
        f"{folder}/coherency_line_size": "128",
    }


def test_caches(tmp_path: Path) -> None:
    files = {
        **_cache(0, 1, "Data", "48K"),
        **_cache(1, 1, "Instruction", "99K"),
        **_cache(2, 2, "Unified", "1280K"),
        **_cache(3, 3, "Unified", "54M"),
    }
    expected = Caches(49152, 1310720, 56623104, 128)
    assert topology.read_caches(_lay_out(tmp_path, files)) == expected


def test_missing_caches_keep_their_defaults(tmp_path: Path) -> None:
    assert topology.read_caches(tmp_path) == Caches(32768, 1048576, 8388608, 64)
    only_l1 = _lay_out(tmp_path, _cache(0, 1, "Data", "48K"))
    assert topology.read_caches(only_l1) == Caches(49152, 1048576, 8388608, 128)


def test_hyperthreads_share_a_core(tmp_path: Path) -> None:
    files: dict[str, str] = {}
    for cpu in range(4):
        folder = f"sys/devices/system/cpu/cpu{cpu}/topology"
        files |= {f"{folder}/core_id": str(cpu % 2), f"{folder}/physical_package_id": "0"}
    root = _lay_out(tmp_path, files)
    assert topology.count_physical(range(4), root) == 2
    assert topology.count_physical([0, 2], root) == 1


def test_unknown_topology_counts_every_cpu(tmp_path: Path) -> None:
    assert topology.count_physical(range(3), tmp_path) == 3


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "max 100000"}, None),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "250000 100000"}, 2),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "50000 100000"}, 1),
        (
            {
                "proc/self/cgroup": "0::/jobs/one",
                "sys/fs/cgroup/jobs/cpu.max": "300000 100000",
                "sys/fs/cgroup/jobs/one/cpu.max": "max 100000",
            },
            3,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/box",
                "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "400000",
                "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000",
            },
            4,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu:/",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            None,
        ),
    ],
)
def test_cgroup_limit(tmp_path: Path, files: dict[str, str], limit: int | None) -> None:
    assert topology.cgroup_cpu_limit(_lay_out(tmp_path, files)) == limit


def test_detect_obeys_affinity_and_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "allowed_cpus", lambda: frozenset(range(8)))
    root = _lay_out(
        tmp_path, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "300000 100000"}
    )
    found = topology.detect(root)
    assert (found.physical_cores, found.logical_cores) == (3, 3)


@pytest.mark.parametrize(
    ("text", "size"), [("32K", 32768), ("2M", 2097152), ("64", 64), ("", None), ("big", None)]
)
def test_parse_size(text: str, size: int | None) -> None:
    assert topology.parse_size(text) == size

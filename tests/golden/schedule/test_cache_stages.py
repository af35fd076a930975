"""What cache stages and their relatives make of programs, as text; and that results stay."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tilewright.errors import ScheduleError
from tilewright.schedule import Schedule
from tilewright.testing.schedule_checks import assert_same_result, verify_trace_roundtrip

_SHARED = Path(__file__).parents[2] / "differential"


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_WORKLOADS = _load(_SHARED / "workloads.py")
_SEQUENCES: dict[str, Callable[[Any], None]] = {
    name: sequence
    for name, sequence in vars(_load(_SHARED / "sequences" / "cache.py")).items()
    if "__" in name and not name.startswith("_")
}
_SHOWN = (
    "chain__cache_write_for_the_first",
    "chain__set_scope",
    "chain__storage_align",
    "chain__unsafe_set_dtype",
    "interleaved__cache_read_under_loop",
    "matmul__cache_write_of_tiles",
    "matmul__read_at",
    "matmul__reindex_cache_write",
    "matmul__write_at",
    "nested__cache_read_inside",
    "padded_conv__reindex_all",
)


@pytest.mark.parametrize("name", _SEQUENCES)
def test_results_stay(name: str) -> None:
    before = getattr(_WORKLOADS, name.split("__")[0])()
    sch = Schedule(before, debug_mask="all")
    try:
        _SEQUENCES[name](sch)
    except ScheduleError:
        return  # the differential tests know which ones must fail
    verify_trace_roundtrip(sch, before)
    if "set_dtype" not in name:  # which rounds
        assert_same_result(before, sch.mod)


@pytest.mark.parametrize("name", _SHOWN)
def test_programs(name: str, golden: Callable[[str, str], None]) -> None:
    sch = Schedule(getattr(_WORKLOADS, name.split("__")[0])())
    _SEQUENCES[name](sch)
    golden(f"{name}.txt", sch.mod["main"].script() + "\n")

"""Compiled modules that you can call, time and export; arrays, threads and global functions.

Each name is imported when it is first used, because most programs need few of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.runtime.devices import (
        Device as Device,
        cpu as cpu,
        cuda as cuda,
        device as device,
    )
    from tilewright.runtime.extern_symbols import load_library as load_library
    from tilewright.runtime.loading import load_module as load_module
    from tilewright.runtime.module import CompiledFunction as CompiledFunction, Module as Module
    from tilewright.runtime.ndarray import NDArray as NDArray
    from tilewright.runtime.registry import *  # noqa: F403 - its `__all__`
    from tilewright.runtime.threads import (
        num_threads as num_threads,
        set_num_threads as set_num_threads,
        use_threads as use_threads,
    )
    from tilewright.runtime.timing import BenchmarkResult as BenchmarkResult

_NAMES = {
    "devices": "Device cpu cuda device",
    "extern_symbols": "load_library",
    "loading": "load_module",
    "module": "CompiledFunction Module",
    "ndarray": "NDArray",
    "registry": "PackedFunc get_global_func list_global_func_names register_func "
    "remove_global_func",
    "threads": "num_threads set_num_threads use_threads",
    "timing": "BenchmarkResult",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tilewright.runtime' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"tilewright.runtime.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

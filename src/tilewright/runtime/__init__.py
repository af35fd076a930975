"""Compiled modules that you can call, time and export; arrays, threads and global functions.

Each name is imported when it is first used, because most programs need few of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.runtime.devices import Device, cpu, cuda, device
    from tilewright.runtime.extern_symbols import load_library
    from tilewright.runtime.loading import load_module
    from tilewright.runtime.module import CompiledFunction, Module
    from tilewright.runtime.ndarray import NDArray
    from tilewright.runtime.registry import (
        PackedFunc,
        get_global_func,
        list_global_func_names,
        register_func,
        remove_global_func,
    )
    from tilewright.runtime.threads import num_threads, set_num_threads, use_threads
    from tilewright.runtime.timing import BenchmarkResult

_LAZY = {
    "BenchmarkResult": "timing",
    "CompiledFunction": "module",
    "Device": "devices",
    "Module": "module",
    "NDArray": "ndarray",
    "PackedFunc": "registry",
    "cpu": "devices",
    "cuda": "devices",
    "device": "devices",
    "get_global_func": "registry",
    "list_global_func_names": "registry",
    "load_library": "extern_symbols",
    "load_module": "loading",
    "num_threads": "threads",
    "register_func": "registry",
    "remove_global_func": "registry",
    "set_num_threads": "threads",
    "use_threads": "threads",
}

__all__ = [
    "BenchmarkResult",
    "CompiledFunction",
    "Device",
    "Module",
    "NDArray",
    "PackedFunc",
    "cpu",
    "cuda",
    "device",
    "get_global_func",
    "list_global_func_names",
    "load_library",
    "load_module",
    "num_threads",
    "register_func",
    "remove_global_func",
    "set_num_threads",
    "use_threads",
]


def __getattr__(name: str) -> Any:
    source = _LAZY.get(name)
    if source is None:
        raise AttributeError(f"module 'tilewright.runtime' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"tilewright.runtime.{source}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

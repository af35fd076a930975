"""For tests and experiments: the interpreter, workloads, fuzzers, and the helpers of `tvm.testing`.

Everything is imported when first used.
"""

from __future__ import annotations

import importlib
from typing import Any

_SUBMODULES = ("handwritten", "ir_fuzzer", "oracle", "te_workload", "ulp")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"tilewright.testing.{name}")
    tvm_testing = None if name.startswith("_") else _tvm_testing()
    if hasattr(tvm_testing, name):
        return getattr(tvm_testing, name)
    raise AttributeError(f"module 'tilewright.testing' has no attribute {name!r}")


def _tvm_testing() -> Any:
    return importlib.import_module("tilewright.testing.tvm_testing")


def __dir__() -> list[str]:
    return [*_SUBMODULES, *(name for name in dir(_tvm_testing()) if not name.startswith("_"))]

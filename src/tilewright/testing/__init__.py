"""For tests and experiments: the interpreter, workloads, fuzzers; imported when first used."""

from __future__ import annotations

import importlib
from typing import Any

_SUBMODULES = ("handwritten", "ir_fuzzer", "oracle", "te_workload", "ulp")


def __getattr__(name: str) -> Any:
    if name not in _SUBMODULES:
        raise AttributeError(f"module 'tilewright.testing' has no attribute {name!r}")
    return importlib.import_module(f"tilewright.testing.{name}")


def __dir__() -> list[str]:
    return list(_SUBMODULES)

"""Tilewright: a tensor-program compiler and auto-scheduler in pure Python.

Everything a user needs hangs off this module, under the names they know from TVM; each name is
imported when it is first used, so `import tilewright` costs little.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tilewright.version import __version__ as __version__

if TYPE_CHECKING:
    from tilewright import (
        arith as arith,
        ir as ir,
        meta_schedule as meta_schedule,
        nd as nd,
        runtime as runtime,
        script as script,
        target as target,
        te as te,
        testing as testing,
        tir as tir,
        topi as topi,
        transform as transform,
    )
    from tilewright.driver import build as build, lower as lower
    from tilewright.errors import TilewrightError as TilewrightError
    from tilewright.ir import IRModule as IRModule
    from tilewright.jit import compile as compile
    from tilewright.lowering import PassContext as PassContext
    from tilewright.runtime import (
        cpu as cpu,
        cuda as cuda,
        device as device,
        get_global_func as get_global_func,
        load_module as load_module,
        register_func as register_func,
    )
    from tilewright.target import Target as Target

    TVMError = TilewrightError

_MODULES = (
    "arith", "ir", "meta_schedule", "nd", "runtime", "script", "target", "te", "testing", "tir",
    "topi", "transform",
)  # fmt: skip
# The modules that hold the other names.
_NAMES = {
    "driver": "build lower",
    "errors": "TilewrightError",
    "ir": "IRModule",
    "jit": "compile",
    "lowering": "PassContext",
    "runtime": "cpu cuda device get_global_func load_module register_func",
    "target": "Target",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
# Names of TVM's for things that are called otherwise here.
_OTHER_NAMES = {"TVMError": "TilewrightError"}

__all__ = sorted([*_HOMES, *_MODULES, *_OTHER_NAMES, "__version__"])


def __getattr__(name: str) -> Any:
    ours = _OTHER_NAMES.get(name, name)
    if ours not in _HOMES and ours not in _MODULES:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
    module = importlib.import_module(f"tilewright.{_HOMES.get(ours, ours)}")
    value = getattr(module, ours) if ours in _HOMES else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

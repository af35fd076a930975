"""Tilewright: a tensor-program compiler and auto-scheduler in pure Python.

Everything a user needs hangs off this module, under the names they know from TVM; each name is
imported when it is first used, so `import tilewright` costs little.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tilewright.version import __version__

if TYPE_CHECKING:
    from tilewright import (
        arith,
        ir,
        meta_schedule,
        nd,
        runtime,
        script,
        target,
        te,
        testing,
        tir,
        topi,
        transform,
    )
    from tilewright.driver import build, lower
    from tilewright.errors import TilewrightError, TilewrightError as TVMError
    from tilewright.ir import IRModule
    from tilewright.jit import compile
    from tilewright.lowering import PassContext
    from tilewright.runtime import (
        cpu,
        cuda,
        device,
        get_global_func,
        load_module,
        register_func,
    )
    from tilewright.target import Target

# name -> the module that holds it; a module itself where both are the same
_LAZY = {
    "IRModule": "tilewright.ir",
    "PassContext": "tilewright.lowering",
    "Target": "tilewright.target",
    "TilewrightError": "tilewright.errors",
    "arith": "tilewright.arith",
    "build": "tilewright.driver",
    "compile": "tilewright.jit",
    "cpu": "tilewright.runtime",
    "cuda": "tilewright.runtime",
    "device": "tilewright.runtime",
    "get_global_func": "tilewright.runtime",
    "ir": "tilewright.ir",
    "load_module": "tilewright.runtime",
    "meta_schedule": "tilewright.meta_schedule",
    "lower": "tilewright.driver",
    "nd": "tilewright.nd",
    "register_func": "tilewright.runtime",
    "runtime": "tilewright.runtime",
    "script": "tilewright.script",
    "target": "tilewright.target",
    "te": "tilewright.te",
    "testing": "tilewright.testing",
    "tir": "tilewright.tir",
    "topi": "tilewright.topi",
    "transform": "tilewright.transform",
}
# Names of TVM's for things that are called otherwise here.
_OTHER_NAMES = {"TVMError": "TilewrightError"}

__all__ = [
    "IRModule",
    "PassContext",
    "Target",
    "TVMError",
    "TilewrightError",
    "__version__",
    "arith",
    "build",
    "compile",
    "cpu",
    "cuda",
    "device",
    "get_global_func",
    "ir",
    "load_module",
    "lower",
    "meta_schedule",
    "nd",
    "register_func",
    "runtime",
    "script",
    "target",
    "te",
    "testing",
    "tir",
    "topi",
    "transform",
]


def __getattr__(name: str) -> Any:
    ours = _OTHER_NAMES.get(name, name)
    source = _LAZY.get(ours)
    if source is None:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
    module = importlib.import_module(source)
    value = module if source == f"tilewright.{ours}" else getattr(module, ours)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

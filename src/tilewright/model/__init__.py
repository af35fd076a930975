"""Compiled models: kernels for a graph, and the program that runs them.

Names are imported when they are first used: a process that loads a model file needs no compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.model.api import (
        compile_model as compile_model,
        served_by as served_by,
        tune_model as tune_model,
    )
    from tilewright.model.compiled import (
        CompiledModel as CompiledModel,
        RunnableModel as RunnableModel,
    )
    from tilewright.model.executable import Executable as Executable
    from tilewright.model.external import ExternalCall as ExternalCall
    from tilewright.model.loading import LoadedModel as LoadedModel, load as load
    from tilewright.model.tasks import (
        ExtractedTask as ExtractedTask,
        extract_tasks as extract_tasks,
    )

# The modules that hold the names.
_NAMES = {
    "api": "compile_model served_by tune_model",
    "compiled": "CompiledModel RunnableModel",
    "executable": "Executable",
    "external": "ExternalCall",
    "loading": "LoadedModel load",
    "tasks": "ExtractedTask extract_tasks",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

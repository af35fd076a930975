"""Building and running candidates in worker processes.

Each name is imported when it is first used: worker processes need little of this package, and are
started often.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.measure.artifact import load_artifact
    from tilewright.measure.build_task import default_build
    from tilewright.measure.evaluator import AdaptiveProtocol, EvaluatorConfig
    from tilewright.measure.futures import FinishedFuture, FunctionFuture
    from tilewright.measure.members import (
        Builder,
        LocalBuilder,
        LocalRunner,
        ReplayBuilder,
        ReplayRunner,
        Runner,
        builders,
        runners,
    )
    from tilewright.measure.pool import PoolOptions, Task, WorkerPool

_LAZY = {
    "AdaptiveProtocol": "evaluator",
    "Builder": "members",
    "EvaluatorConfig": "evaluator",
    "FinishedFuture": "futures",
    "FunctionFuture": "futures",
    "LocalBuilder": "members",
    "LocalRunner": "members",
    "PoolOptions": "pool",
    "ReplayBuilder": "members",
    "ReplayRunner": "members",
    "Runner": "members",
    "Task": "pool",
    "WorkerPool": "pool",
    "builders": "members",
    "default_build": "build_task",
    "load_artifact": "artifact",
    "runners": "members",
}

__all__ = [
    "AdaptiveProtocol",
    "Builder",
    "EvaluatorConfig",
    "FinishedFuture",
    "FunctionFuture",
    "LocalBuilder",
    "LocalRunner",
    "PoolOptions",
    "ReplayBuilder",
    "ReplayRunner",
    "Runner",
    "Task",
    "WorkerPool",
    "builders",
    "default_build",
    "load_artifact",
    "runners",
]


def __getattr__(name: str) -> Any:
    source = _LAZY.get(name)
    if source is None:
        raise AttributeError(f"module 'tilewright.measure' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"tilewright.measure.{source}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

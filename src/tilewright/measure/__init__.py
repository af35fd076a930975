"""Building and running candidates in worker processes.

Each name is imported when it is first used: worker processes need little of this package, and are
started often.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.measure.artifact import load_artifact as load_artifact
    from tilewright.measure.base import (
        FinishedFuture as FinishedFuture,
        FunctionFuture as FunctionFuture,
    )
    from tilewright.measure.build_task import default_build as default_build
    from tilewright.measure.evaluator import (
        AdaptiveProtocol as AdaptiveProtocol,
        EvaluatorConfig as EvaluatorConfig,
    )
    from tilewright.measure.members import (
        Builder as Builder,
        LocalBuilder as LocalBuilder,
        LocalRunner as LocalRunner,
        ReplayBuilder as ReplayBuilder,
        ReplayRunner as ReplayRunner,
        Runner as Runner,
        builders as builders,
        runners as runners,
    )
    from tilewright.measure.pool import (
        PoolOptions as PoolOptions,
        Task as Task,
        WorkerPool as WorkerPool,
    )

_NAMES = {
    "artifact": "load_artifact",
    "build_task": "default_build",
    "evaluator": "AdaptiveProtocol EvaluatorConfig",
    "base": "FinishedFuture FunctionFuture",
    "members": "Builder LocalBuilder LocalRunner ReplayBuilder ReplayRunner Runner builders "
    "runners",
    "pool": "PoolOptions Task WorkerPool",
}
_SOURCES = {name: source for source, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    source = _SOURCES.get(name)
    if source is None:
        raise AttributeError(f"module 'tilewright.measure' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"tilewright.measure.{source}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_SOURCES)

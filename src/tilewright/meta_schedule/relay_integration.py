"""Tasks of whole models, under TVM's names.

Instead of a module of Relay a model is given: a graph, the path of an ONNX model, a program of
`torch.export`, or a `torch.nn.Module` with its inputs. Its weights come with it: `params` may be
left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright import model as models
from tilewright.database import Database
from tilewright.errors import TuneError
from tilewright.frontend.sources import load_graph
from tilewright.model import CompiledModel, ExtractedTask
from tilewright.model.tasks import to_tune_contexts
from tilewright.target import Target
from tilewright.tune.context import TuneContext
from tilewright.tune.module_tasks import make_strategy


def extract_tasks(
    mod: Any,
    target: Target | str = "llvm",
    params: Mapping[str, Any] | None = None,
    *,
    layout: str | None = None,
    module_equality: str = "structural",
    **sizes: Any,
) -> list[ExtractedTask]:
    """The different kernels of a model, each with the number of times that it runs.

    `layout="nchw"` keeps the channels of images where most models have them; without it they come
    last. `inputs`, `dims` and `shapes` are those of `load_graph`.
    """
    graph = load_graph(mod, **sizes)
    return models.extract_tasks(graph, target, layout=layout, module_equality=module_equality)


def extracted_tasks_to_tune_contexts(
    extracted_tasks: Sequence[ExtractedTask],
    work_dir: str | Path | None = None,
    space: Any = "tilewright",
    strategy: Any = "default",
    num_tuning_cores: int | str = "physical",
    seed: int | None = None,
) -> tuple[list[TuneContext], list[float]]:
    """Tasks and weights for `tune_tasks`."""
    return to_tune_contexts(
        extracted_tasks,
        lambda: make_strategy(strategy, space),
        space_generator=space,
        num_threads=num_tuning_cores,
        rand_state=-1 if seed is None else seed,
    )


def tune_relay(
    mod: Any,
    params: Mapping[str, Any] | None,
    target: Target | str,
    work_dir: str | Path | None,
    max_trials_global: int,
    **options: Any,
) -> Database:
    """Tune a model; the best schedules are in the database that comes back."""
    return models.tune_model(
        load_graph(mod), target, work_dir=work_dir, max_trials_global=max_trials_global, **options
    )


def compile_relay(
    database: Database,
    mod: Any,
    target: Target | str,
    params: Mapping[str, Any] | None = None,
    *,
    backend: str = "graph",
) -> CompiledModel:
    """A model with the best schedules of a database, calculated ones where it has none."""
    if backend != "graph":
        raise TuneError(f"there is one backend, 'graph'; got {backend!r}")
    return models.compile_model(load_graph(mod), target, database)

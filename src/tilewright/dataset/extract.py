"""The second step: the tasks of each model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

from tilewright.dataset.folder import Dataset, DatasetTask, Tell
from tilewright.dataset.rows import write_rows
from tilewright.errors import TilewrightError, TuneError
from tilewright.frontend.onnx import import_onnx
from tilewright.frontend.partial import PartialImportWarning
from tilewright.model.tasks import extract_tasks
from tilewright.records import Workload
from tilewright.support.text import counted
from tilewright.target import Target


def extract_dataset_tasks(
    folder: str | Path,
    target: Target | str = "llvm",
    dims: Mapping[str, int] | None = None,
    layout: str | None = None,
    tell: Tell = print,
) -> Dataset:
    """Write the tasks of models that have none yet; a model that cannot be imported is skipped."""
    dataset, where = Dataset(folder), Target(target)
    files = dataset.model_files
    if not files:
        raise TuneError(f"there are no models in {dataset.folder}: collect some first")
    failed = []
    for path in files:
        if dataset.tasks_file(path.stem).exists():
            tell(f"{path.stem}: there already")
            continue
        try:
            tasks = _tasks_of(path, where, dims or {}, layout)
        except TilewrightError as error:
            tell(f"{path.stem}: skipped: {error}")
            failed.append(path.stem)
            continue
        write_rows(dataset.tasks_file(path.stem), [task.as_row() for task in tasks])
        tell(f"{path.stem}: {counted(len(tasks), 'task')}")
    if len(failed) == len(files):
        raise TuneError(f"no model could be imported: {', '.join(failed)}")
    return dataset


def _tasks_of(
    path: Path, target: Target, dims: Mapping[str, int], layout: str | None
) -> list[DatasetTask]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PartialImportWarning)
        graph = import_onnx(path, dims=dims, partial=True)
    return [
        DatasetTask(
            path.stem, task.task_name, Workload(task.dispatched[0]), target, task.weight, task.flop
        )
        for task in extract_tasks(graph, target, layout=layout)
    ]

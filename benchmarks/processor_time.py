"""A dataset measured once more by the time of the processor, on one thread.

    python benchmarks/processor_time.py DATASET OUT [--model NAME ...]

Other programs on a machine delay a kernel, but hardly change how long the processor works on it:
what this measures can be compared even on a machine that is busy. OUT is a dataset with the same
tasks, and with the candidates that ran in the first one, or all of a task where none was measured.
It goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.dataset import Dataset, DatasetTask
from tilewright.dataset.folder import row_of
from tilewright.dataset.rows import write_rows
from tilewright.driver import build
from tilewright.errors import TilewrightError
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.measure.build_task import as_called
from tilewright.records import TuningRecord, args_info_of
from tilewright.runtime.threads import set_num_threads

ROWS, ROW_SECS = 6, 0.002
LONG = 0.03  # seconds of a kernel that runs but twice


def arguments_of(mod: Any) -> list[Any]:
    """Random arrays for a program."""
    random, arrays = np.random.default_rng(0), []
    for info in args_info_of(mod):
        kind = to_numpy(info.dtype)
        numbers = random.standard_normal(info.shape)
        small = random.integers(0, 2, info.shape)
        arrays.append(np.asarray(numbers if kind.kind == "f" else small).astype(kind))
    return arrays


def processor_secs(call: Callable[[], object]) -> float:
    """The least of some rows of runs."""

    def row(runs: int) -> float:
        start = time.thread_time()
        for _ in range(runs):
            call()
        return max((time.thread_time() - start) / runs, 1e-9)

    call()
    once = row(1)
    runs = max(1, int(ROW_SECS / once))
    return min(row(runs) for _ in range(ROWS if once < LONG else 2))


def measured(record: TuningRecord, task: DatasetTask) -> dict[str, Any] | None:
    """A row for a candidate; None if it cannot be run."""
    candidate = record.as_candidate_or_none()
    has_failed = record.run_secs is not None and not record.is_valid
    if candidate is None or has_failed or record.failure is not None:
        return None
    mod = as_called(candidate.sch.mod)
    try:
        kernel, arrays = build(mod, task.target), arguments_of(mod)
        secs = processor_secs(lambda: kernel(*arrays))
    except TilewrightError:
        return None
    return {**row_of(record), "run_secs": [secs], "protocol": "processor time of one thread"}


def main() -> None:
    """Measure all tasks that are not in the new dataset yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", nargs="+", metavar="NAME")
    options = parser.parse_args()
    set_num_threads(1)
    source = Dataset(options.dataset)
    (options.out / "tasks").mkdir(parents=True, exist_ok=True)
    target = Dataset(options.out)
    for name in options.model or source.models:
        shutil.copy(source.tasks_file(name), target.tasks_file(name))
        for task in source.tasks([name]):
            path = target.measurements_file(task)
            if not path.exists():
                records = source.measurements(task) or source.candidates(task)
                rows = [measured(record, task) for record in records]
                write_rows(path, [row for row in rows if row is not None])
                print(f"{name}/{task.name}: {len(rows)}", flush=True)


if __name__ == "__main__":
    main()

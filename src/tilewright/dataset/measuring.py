"""The fourth step: what candidates take on this machine.

Measurements are added to a file of lines batch by batch. A run that was killed goes on with the
candidates that have none. With `format="parquet"` the file of a task is packed when it is complete.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from tilewright.dataset import rows
from tilewright.dataset.folder import Dataset, DatasetTask, Tell, row_of
from tilewright.errors import TuneError
from tilewright.measure import Builder, LocalBuilder, LocalRunner, Runner
from tilewright.records import MeasureCandidate, RunnerResult, TuningRecord
from tilewright.support.suggestions import did_you_mean
from tilewright.support.table_files import pyarrow
from tilewright.tune.context import TuneContext
from tilewright.tune.measuring import Measurer
from tilewright.tune.task import TaskRecord


@dataclass(frozen=True)
class MeasureOptions:
    """How measurements are made and kept."""

    format: str = "jsonl"
    batch_size: int = 16
    builder: Builder | None = None
    runner: Runner | None = None

    def __post_init__(self) -> None:
        if self.format not in rows.FORMATS:
            raise TuneError(
                f"there is no format {self.format!r}{did_you_mean(self.format, rows.FORMATS)}"
            )
        if self.batch_size < 1:
            raise TuneError(f"batch_size must be at least 1, got {self.batch_size}")
        if self.format == "parquet":
            pyarrow("jsonl")


def measure_candidates(
    folder: str | Path,
    models: Collection[str] | None = None,
    options: MeasureOptions = MeasureOptions(),
    tell: Tell = print,
) -> Dataset:
    """Measure the candidates that have no measurement yet."""
    dataset = Dataset(folder)
    tasks = [task for task in dataset.tasks(models) if dataset.candidates_file(task).exists()]
    if not tasks:
        raise TuneError(f"there are no candidates in {dataset.folder}: sample some first")
    measurer = Measurer(
        options.builder or LocalBuilder(),
        options.runner or LocalRunner(),
        logging.getLogger("tilewright.dataset"),
    )
    try:
        for task in tasks:
            _measure_task(dataset, task, measurer, options, tell)
    finally:
        for member in (measurer.builder, measurer.runner):
            getattr(member, "close", lambda: None)()
    return dataset


def _measure_task(
    dataset: Dataset, task: DatasetTask, measurer: Measurer, options: MeasureOptions, tell: Tell
) -> None:
    packed = dataset.measurements_file(task, rows.PARQUET)
    if packed.exists():
        tell(f"{task.model}/{task.name}: all are measured")
        return
    path = dataset.measurements_file(task)
    rows.drop_cut_row(path)
    known = {row["id"] for row in rows.read_rows(path)} if path.exists() else set()
    waiting = [r for r in dataset.candidates(task) if r.extra["candidate_hash"] not in known]
    if not waiting:
        tell(f"{task.model}/{task.name}: all {len(known)} are measured")
    context = TaskRecord(TuneContext(task.workload.mod, target=task.target, num_threads=1))
    for first in range(0, len(waiting), options.batch_size):
        batch = waiting[first : first + options.batch_size]
        rows.append_rows(path, _measured(batch, context, measurer))
        done = len(known) + first + len(batch)
        tell(f"{task.model}/{task.name}: {done} of {len(known) + len(waiting)}")
    if options.format == "parquet":
        rows.write_rows(packed, rows.read_rows(path))
        path.unlink()


def _measured(
    batch: Sequence[TuningRecord], task: TaskRecord, measurer: Measurer
) -> list[rows.Row]:
    """A row for each record; a trace that cannot be replayed is a row, too."""
    candidates = [record.as_candidate_or_none() for record in batch]
    usable = [candidate for candidate in candidates if candidate is not None]
    found = measurer.measure(task, usable, lambda *_: None)
    if found.interrupt is not None:
        raise found.interrupt
    results = iter(found.results)
    return [
        _row(record, candidate, _NOT_REPLAYED if candidate is None else next(results))
        for record, candidate in zip(batch, candidates, strict=True)
    ]


_NOT_REPLAYED = RunnerResult(None, "the trace cannot be replayed")


def _row(
    record: TuningRecord, candidate: MeasureCandidate | None, result: RunnerResult
) -> rows.Row:
    assert record.target is not None
    return row_of(
        record,
        run_secs=None if result.run_secs is None else list(result.run_secs),
        failure=None if result.failure is None else result.failure.value,
        error=result.error_msg,
        checked=result.checked,
        stopped_early=result.stopped_early,
        protocol=result.protocol,
        machine=record.target.fingerprint,
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )

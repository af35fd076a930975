"""A dataset: a folder of models, tasks, candidates and measurements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.database import MemoryDatabase
from tilewright.dataset.rows import LINES, PARQUET, Row, read_rows
from tilewright.errors import StoredDataError, TuneError
from tilewright.ir.json import load_json, save_json
from tilewright.records import FailureKind, TuningRecord, Workload, read_target
from tilewright.support.decoding import decoding
from tilewright.support.suggestions import did_you_mean
from tilewright.target import Target

Tell = Callable[[str], object]  # says to people what a step has done


@dataclass(frozen=True, eq=False)
class DatasetTask:
    """A task of a model: its program, how often it runs, and where its rows are."""

    model: str
    name: str
    workload: Workload
    target: Target
    weight: int
    flop: float

    def as_row(self) -> Row:
        """A row of `tasks/MODEL.jsonl`."""
        return {
            "task": self.name,
            "hash": f"{self.workload.shash:016x}",
            "weight": self.weight,
            "flop": self.flop,
            "target": dict(self.target.export()),
            "program": save_json(self.workload.mod),
        }

    @staticmethod
    def from_row(model: str, row: Row) -> DatasetTask:
        """The same, read back."""
        target = read_target(row["target"])
        if target is None:
            raise StoredDataError(f"task {row['task']!r} has a target that is not known")
        return DatasetTask(
            model, str(row["task"]), Workload(load_json(row["program"])), target,
            int(row["weight"]), float(row["flop"]),
        )  # fmt: skip


class Dataset:
    """The files of a dataset, read when somebody asks for them."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise TuneError(f"there is no dataset in {folder}: it is not a folder")

    # --- files ----------------------------------------------------------------------------------

    @property
    def model_files(self) -> list[Path]:
        """The models, by name."""
        return sorted((self.folder / "models").glob("*.onnx"))

    def tasks_file(self, model: str) -> Path:
        """Where the tasks of a model are."""
        return self.folder / "tasks" / f"{model}{LINES}"

    def candidates_file(self, task: DatasetTask) -> Path:
        """Where the candidates of a task are."""
        return self.folder / "candidates" / task.model / f"{task.name}{LINES}"

    def measurements_file(self, task: DatasetTask, suffix: str = LINES) -> Path:
        """Where the measurements of a task are, or go."""
        return self.folder / "measurements" / task.model / f"{task.name}{suffix}"

    # --- what is in them ------------------------------------------------------------------------

    @property
    def models(self) -> list[str]:
        """The names of models whose tasks are known."""
        return sorted(path.stem for path in (self.folder / "tasks").glob(f"*{LINES}"))

    def tasks(self, models: Collection[str] | None = None) -> list[DatasetTask]:
        """The tasks of some models, or of all."""
        known = self.models
        for name in models or ():
            if name not in known:
                raise TuneError(f"the dataset has no model {name!r}{did_you_mean(name, known)}")
        chosen = [name for name in known if models is None or name in models]
        return [task for name in chosen for task in self._tasks_of(name)]

    def _tasks_of(self, model: str) -> Iterator[DatasetTask]:
        path = self.tasks_file(model)
        for number, row in enumerate(read_rows(path), start=1):
            with decoding(f"{path}, line {number}", StoredDataError):
                yield DatasetTask.from_row(model, row)

    def candidates(self, task: DatasetTask) -> list[TuningRecord]:
        """The candidates of a task, without measurements."""
        return self._records(task, self.candidates_file(task))

    def measurements(self, task: DatasetTask) -> list[TuningRecord]:
        """The measurements of a task."""
        return self._records(task, self.measured_file(task))

    def measured_file(self, task: DatasetTask) -> Path:
        """The file that has the measurements of a task: finished ones first."""
        packed = self.measurements_file(task, PARQUET)
        return packed if packed.exists() else self.measurements_file(task)

    def _records(self, task: DatasetTask, path: Path) -> list[TuningRecord]:
        if not path.exists():
            return []
        records = []
        for number, row in enumerate(read_rows(path), start=1):
            with decoding(f"{path}, row {number}", StoredDataError):
                records.append(record_of(row, task))
        return records

    def get_all_tuning_records(self) -> list[TuningRecord]:
        """All measurements, for `ReplayRunner`."""
        return [record for task in self.tasks() for record in self.measurements(task)]

    def database(self) -> MemoryDatabase:
        """All measurements as a database, for `tune_tir(..., runner="replay")` for example."""
        found = MemoryDatabase()
        for record in self.get_all_tuning_records():
            found.commit_workload(record.workload.mod)
            found.commit_tuning_record(record)
        return found


def row_of(record: TuningRecord, **more: Any) -> Row:
    """A row of candidates or measurements."""
    trace, run_secs, _, args_info = record.as_json()
    row: Row = {"id": record.extra.get("candidate_hash"), "trace": trace, "args_info": args_info}
    return {**row, **({"run_secs": run_secs} if record.run_secs is not None else {}), **more}


def record_of(row: Row, task: DatasetTask) -> TuningRecord:
    """The record of a row."""
    run_secs = row.get("run_secs")
    plain = TuningRecord.from_json(
        [row["trace"], run_secs, dict(task.target.export()), row["args_info"]], task.workload
    )
    failure = row.get("failure")
    noted = {"candidate_hash": row["id"], "protocol": row.get("protocol"),
             "checked": row.get("checked"), "stopped_early": row.get("stopped_early")}  # fmt: skip
    return TuningRecord(
        plain.trace, task.workload, plain.run_secs, task.target, plain.args_info,
        None if failure is None else FailureKind(failure), row.get("error"),
        {name: value for name, value in noted.items() if value is not None},
    )  # fmt: skip

"""Moving records between databases and into files for other programs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tilewright.database import similarity
from tilewright.database.base import Database, by_task, logger, speed_order
from tilewright.database.compatibility import identity_of_record
from tilewright.database.json_database import JSONDatabase
from tilewright.database.stored_record import checked_extra, readable, usable_module
from tilewright.errors import DatabaseError, StoredDataError
from tilewright.ir.json import load_json, save_json
from tilewright.records import FailureKind, TargetIdentity, TuningRecord, Workload
from tilewright.support.decoding import decoding
from tilewright.support.files import unchanged_on_failure, write_whole
from tilewright.support.suggestions import did_you_mean
from tilewright.support.table_files import write_csv, write_parquet

__all__ = ["merge", "copy", "prune", "export", "import_json"]

_T = TypeVar("_T")
_DOCUMENT_VERSION = 1


def merge(destination: Database, *sources: Database) -> int:
    """Copy all records; how many were new. Merging twice changes nothing."""
    added = 0
    for source in sources:
        for records in source.record_batches():
            added += destination.commit_tuning_records(records)
    return added


def copy(source: Database, destination: Database) -> int:
    """Copy all that a database has; how many records were new.

    Each batch is kept before the next one is read, and what is there is left alone: a copy that
    was stopped is completed by another one. Runs are copied last, where there are none.
    """
    added = merge(destination, source)
    for workload in source.workloads():
        destination.commit_workload(workload.mod)
    destination.history.take(source.history)
    return added


def prune(database: Database, top_k: int = 1) -> int:
    """Keep the fastest valid records of each workload and target; how many others went."""
    if top_k < 1:
        raise DatabaseError(f"top_k must be at least 1, got {top_k}")
    records = database.get_all_tuning_records()
    valid = (record for record in sorted(records, key=speed_order) if record.is_valid)
    kept = [record for group in by_task(valid).values() for record in group[:top_k]]
    database.keep_only(kept)
    return len(records) - len(kept)


# --- files --------------------------------------------------------------------------------------


def export(database: Database, destination: str | Path, format: str) -> int:
    """Write all records to a file (`csv`, `parquet`, `json`) or directory (`tvm`, `tvm-0.25`).

    Returns how many there are.
    """
    writer = _FORMATS.get(format)
    if writer is None:
        raise DatabaseError(f"unknown format {format!r}{did_you_mean(format, _FORMATS)}")
    return writer(database, Path(destination))


def _export_tvm(database: Database, directory: Path, dialect: str) -> int:
    with unchanged_on_failure(directory):
        return merge(JSONDatabase(work_dir=directory, dialect=dialect), database)


_COLUMNS = (
    "workload", "hash", "target", "valid", "mean_secs", "run_secs", "failure", "error_msg",
    "protocol", "seed", "round", "prediction",
)  # fmt: skip


def _export_csv(database: Database, path: Path) -> int:
    rows = [_table_row(record) for record in database.get_all_tuning_records()]
    texts = [{name: "" if value is None else value for name, value in row.items()} for row in rows]
    for text in texts:
        text["run_secs"] = " ".join(map(repr, text["run_secs"]))
        text["valid"] = int(text["valid"])
    write_csv(path, _COLUMNS, texts)
    return len(rows)


def _export_parquet(database: Database, path: Path) -> int:
    rows = [_table_row(record) for record in database.get_all_tuning_records()]
    write_parquet(path, rows)
    return len(rows)


def _table_row(record: TuningRecord) -> dict[str, Any]:
    extra = record.extra
    values = (
        similarity.describe(record.workload.mod),
        f"{record.workload.shash:016x}",
        None if record.target is None else str(record.target),
        record.is_valid,
        record.mean_secs,
        record.plain_secs or [],
        None if record.failure is None else record.failure.value,
        record.error_msg,
        *(extra.get(name) for name in ("protocol", "seed", "round", "prediction")),
    )
    return dict(zip(_COLUMNS, values, strict=True))


def _export_json(database: Database, path: Path) -> int:
    records = database.get_all_tuning_records()
    places: dict[Workload, int] = {}
    for record in records:
        places.setdefault(record.workload, len(places))
    document = {
        "tilewright_database": _DOCUMENT_VERSION,
        "workloads": [
            {
                "name": similarity.describe(workload.mod),
                "hash": f"{workload.shash:016x}",
                "module": save_json(workload.mod),
            }
            for workload in places
        ],
        "records": [_record_entry(record, places[record.workload]) for record in records],
    }
    write_whole(path, msgspec.json.encode(document))
    return len(records)


def _record_entry(record: TuningRecord, workload: int) -> dict[str, object]:
    trace, run_secs, target, args_info = record.as_json()
    identity = identity_of_record(record)
    return {
        "workload": workload,
        "trace": trace,
        "run_secs": run_secs,
        "target": target,
        "args_info": args_info,
        "failure": record.failure,
        "error_msg": record.error_msg,
        "extra": dict(record.extra),
        "identity": None if identity is None else dataclasses.asdict(identity),
    }


def import_json(path: str | Path, destination: Database) -> int:
    """Read what `export(..., "json")` wrote; how many records were new."""
    try:
        with decoding(f"cannot read {path}", StoredDataError):
            document = msgspec.json.decode(Path(path).read_bytes())
    except OSError as error:
        raise DatabaseError(f"cannot read {path}: {error}") from error
    version = document.get("tilewright_database") if isinstance(document, dict) else None
    if version != _DOCUMENT_VERSION:
        raise DatabaseError(
            f"{path} is not an exported database that this version can read: expected "
            f'"tilewright_database": {_DOCUMENT_VERSION}, got {version!r}'
        )
    with decoding(f"{path} is damaged", StoredDataError):
        entries = list(document["workloads"]), list(document["records"])
    workloads = _readable("workloads", entries[0], _read_workload)
    known = {place: workload for place, workload in enumerate(workloads) if workload is not None}
    records = _readable("records", entries[1], lambda entry: _read_record(entry, known))
    return destination.commit_tuning_records(record for record in records if record is not None)


def _readable(table: str, entries: list[Any], read: Callable[[Any], _T]) -> list[_T | None]:
    """What the entries hold; None, with a warning, for one that is damaged."""
    report = functools.partial(logger.warning, "skipped an entry: %s")
    numbered = enumerate(entries, 1)
    return [readable(table, number, entry, read, report) for number, entry in numbered]


def _read_workload(entry: Mapping[str, Any]) -> Workload:
    mod = usable_module(load_json(entry["module"]))
    return Workload(mod, int(entry["hash"], 16))


def _read_record(entry: Mapping[str, Any], workloads: Mapping[int, Workload]) -> TuningRecord:
    content = [entry[name] for name in ("trace", "run_secs", "target", "args_info")]
    record = TuningRecord.from_json(content, workloads[entry["workload"]])
    failure, identity = entry["failure"], entry["identity"]
    return dataclasses.replace(
        record,
        failure=None if failure is None else FailureKind(failure),
        error_msg=msgspec.convert(entry["error_msg"], str | None),
        extra=checked_extra(entry["extra"]),
        identity=None if identity is None else msgspec.convert(identity, TargetIdentity),
    )


_FORMATS: Mapping[str, Callable[[Database, Path], int]] = {
    "tvm": functools.partial(_export_tvm, dialect="0.14"),
    "tvm-0.25": functools.partial(_export_tvm, dialect="0.25"),
    "csv": _export_csv,
    "parquet": _export_parquet,
    "json": _export_json,
}

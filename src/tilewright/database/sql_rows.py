"""Records as rows of the table `records`, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from tilewright import records
from tilewright.database import stored_record
from tilewright.database.sql_tables import SCHEMA_VERSION
from tilewright.errors import DatabaseError, StoredDataError
from tilewright.target import Target

_WRITTEN = (
    "key, workload_id, target_id, valid, mean, run_secs, trace, trace_digest, args_info, failure, "
    "error_msg, protocol, seed, round, extra, schema, program"
)
_MARKS = ", ".join("?" * len(_WRITTEN.split(", ")))
INSERT = f"INSERT INTO records ({_WRITTEN}) VALUES ({_MARKS}) ON CONFLICT (key) DO NOTHING"
# After the new values: the key that is replaced, and twice the new one, which nobody else may have.
UPDATE = (
    f"UPDATE records SET ({_WRITTEN}) = ({_MARKS}) WHERE key = ? "
    "AND (key = ? OR NOT EXISTS (SELECT 1 FROM records other WHERE other.key = ?))"
)
COLUMNS = (
    "id, workload_id, target_id, mean, run_secs, trace, trace_digest, args_info, failure, "
    "error_msg, extra"
)
RecordRow = tuple[
    int, int, int | None, float, str | None, str, bytes, str | None, str | None, str | None, str
]

_SECONDS = msgspec.json.Decoder(tuple[float, ...])
_ARGUMENTS = msgspec.json.Decoder(list[object])
_OBJECT = msgspec.json.Decoder(dict[str, object])


def insertion(
    record: records.TuningRecord, workload_id: int, workload_hash: int, target_id: int | None
) -> tuple[object, ...]:
    """The values for `INSERT` and `UPDATE`; the key comes first."""
    extra = dict(record.extra)
    trace = stored_record.trace_text(record.trace)
    seconds = record.plain_secs
    if seconds is not None:
        seconds = [secs if math.isfinite(secs) else records.FAILED_RUN_SECS for secs in seconds]
    args = None if record.args_info is None else [info.as_json() for info in record.args_info]
    return (
        stored_record.record_key(workload_hash, trace, record),
        workload_id,
        target_id,
        int(record.is_valid),
        sum(seconds) / len(seconds) if seconds else records.FAILED_RUN_SECS,
        None if seconds is None else to_json(seconds, "run_secs"),
        trace.decode(),
        stored_record.digest(trace),
        None if args is None else to_json(args, "args_info"),
        None if record.failure is None else record.failure.value,
        record.error_msg,
        extra.get("protocol"),
        extra.get("seed"),
        extra.get("round"),
        to_json(extra, "extra"),
        SCHEMA_VERSION,
        None if record.program_hash is None else stored_record.as_hex(record.program_hash),
    )


def to_json(value: object, what: str) -> str:
    """A plain value as JSON."""
    try:
        return msgspec.json.encode(value, order="deterministic").decode()
    except (TypeError, ValueError, OverflowError) as error:
        raise DatabaseError(
            f"{what} must be made of numbers, texts, lists and dictionaries: {error}"
        ) from error


def record_from_row(
    row: tuple[object, ...],
    workload: records.Workload,
    target: Target | None,
    identity: records.TargetIdentity | None,
) -> records.TuningRecord:
    """The record in a row; its trace stays text."""
    values = msgspec.convert(row, RecordRow)
    _, _, _, mean, seconds, trace, trace_digest, args, failure, error_msg, extra = values
    if stored_record.digest(trace.encode()) != trace_digest:
        raise StoredDataError("the trace is not the one that was written")
    record = records.TuningRecord(
        stored_record.StoredTrace(trace.encode(), is_canonical=True),
        workload,
        None if seconds is None else _SECONDS.decode(seconds),
        target,
        None if args is None else tuple(map(records.TensorInfo.from_json, _ARGUMENTS.decode(args))),
        None if failure is None else records.FailureKind(failure),
        error_msg,
        stored_record.checked_extra(object_from_json(extra)),
        identity,
    )
    # Records are ranked by the column, without being read.
    if not math.isclose(mean, record.mean_secs, rel_tol=1e-6):
        raise StoredDataError(
            f"its mean is {mean:g} s, but its running times give {record.mean_secs:g} s"
        )
    return record


def object_from_json(text: str) -> Mapping[str, object]:
    """A JSON object of a row."""
    return _OBJECT.decode(text)

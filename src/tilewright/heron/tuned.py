"""The best schedule of an earlier run, from its records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tilewright.errors import TuneError
from tilewright.heron.measuring import HeronMeasurer
from tilewright.heron.space import HeronSpace
from tilewright.heron.tuning import RECORDS, HeronResult


def best_of_records(space: HeronSpace, folder: Path) -> dict[str, int]:
    """The variables of the fastest row in a folder's records."""
    path = folder / RECORDS
    worked = [row for row in _rows(path) if row["latency"] is not None]
    if not worked:
        raise TuneError(f"{path} has no schedule that worked; tune without --tuned first")
    best: dict[str, int] = min(worked, key=lambda row: float(row["latency"]))["variables"]
    unknown = {*best} ^ {variable.name for variable in space.problem.variables}
    if unknown or any(True for _ in space.problem.broken_by(best)):
        raise TuneError(f"{path} is of another space: its best row is no solution of this case")
    return best


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise TuneError(f"cannot read the records {path}: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise TuneError(f"line {number} of {path} is not JSON: {error}") from error
        if not isinstance(row, dict) or not {"latency", "variables"} <= {*row}:
            raise TuneError(f"line {number} of {path} is no record with latency and variables")
        yield row


def measured_again(best: dict[str, int], measurer: HeronMeasurer) -> HeronResult:
    """The best of the records, compiled and timed once more."""
    (outcome,) = measurer.measure([best])
    failures = [] if outcome.secs is not None else [outcome.reason]
    return HeronResult(outcome.secs, best, 1, failures)

"""`runner="replay"`: a search against the measurements of a database, without measuring.

The database that is given is only read; what the search finds goes into another one, in memory.
With the seed of the run that made the records the search goes the same way again.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.database import Database
from tilewright.measure import ReplayRunner
from tilewright.records import TuningRecord

REPLAY = "replay"


def replay_runner(database: Database) -> ReplayRunner:
    """A runner that answers with what the records of a database said when they were made."""
    return ReplayRunner(_as_made(record) for record in database.get_all_tuning_records())


def _as_made(record: TuningRecord) -> TuningRecord:
    """A record without what a final found out later."""
    first = record.extra.get("first_run_secs")
    if not first:
        return record
    return replace(record, run_secs=tuple(first), failure=None, error_msg=None)

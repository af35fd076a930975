"""Saves a search, so that the same call goes on where it stopped.

The state is saved together with the records of each round, in one transaction where the database
has them. It holds the counts of the task and what the search strategy needs to go on; a strategy
that cannot tell its state starts anew, and is told which candidates are known.

A round that was cut short (by Ctrl-C, the time budget or the number of trials) is saved as begun:
the strategy proposes the same candidates again, and those that have a record are not measured.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.database import Database
from tilewright.errors import StoredDataError
from tilewright.support.decoding import decoding
from tilewright.tune.resume.fingerprint import fingerprint_of
from tilewright.tune.task import TaskRecord

FORMAT = 1


def save_search(task: TaskRecord, database: Database) -> None:
    """Keep where a task stands, as of now."""
    database.save_state(_key(task), {**_head(task), **task.as_json()})


def load_search(task: TaskRecord, database: Database) -> bool:
    """Let a task go on from where an earlier call stopped; False if there is none that fits.

    Either way nothing that was measured of its program is measured again.
    """
    records = database.task_records(task.mod, task.target)
    task.read_records(records, fingerprint_of(task.ctx))
    state = database.load_state(_key(task))
    head = _head(task)
    if not isinstance(state, Mapping) or any(state.get(name) != head[name] for name in head):
        return False
    try:
        with decoding("what was saved of the search cannot be read", StoredDataError):
            task.restore(state)
    except StoredDataError:
        task.ctx.logger.warning("what was saved of the search cannot be read; it starts anew")
        return False
    return True


def _key(task: TaskRecord) -> str:
    assert task.records is not None
    return f"search/{task.records.workload.shash:x}/{task.target.fingerprint}/{task.seed}"


def _head(task: TaskRecord) -> dict[str, object]:
    return {"format": FORMAT, "setting": task.fingerprint}

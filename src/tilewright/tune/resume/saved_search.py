"""Saves a search, so that the same call goes on where it stopped.

The state is saved together with the records of each round, in one transaction where the database
has them. It holds the counts of the task and what the search strategy needs to go on; a strategy
that cannot tell its state starts anew, and is told which candidates are known.

A round that was cut short (by Ctrl-C, the time budget or the number of trials) is saved as begun:
the strategy proposes the same candidates again, and those that have a record are not measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tilewright.database import Database
from tilewright.errors import StoredDataError
from tilewright.search.measured import MeasuredResults
from tilewright.search.statistics import SearchStatistics
from tilewright.support.decoding import decoding
from tilewright.tune.resume.fingerprint import fingerprint_of
from tilewright.tune.task import TaskRecord

FORMAT = 1


def save_search(task: TaskRecord, database: Database) -> None:
    """Keep where a task stands, as of now."""
    database.save_state(_key(task), _snapshot(task))


def load_search(task: TaskRecord, database: Database) -> bool:
    """Let a task go on from where an earlier call stopped; False if there is none that fits.

    Either way nothing that was measured of its program is measured again.
    """
    task.records = database.task_records(task.mod, task.target)
    task.measured = MeasuredResults(task.records.all())
    task.fingerprint = fingerprint_of(task.ctx)
    state = database.load_state(_key(task))
    if not isinstance(state, Mapping) or not _fits(state, task):
        return False
    try:
        with decoding("what was saved of the search cannot be read", StoredDataError):
            _restore(task, state)
    except StoredDataError:
        task.ctx.logger.warning("what was saved of the search cannot be read; it starts anew")
        return False
    return True


def _key(task: TaskRecord) -> str:
    assert task.records is not None
    return f"search/{task.records.workload.shash:x}/{task.target.fingerprint}/{task.seed}"


def _fits(state: Mapping[str, Any], task: TaskRecord) -> bool:
    return (state.get("format"), state.get("setting")) == (FORMAT, task.fingerprint)


def _snapshot(task: TaskRecord) -> dict[str, Any]:
    strategy, state = task.ctx.search_strategy, task.search_state
    if strategy is not None and task.is_searching:
        state = strategy.state_dict()
    return {
        "format": FORMAT,
        "setting": task.fingerprint,
        "run": task.run,
        "elapsed": task.elapsed,
        "rounds": task.rounds,
        "begun": task.restored_count,
        "latency_ms": list(task.latency_ms),
        "best_history": list(task.best_history),
        "failures": dict(task.failures),
        "counted": task.counted.as_json(),
        "last_error": task.last_error,
        "finished": task.finished,
        "settled": task.rematched_at,
        "search": dict(state),
    }


def _restore(task: TaskRecord, state: Mapping[str, Any]) -> None:
    rounds, restored, rematched = (int(state[name]) for name in ("rounds", "begun", "settled"))
    latency = [float(value) for value in state["latency_ms"]]
    history = [float(value) for value in state["best_history"]]
    failures = Counter({str(cause): int(number) for cause, number in state["failures"].items()})
    counted = SearchStatistics.from_json(state["counted"])
    elapsed = float(state["elapsed"])
    # Nothing is changed before everything was read.
    task.rounds, task.restored_count, task.rematched_at = rounds, restored, rematched
    task.latency_ms, task.best_history, task.failures = latency, history, failures
    task.counted, task.elapsed = counted, elapsed
    task.reused = len(latency)
    task.run, task.last_error = state["run"], state["last_error"]
    task.finished = state["finished"]
    task.search_state = state["search"]

"""The event log beside a database."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tilewright.database import MemoryDatabase, SQLiteDatabase
from tilewright.measure.node_work import NodeWork
from tilewright.testing.conformance.database import matmul
from tilewright.testing.made_up_runs import MadeUp, NoBuilder
from tilewright.tune import event_log
from tilewright.tune.api import tune_tir
from tilewright.tune.event_log import event_log_path, writing_events
from tilewright.tune.events import Event, MemberFailed, PhaseChanged, TuningFinished


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _tune(database: Any, **more: Any) -> None:
    tune_tir(
        matmul(16, 16, 16), "llvm -num-cores=2", None, 8, database=database, builder=NoBuilder(),
        cost_model="random", strategy="replay-trace", check=False, console=False,
        **{"runner": MadeUp(), **more},
    )  # fmt: skip


def test_a_run_is_written_down(tmp_path: Path) -> None:
    database = SQLiteDatabase(tmp_path / "r.db")
    _tune(database)
    first, *rest = _lines(tmp_path / "r.events.jsonl")
    assert (first["event"], first["tasks"], first["max_trials"]) == ("tuning_started", ["main"], 8)
    assert first["run"] == database.history.runs()[0].id
    assert (first["pid"], first["node"]) == (os.getpid(), os.uname().nodename)
    assert {"build", "run"} <= {line.get("phase") for line in rest}
    assert sum(line.get("trials", 0) for line in rest) == len(database)
    assert (rest[-1]["event"], rest[-1]["reason"]) == ("tuning_finished", "done")
    assert all(line["time"] > 1e9 and line["load"] >= 0 for line in rest)


class _Cluster(MadeUp):
    """A runner that says which machines work for it."""

    def node_work(self) -> list[NodeWork]:
        return [NodeWork("far", 2, 7, 1.5)]


def test_machines_of_a_cluster_are_written_down(tmp_path: Path) -> None:
    _tune(SQLiteDatabase(tmp_path / "r.db"), runner=_Cluster())
    seen = [line for line in _lines(tmp_path / "r.events.jsonl") if line["event"] == "node_seen"]
    assert seen
    for line in seen:
        assert line.pop("time") > 1e9
        assert line == {
            "event": "node_seen", "pid": os.getpid(), "node": "far", "phase": "run", "devices": 2,
            "done": 7, "busy_secs": 1.5,
        }  # fmt: skip


def test_observers_stay_as_they_were(tmp_path: Path) -> None:
    observers: list[Any] = []
    with writing_events(observers, SQLiteDatabase(tmp_path / "r.db")):
        (write,) = observers
        write(PhaseChanged(0, "build", 3))
        write(MemberFailed("two\nlines"))
    assert observers == []
    phase, failed = _lines(tmp_path / "r.events.jsonl")
    assert (phase["task_id"], phase["phase"], phase["candidates"]) == (0, "build", 3)
    assert failed["message"] == "two\nlines"
    with writing_events(observers, MemoryDatabase()):
        assert observers == []


def test_a_long_log_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = SQLiteDatabase(tmp_path / "r.db")
    path = event_log_path(tmp_path / "r.db")
    ended: Event = TuningFinished("done", 1.0)
    for _ in range(2):
        observers: list[Any] = []
        with writing_events(observers, database):
            observers[0](ended)
    assert len(_lines(path)) == 2
    monkeypatch.setattr(event_log, "_MOST_BYTES", 10)
    with writing_events(observers, database):
        observers[0](ended)
    assert len(_lines(path)) == 1

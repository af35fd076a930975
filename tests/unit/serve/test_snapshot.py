"""Watching a database: changes are seen, and nothing is written."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tilewright.database import MemoryDatabase, SQLiteDatabase, prune
from tilewright.database.task_queries import TaskTotals
from tilewright.serve import live_tasks
from tilewright.serve.compare_page import compare_page
from tilewright.serve.overview import TASKS, number_of_pages, overview
from tilewright.serve.snapshot import Watched
from tilewright.serve.state import state_of
from tilewright.testing.conformance.database import matmul
from tilewright.testing.tuned_databases import add_run, fill
from tilewright.tune.event_log import event_log_path


def test_a_copied_file_stays_as_it_is(records: Path, visitor: Any) -> None:
    before = records.read_bytes()
    for address in ("/", "/compare", "/models", "/api/state"):
        assert visitor.get(address).status == 200
    assert records.read_bytes() == before


def test_commits_of_others_are_seen(records: Path, watched: Watched) -> None:
    first = watched.snapshot()
    assert watched.refresh() is first
    writer = SQLiteDatabase(records)
    add_run(writer, "new", 24, (1e-6,))
    second = watched.refresh()
    assert (second.version, second.records) == (first.version + 1, first.records + 1)
    assert len(second.runs) == len(first.runs) + 1
    writer.close()


def test_events_alone_keep_the_rest(records: Path, watched: Watched) -> None:
    first = watched.snapshot()
    event_log_path(records).write_text('{"time":1,"node":"n","event":"x"}\n', encoding="utf-8")
    second = watched.refresh()
    assert second.version == first.version + 1
    assert second.totals is first.totals
    assert list(second.live.nodes) == ["n"]
    assert first.live.nodes == {}  # pages that are being made see no change


def test_databases_without_a_file() -> None:
    database = MemoryDatabase()
    fill(database)
    watched = Watched(database, "memory:")
    first = watched.snapshot()
    assert watched.refresh() is first
    add_run(database, "new", 24, (1e-6,))
    assert watched.refresh().records == first.records + 1


def test_one_run_has_nothing_to_be_compared_with() -> None:
    database = MemoryDatabase()
    add_run(database, "only", 16, (1e-6,))
    page = compare_page(Watched(database, "memory:").snapshot(), None, None)
    assert "Run 1 is the only one so far." in page


def test_names_of_tasks_do_not_depend_on_the_database(watched: Watched) -> None:
    database = MemoryDatabase()
    fill(database)
    other = Watched(database, "memory:").snapshot()
    assert list(other.totals) == list(watched.snapshot().totals)


def test_a_database_that_cannot_be_read_for_a_while(
    visitor: Any, records: Path, watched: Watched, wait_for: Any, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    wait_for(lambda: visitor.get("/").status == 200)
    with monkeypatch.context() as broken:
        broken.setattr(watched, "_content_stamp", lambda: 1 / 0)
        wait_for(lambda: "records.db could not be looked at" in caplog.text)
        assert visitor.get("/").status == 200
    event_log_path(records).write_text('{"time":1,"node":"n","event":"x"}\n', encoding="utf-8")
    wait_for(lambda: "n" in str(visitor.get("/api/state").json()["nodes"]))


def test_corrected_and_deleted_records_are_seen(
    records: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = watched.snapshot()
    writer = SQLiteDatabase(records)
    (record,) = writer.get_top_k(writer.commit_workload(matmul(16, 16, 16)), 1)
    assert writer.correct_record(record, replace(record, run_secs=(9e-6,)))
    assert watched.refresh().totals == first.totals  # it is not looked at all again at once
    assert not watched.tasks.is_due()
    monkeypatch.setattr(live_tasks, "_PATIENCE", 0)
    watched.tasks.all_again_secs = 0.0
    second = watched.refresh()  # without another commit
    assert second.records == first.records
    assert [task.best_secs for task in second.totals.values()] == [2e-6, 2e-5, 5e-7]
    prune(writer)
    assert watched.refresh().records == 3
    writer.close()


def test_only_tasks_that_are_shown_are_read(watched: Watched) -> None:
    snapshot = watched.snapshot()
    asked: list[str] = []
    tasks = watched.database.tasks
    totals = list(snapshot.totals.values())

    def noted(task: TaskTotals) -> list[object]:
        asked.append(task.name)
        return []

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tasks, "measured", noted)
        for _ in range(2):
            snapshot.summary(totals[1].name)
    assert asked == [totals[1].name]  # once: nothing has changed


def test_very_many_tasks_and_trials(tmp_path: Path) -> None:
    path = tmp_path / "many.db"
    writer = SQLiteDatabase(path)
    for size in range(1, TASKS + 3):
        add_run(writer, "t", size, (1e-6 * size,))
    add_run(writer, "t", 1, tuple(1e-3 / (n + 1) for n in range(20)))
    writer.close()
    database = SQLiteDatabase(path, read_only=True)
    snapshot = Watched(database, "many.db", path).snapshot()
    assert number_of_pages(len(snapshot.totals)) == 2
    first, last = overview(snapshot), overview(snapshot, 99)  # there is no such page
    assert f"tasks 1 to {TASKS} of {TASKS + 2}" in first
    assert f"tasks {TASKS + 1} to {TASKS + 2} of {TASKS + 2}" in last
    assert (first.count('class="spark"'), last.count('class="spark"')) == (TASKS, 2)
    assert state_of(snapshot, 2)["pages"] == 2
    database.close()


def test_an_older_copy_is_shown_without_its_index(records: Path) -> None:
    raw = sqlite3.connect(records)
    raw.execute("DROP INDEX records_by_task")
    raw.execute("PRAGMA user_version = 2")
    raw.close()
    before = records.read_bytes()
    database = SQLiteDatabase(records, read_only=True)
    assert Watched(database, "old.db", records).snapshot().records == 10
    database.close()
    assert records.read_bytes() == before

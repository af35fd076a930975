"""Watching a database: changes are seen, and nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tilewright.database import MemoryDatabase, SQLiteDatabase
from tilewright.serve.snapshot import Watched
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

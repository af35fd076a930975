"""The page of a database on a PostgreSQL server: what others commit, and what they do now."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tilewright.database import PostgresDatabase, open_database
from tilewright.database.postgres_connection import PostgresConnection
from tilewright.serve.access import PageAccess
from tilewright.serve.live_runs import event_reader
from tilewright.serve.snapshot import Watched
from tilewright.testing.conformance.database import matmul
from tilewright.testing.made_up_runs import MadeUp, NoBuilder
from tilewright.testing.postgres_server import PostgresServer, postgres_server
from tilewright.testing.tuned_databases import add_run, fill
from tilewright.tune.api import tune_tir


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    made = postgres.new_database()
    with closing(open_database(made)) as writer:
        fill(writer)
    return made


@pytest.fixture
def watched(url: str) -> Iterator[Watched]:
    with closing(open_database(url, read_only=True)) as reader:
        yield Watched(reader, "postgresql", events=event_reader(reader, None))


def test_what_others_commit_is_seen(url: str, watched: Watched) -> None:
    first = watched.snapshot()
    assert (first.records, len(first.totals), len(first.runs)) == (10, 3, 3)
    assert watched.refresh() is first
    with closing(open_database(url)) as writer:
        add_run(writer, "new", 24, (1e-6, None))
    second = watched.refresh()
    assert (second.records, second.failed) == (12, 3)
    assert [second.summary(name).title for name in second.totals][-1] == "new · C 24x24x24"


def test_news_end_the_waiting(url: str, watched: Watched) -> None:
    reader = watched.database
    reader.wait_for_news(0.01)  # from now on it listens
    first = watched.refresh()
    timer = threading.Timer(0.2, _commit, [url])
    timer.start()
    start = time.monotonic()
    reader.wait_for_news(60.0)
    assert time.monotonic() - start < 30
    timer.join()
    assert watched.refresh().records == first.records + 1


def _commit(url: str) -> None:
    with closing(open_database(url)) as writer:
        add_run(writer, "new", 24, (1e-6,))


def _tune(url: str) -> None:
    with closing(open_database(url)) as database:
        tune_tir(
            matmul(24, 24, 24), "llvm -num-cores=2", None, 4, database=database,
            builder=NoBuilder(), runner=MadeUp(), cost_model="random", strategy="replay-trace",
            check=False, console=False,
        )  # fmt: skip


def test_phases_and_nodes_of_a_run(url: str, watched: Watched) -> None:
    assert watched.snapshot().live.nodes == {}
    _tune(url)
    state = watched.refresh().live
    (node,) = state.nodes.values()
    assert node.trials > 0
    assert node.seconds.keys() >= {"search", "build", "run"}
    (run,) = state.runs.values()
    assert (run.number, run.reason) == (4, "done")
    assert not watched.events.look()  # each is read once
    late = watched.database.event_lines(0)
    assert [number for number, _ in late] == sorted(number for number, _ in late)


def test_events_of_a_cluster(url: str, watched: Watched) -> None:
    with closing(open_database(url)) as writer:
        log = writer.event_log()
        assert log is not None
        for busy in (4, 19):
            seen = '"phase":"run","devices":2,"done":8'
            log.write(
                f'{{"time":{busy},"node":"far","event":"node_seen",{seen},"busy_secs":{busy}}}'
            )
        log.close()
    assert watched.refresh().live.nodes["far"].devices == {"run": 2}


def test_no_search_waits_for_its_events(mortal: PostgresServer) -> None:
    url = mortal.new_database()
    with closing(open_database(url)) as writer:
        log = writer.event_log()
        assert log is not None
        mortal.stop(signal.SIGKILL)
        try:
            for number in range(20_000):  # more than are kept waiting
                log.write(str(number))
        finally:
            mortal.start()
        log.close()


@pytest.fixture(scope="module")
def mortal(postgres: PostgresServer) -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


def test_tables_of_an_earlier_version_are_shown(url: str) -> None:
    store = PostgresConnection(url)
    store.rows("DROP TABLE events")
    store.rows("DROP INDEX records_by_task")
    store.rows("UPDATE meta SET value = '2' WHERE key = 'schema'")
    store.close()
    with closing(open_database(url, read_only=True)) as reader:
        watched = Watched(reader, "postgresql", events=event_reader(reader, None))
        assert watched.snapshot().records == 10
        assert watched.refresh().live.nodes == {}


def test_a_server_that_goes_away(
    mortal: PostgresServer, serving: Any, replays: Any, wait_for: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    pytest.importorskip("starlette", reason="the live page needs tilewright[serve]")
    from tests.unit.serve.conftest import Visitor

    from tilewright.serve.app import make_app

    url = mortal.new_database()
    with closing(open_database(url)) as writer:
        fill(writer)
    with closing(PostgresDatabase(url, read_only=True)) as reader:
        reader.be_patient(0.2)
        watched = Watched(reader, "postgresql", events=event_reader(reader, None))
        with serving(make_app(watched, PageAccess(), replays)) as address:
            visitor = Visitor(address)
            name = visitor.get("/api/state").json()["tasks"][0]["name"]
            mortal.stop(signal.SIGKILL)
            try:
                answer = visitor.get(f"/task/{name}")
                assert answer.status == 503
                assert "was lost and did not come back within 0 s" in answer.text
                assert visitor.get("/").status == 200  # what was shown before
                wait_for(lambda: "pages stay as they are: the connection to" in caplog.text)
                assert all(each.exc_info is None for each in caplog.records)
            finally:
                mortal.start()
            wait_for(lambda: visitor.get(f"/task/{name}").status == 200)

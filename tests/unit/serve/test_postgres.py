"""The page of a database on a PostgreSQL server."""

from __future__ import annotations

from tilewright.database import open_database
from tilewright.serve.snapshot import Watched
from tilewright.testing.postgres_server import PostgresServer
from tilewright.testing.tuned_databases import add_run, fill


def test_what_others_commit_is_seen(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    writer = open_database(url)
    fill(writer)
    reader = open_database(url, read_only=True)
    watched = Watched(reader, "postgresql")
    first = watched.snapshot()
    assert (first.records, len(first.totals), len(first.runs)) == (10, 3, 3)
    assert watched.refresh() is first
    add_run(writer, "new", 24, (1e-6,))
    assert watched.refresh().records == 11
    reader.close()
    writer.close()

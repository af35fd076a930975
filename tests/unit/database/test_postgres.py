"""PostgreSQL: many writers, news, claims, lost servers, roles and versions."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from tilewright.database import (
    PostgresDatabase,
    open_database,
    postgres,
    postgres_schema,
    upgrade_database,
)
from tilewright.database.postgres_connection import PostgresConnection, without_password
from tilewright.errors import DatabaseError
from tilewright.records import FAILED_RUN_SECS, FailureKind, TuningRecord, Workload
from tilewright.target import Target
from tilewright.testing.conformance.database import LLVM, a_record, matmul
from tilewright.testing.postgres_server import PostgresServer, postgres_server

MOD = matmul(16, 16, 16)
TARGET = Target(LLVM)


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.new_database()


@pytest.fixture
def pair(url: str) -> Iterator[tuple[PostgresDatabase, PostgresDatabase]]:
    """Two tuners at one database."""
    databases = PostgresDatabase(url), PostgresDatabase(url)
    yield databases
    for database in databases:
        database.close()


def numbered(workload: Workload, number: int, writer: int = 0, secs: float = 1.0) -> TuningRecord:
    extra = {"protocol": f"trial {number}", "seed": writer, "round": 0}
    return a_record(workload, secs, extra={**extra, "candidate_hash": f"{number:016x}"})


# --- many at once -------------------------------------------------------------------------------


def test_many_writers_lose_and_double_nothing(url: str) -> None:
    writers, count = 4, 40

    def write(writer: int) -> None:
        database = PostgresDatabase(url)
        for start in range(0, count, 8):
            workload = Workload(matmul(8, 8, 8 + start), 0)  # new to whoever comes first
            some = [numbered(workload, n, writer) for n in range(start, start + 8)]
            # Everybody also writes what all others write, in an order of its own.
            shared = [numbered(workload, n, 99) for n in range(start, start + 8)]
            database.commit_tuning_records([*some, *(shared if writer % 2 else shared[::-1])])
        database.close()

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    database = PostgresDatabase(url)
    places = [(r.extra["seed"], r.protocol) for r in database.get_all_tuning_records()]
    assert len(places) == len(set(places)) == (writers + 1) * count
    assert len(database.workloads()) == count // 8
    assert database.problems() == []
    database.close()


def test_a_new_best_is_told(pair: tuple[PostgresDatabase, PostgresDatabase]) -> None:
    ours, theirs = pair
    records = ours.task_records(MOD, TARGET)
    assert records.best(2) == []
    records.add([])  # from now on we say what we commit
    theirs.commit_tuning_record(a_record(theirs.commit_workload(MOD), 2.0))
    assert [record.mean_secs for record in records.best(2)] == [2.0]
    theirs.commit_tuning_record(a_record(theirs.commit_workload(matmul(8, 8, 8)), 1.0))
    failed = a_record(theirs.commit_workload(MOD), FAILED_RUN_SECS, failure=FailureKind.CRASH)
    theirs.commit_tuning_record(failed)
    assert not ours.has_news(records.workload)
    assert ours.has_news(ours.commit_workload(matmul(8, 8, 8)))


def test_nobody_measures_what_another_does(
    pair: tuple[PostgresDatabase, PostgresDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pair
    workload = ours.commit_workload(MOD)
    their = theirs.commit_workload(MOD)
    assert ours.claim(workload, TARGET, [1, 2, 3]) == {1, 2, 3}
    assert theirs.claim(their, TARGET, [2, 3, 4]) == {4}
    assert theirs.claim(their, Target("llvm -mcpu=haswell"), [2]) == {2}
    ours.commit_tuning_record(numbered(workload, 1))
    ours.close()  # what it has not measured is free again
    assert theirs.claim(their, TARGET, [1, 2, 3]) == {2, 3}
    monkeypatch.setattr(postgres, "CLAIM_SECONDS", -1.0)
    assert theirs.claim(their, TARGET, [5]) == {5}
    again = PostgresDatabase(theirs.path)
    assert again.claim(again.commit_workload(MOD), TARGET, [5, 4]) == {5}  # it has expired
    again.close()


def test_the_best_of_a_program_takes_one_statement(
    pair: tuple[PostgresDatabase, PostgresDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pair
    other = matmul(8, 8, 8)
    for mod in (MOD, other):
        workload = theirs.commit_workload(mod)
        theirs.commit_tuning_records([numbered(workload, n, secs=3.0 - n) for n in range(3)])
    first = ours.query_tuning_record(MOD, TARGET)  # learns of the targets
    assert first is not None
    said: list[str] = []
    fetch = PostgresConnection._cursor

    def noted(self: PostgresConnection, statement: str, parameters: Sequence[object]) -> object:
        said.append(statement)
        return fetch(self, statement, parameters)

    monkeypatch.setattr(PostgresConnection, "_cursor", noted)
    for _ in range(2):
        said.clear()
        best = ours.query_tuning_record(other, TARGET)
        assert best is not None
        assert (best.mean_secs, len(said)) == (1.0, 1)
    found = [record.mean_secs for record in ours.fitting_records(other, TARGET)]
    assert found == [1.0, 2.0, 3.0]
    haswell = Target("llvm -mcpu=haswell -num-cores=4")
    theirs.commit_tuning_record(a_record(theirs.commit_workload(other), 0.5, target=haswell))
    assert next(ours.fitting_records(other, haswell)).mean_secs == 0.5
    assert ours.query_tuning_record(matmul(4, 4, 4), TARGET) is None


# --- servers that go away -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def mortal(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """A server that tests may kill."""
    with postgres_server() as server:
        yield server


def test_nothing_acknowledged_is_lost_when_the_server_is_killed(mortal: PostgresServer) -> None:
    url, acknowledged = mortal.new_database(), []
    database = PostgresDatabase(url)
    workload = database.commit_workload(MOD)
    is_done = threading.Event()

    def write() -> None:
        for number in range(300):
            database.commit_tuning_records([numbered(workload, number)])
            acknowledged.append(number)
        is_done.set()

    thread = threading.Thread(target=write)
    thread.start()
    for kills in range(3):
        while len(acknowledged) < 60 * (kills + 1):
            time.sleep(0.002)
        mortal.stop(signal.SIGKILL)
        mortal.start()
    thread.join()
    assert is_done.is_set()
    database.close()
    found = PostgresDatabase(url)
    records = found.get_all_tuning_records()
    assert sorted(int(r.extra["candidate_hash"], 16) for r in records) == list(range(300))
    found.close()


def test_readers_and_listeners_go_on_after_a_reconnect(mortal: PostgresServer) -> None:
    url = mortal.new_database()
    ours, theirs = PostgresDatabase(url), PostgresDatabase(url)
    workload, other = ours.commit_workload(MOD), ours.commit_workload(matmul(8, 8, 8))
    assert not ours.has_news(workload)
    mortal.stop(signal.SIGKILL)
    mortal.start()
    theirs.commit_tuning_record(a_record(theirs.commit_workload(MOD), 1.0))
    assert len(ours) == 1
    for each in (workload, other):
        assert ours.has_news(each)  # it may have missed some
        assert not ours.has_news(each)
    theirs.commit_tuning_record(a_record(theirs.commit_workload(MOD), 0.5))
    assert ours.has_news(workload)
    ours.close()
    theirs.close()


def test_a_server_that_stays_away(mortal: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    url = mortal.new_database()
    database = PostgresDatabase(url)
    database._server.patience = 0.2
    mortal.stop(signal.SIGKILL)
    try:
        expected = (
            rf"the connection to {re.escape(url)} was lost and did not come back within 0 s "
            r"\([^\n]+\); what was committed is kept, the same command goes on from there"
        )
        for use in (lambda: len(database), lambda: database.commit_workload(MOD)):
            with pytest.raises(DatabaseError, match=f"^{expected}$"):
                use()
        with pytest.raises(DatabaseError, match=f"^cannot open the database {re.escape(url)}: "):
            PostgresDatabase(url)
    finally:
        mortal.start()
    assert len(database) == 0
    database.close()


def test_a_transaction_of_the_caller_is_lost_as_a_whole(mortal: PostgresServer) -> None:
    database = PostgresDatabase(mortal.new_database())

    def commit_in_vain() -> None:
        with database.transaction():
            workload = database.commit_workload(MOD)
            database.commit_tuning_record(a_record(workload, 1.0))
            mortal.stop(signal.SIGKILL)
            mortal.start()
            database.commit_tuning_record(a_record(workload, 2.0))

    with pytest.raises(DatabaseError, match="cannot be used"):
        commit_in_vain()
    assert len(database) == 0
    assert not database.has_workload(MOD)
    database.commit_tuning_record(a_record(Workload(MOD, 0), 3.0))
    assert len(database) == 1
    database.close()


# --- texts, roles, versions ---------------------------------------------------------------------


def test_texts_that_postgres_does_not_take(url: str) -> None:
    database = PostgresDatabase(url)
    workload = database.commit_workload(MOD)
    failure = FailureKind.CRASH
    record = a_record(workload, FAILED_RUN_SECS, failure=failure, error_msg="zero \0, half \ud800")
    database.commit_tuning_record(record)
    (found,) = database.get_all_tuning_records()
    assert found.error_msg == "zero \ufffd, half ?"
    database.close()


def test_roles(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    name = url.split("/")[3].split("?")[0]
    admin = PostgresConnection(postgres.url())
    for role in ("reader", "tuner", "owner"):
        admin.rows(f"CREATE USER {name}_a_{role} IN ROLE {name}_{role}")
    admin.close()
    of = {role: postgres.url(name, f"{name}_a_{role}") for role in ("reader", "tuner", "owner")}
    tuner = PostgresDatabase(of["tuner"])
    workload = tuner.commit_workload(MOD)
    tuner.commit_tuning_records([a_record(workload, 1.0), a_record(workload, 2.0)])
    assert tuner.claim(workload, TARGET, [7]) == {7}
    with pytest.raises(DatabaseError, match="permission denied for table records; ask its owner"):
        tuner.keep_only([])
    tuner.close()
    reader = PostgresDatabase(of["reader"])
    assert [record.mean_secs for record in reader.get_top_k(workload, 1)] == [1.0]
    refusal = (
        f"the database {of['reader']} cannot be used: permission denied for table records; ask its "
        "owner for the role that may, of those that `tilewright db init` made"
    )
    with pytest.raises(DatabaseError, match=f"^{re.escape(refusal)}$"):
        reader.commit_tuning_record(a_record(workload, 3.0))
    reader.close()
    owner = PostgresDatabase(of["owner"])
    owner.keep_only([])
    assert len(owner) == 0
    owner.close()


def test_a_closed_database_stays_closed(url: str) -> None:
    database = PostgresDatabase(url)
    database.close()
    with pytest.raises(DatabaseError, match=f"^the database {re.escape(url)} was closed; open it"):
        len(database)


def test_read_only(url: str) -> None:
    database = open_database(url, read_only=True)
    with pytest.raises(DatabaseError, match=rf"^the database {re.escape(url)} was opened read-onl"):
        database.commit_workload(MOD)
    assert database.workloads() == []
    database.close()


def test_databases_without_tables_or_of_another_version(postgres: PostgresServer) -> None:
    url = postgres.new_database(is_empty=True)
    with pytest.raises(DatabaseError) as failure:
        PostgresDatabase(url)
    assert str(failure.value) == (
        f"{url} has no tables of Tilewright; `tilewright db init {url}` makes them"
    )
    store = PostgresConnection(url)
    assert postgres_schema.initialize(store, with_roles=False)
    assert not postgres_schema.initialize(store)
    for version, expected in (
        (99, "was written by a newer Tilewright: its schema is 99, this version"),
        (1, f"{url} has the older schema 1; its owner brings it up to date with `tilewright db up"),
    ):
        store.rows("UPDATE meta SET value = ?", (str(version),))
        with pytest.raises(DatabaseError, match=re.escape(expected)):
            PostgresDatabase(url)
    store.close()


def test_migrations_are_all_or_nothing(url: str) -> None:
    store = PostgresConnection(url)
    first, broken = ["ALTER TABLE records ADD COLUMN second TEXT"], ["SELECT no_such_thing"]
    with pytest.raises(DatabaseError, match='column "no_such_thing" does not exist'):
        postgres_schema.migrate(store, 5, {3: first, 4: broken})
    assert postgres_schema.version_of(store) == 3
    assert postgres_schema.migrate(store, 5, {3: first, 4: ["SELECT second FROM records"]}) == 3
    assert postgres_schema.version_of(store) == 5
    assert postgres_schema.migrate(store, 5, {}) == 5
    store.close()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@host:5/db?sslmode=require", "postgresql://me@host:5/db?sslmode=require"),
        ("postgresql:///db?host=/tmp&password=secret", "postgresql:///db?host=/tmp"),
        ("postgres://host/db?password=secret", "postgres://host/db"),
        ("records.db", "records.db"),
    ],
)  # fmt: skip
def test_passwords_are_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_a_url_that_leads_nowhere() -> None:
    pytest.importorskip("psycopg", reason="needs psycopg")
    with pytest.raises(DatabaseError) as failure:
        open_database("postgresql://me:secret@/db?host=/nowhere")
    text = str(failure.value)
    assert text.startswith("cannot open the database postgresql://me@/db?host=/nowhere: ")
    assert "secret" not in text
    assert "\n" not in text


def test_without_psycopg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(DatabaseError) as failure:
        open_database("postgresql://host/db")
    assert str(failure.value) == (
        "a PostgreSQL database needs the package psycopg: pip install 'tilewright[postgres]'"
    )


def test_an_upgrade_gives_roles_their_rights(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    store = PostgresConnection(url)
    store.rows("DROP TABLE events")
    store.rows("DROP INDEX records_by_task")
    store.rows("UPDATE meta SET value = '2' WHERE key = 'schema'")
    with pytest.raises(DatabaseError, match="has the older schema 2; its owner brings it up to da"):
        postgres_schema.initialize(store)
    assert upgrade_database(url) == (2, 3)
    assert upgrade_database(url) == (3, 3)
    ((name,),) = store.rows("SELECT current_database()")
    store.rows(f"CREATE USER {name}_b_tuner IN ROLE {name}_tuner")
    store.close()
    tuner = PostgresDatabase(postgres.url(name, f"{name}_b_tuner"))
    log = tuner.event_log()
    log.write("{}")
    log.close()
    assert [line for _, line in tuner.event_lines(0)] == ["{}"]
    tuner.close()

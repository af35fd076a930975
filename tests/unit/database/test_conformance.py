"""Every database passes the suite that we give to others."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tilewright.database import (
    Database,
    JSONDatabase,
    MemoryDatabase,
    PostgresDatabase,
    SQLiteDatabase,
)
from tilewright.testing.conformance import database as suite
from tilewright.testing.postgres_server import PostgresServer

Make = Callable[[Path], Database]
KINDS: dict[str, Make] = {
    "memory": lambda folder: MemoryDatabase(),
    "sqlite": lambda folder: SQLiteDatabase(folder / "records.db"),
    "json": lambda folder: JSONDatabase(work_dir=folder),
    "json-0.25": lambda folder: JSONDatabase(work_dir=folder, dialect="0.25"),
}
ON_DISK = ("sqlite", "json", "json-0.25")


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Path]:
    """A new directory at each step."""

    def made(number: int) -> Path:
        folder = tmp_path / str(number)
        folder.mkdir()
        return folder

    return map(made, itertools.count())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", suite.CHECKS)
def test_conformance(
    check: Callable[[suite.MakeDatabase], None], kind: str, folders: Iterator[Path]
) -> None:
    opened: list[Database] = []

    def make() -> Database:
        opened.append(KINDS[kind](next(folders)))
        return opened[-1]

    check(make)
    for database in opened:
        database.close()


@pytest.mark.parametrize("kind", ON_DISK)
@pytest.mark.parametrize("check", suite.PERSISTENCE_CHECKS)
def test_persistence(
    check: Callable[[suite.MakeDatabase], None], kind: str, tmp_path: Path
) -> None:
    check(lambda: KINDS[kind](tmp_path))


@pytest.mark.parametrize("check", [*suite.CHECKS, *suite.PERSISTENCE_CHECKS])
def test_postgres(check: Callable[[suite.MakeDatabase], None], postgres: PostgresServer) -> None:
    opened: list[Database] = []
    urls = itertools.repeat(postgres.new_database())  # databases of one check may share a server

    def make() -> Database:
        opened.append(PostgresDatabase(next(urls)))
        return opened[-1]

    check(make)
    for database in opened:
        database.close()

"""Options of several commands: targets, the database."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilewright.cli.arguments import DEFAULT_DATABASE
from tilewright.codegen.module_info import why_unrunnable
from tilewright.database import Database, open_database
from tilewright.database.postgres_connection import without_password
from tilewright.driver import compile_only
from tilewright.errors import DatabaseError, TargetError, TuneError
from tilewright.runtime.devices import cuda
from tilewright.script import from_source
from tilewright.support.files import make_folder
from tilewright.support.text import counted
from tilewright.target import Target

_NOTHING = """
@T.prim_func
def nothing(a: T.Buffer((1,), "int8")):
    a[0] = T.int8(0)
"""


def runnable_target(text: str) -> Target:
    """A target whose code this machine can run; measuring needs one."""
    target = Target(text)
    if target.kind.name == "cuda":
        reason = cuda(0).why_missing
    else:
        reason = why_unrunnable(compile_only(from_source(_NOTHING), target).info)
    if reason:
        raise TargetError(f"--target {text}: its code cannot run here: {reason}")
    return target


def refuse_model_options(given: Sequence[str]) -> None:
    """Say that options of models were given for programs, instead of ignoring them."""
    if given:
        raise TuneError(f"{given[0]} is for models, and this is a program; leave it out")


def buildable_target(text: str) -> Target:
    """A target for which models can be built here; for GPUs, that is possible without one."""
    target = Target(text)
    return target if target.kind.name == "cuda" else runnable_target(text)


def database_url(given: str | None) -> str:
    """The database that an option names, or the one of the current directory, for people."""
    return str(DEFAULT_DATABASE) if given is None else without_password(given)


def has_database(given: str | None) -> bool:
    """True unless none is named and this directory has none yet."""
    return given is not None or DEFAULT_DATABASE.exists()


def database_line(url: str, database: Database) -> str:
    """What a command that adds to a database says first."""
    known = f", {counted(len(database), 'record')} so far" if len(database) else ""
    return f"database {url}{known}"


@contextlib.contextmanager
def writing(given: str | None) -> Iterator[Database]:
    """A database to add to; one that is missing is made."""
    if given is None:
        make_folder(DEFAULT_DATABASE.parent)
    else:
        _require_folder(given)
    with contextlib.closing(open_database(given or DEFAULT_DATABASE)) as database:
        yield database


def _require_folder(given: str) -> None:
    """A directory that is missing is more likely a slip than a wish."""
    kind, _, rest = given.rpartition(":")
    if kind in ("", "sqlite", "json"):
        folder = Path(rest.removeprefix("///")).parent
        if not folder.is_dir():
            raise DatabaseError(f"--db {given}: there is no directory {folder}; create it first")


@contextlib.contextmanager
def reading(given: str | None) -> Iterator[Database]:
    """A database that must exist and stays as it is."""
    if not has_database(given):
        raise DatabaseError(
            f"there is no database {DEFAULT_DATABASE} here; `tilewright tune` creates one, "
            "--db names another"
        )
    with contextlib.closing(open_database(given or DEFAULT_DATABASE, read_only=True)) as database:
        yield database

"""What options mean: budgets, targets, the database."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from tilewright.cli.arguments import DEFAULT_DATABASE
from tilewright.database import Database, open_database
from tilewright.driver import compile_only
from tilewright.errors import DatabaseError, TargetError, TuneError
from tilewright.runtime.module_info import why_unrunnable
from tilewright.script import from_source
from tilewright.support.folders import make_folder
from tilewright.target import Target

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_BUDGET = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")


def parse_budget(text: str) -> float:
    """Seconds of `90s`, `10m`, `1h30m`; a number alone counts seconds."""
    if re.fullmatch(r"\d+(?:\.\d+)?", text):
        seconds = float(text)
    elif re.fullmatch(f"(?:{_BUDGET.pattern})+", text):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _BUDGET.findall(text))
    else:
        raise TuneError(f"--budget {text}: expected a time such as 90s, 10m or 1h30m")
    if seconds <= 0:
        raise TuneError(f"--budget {text}: expected more than nothing")
    return seconds


_NOTHING = """
@T.prim_func
def nothing(a: T.Buffer((1,), "int8")):
    a[0] = T.int8(0)
"""


def parse_target(text: str) -> Target:
    """The target that an option names."""
    return Target(text)


def runnable_target(text: str) -> Target:
    """A target whose code this machine can run; measuring needs one."""
    target = parse_target(text)
    if not target.is_cpu:
        raise TargetError(f"--target {text}: candidates are built and run on CPUs so far")
    reason = why_unrunnable(compile_only(from_source(_NOTHING), target).info)
    if reason:
        raise TargetError(f"--target {text}: candidates could not be measured here: {reason}")
    return target


def database_url(given: str | None) -> str:
    """The database that an option names, or the one of the current directory."""
    return str(DEFAULT_DATABASE) if given is None else given


@contextlib.contextmanager
def writing(given: str | None) -> Iterator[Database]:
    """A database to add to; one that is missing is made."""
    if given is None:
        make_folder(DEFAULT_DATABASE.parent)
    else:
        _require_folder(given)
    with contextlib.closing(open_database(database_url(given))) as database:
        yield database


def _require_folder(given: str) -> None:
    """A directory that is missing is more likely a slip than a wish."""
    kind, _, rest = given.rpartition(":")
    if kind in ("", "sqlite", "json"):
        folder = Path(rest.removeprefix("///")).parent
        if not folder.is_dir():
            raise DatabaseError(f"--db {given}: there is no directory {folder}; make it first")


@contextlib.contextmanager
def reading(given: str | None) -> Iterator[Database]:
    """A database that must exist and stays as it is."""
    if given is None and not DEFAULT_DATABASE.exists():
        raise DatabaseError(
            f"there is no database {DEFAULT_DATABASE} here; `tilewright tune` makes one, "
            "--db names another"
        )
    with contextlib.closing(open_database(database_url(given), read_only=True)) as database:
        yield database

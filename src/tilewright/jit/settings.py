"""The options of `compile`, checked."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from tilewright.database import Database, MemoryDatabase, open_database
from tilewright.errors import ArgumentError, TuneError
from tilewright.support.suggestions import did_you_mean
from tilewright.target import Target
from tilewright.tune import tune_tir
from tilewright.tune.budget import parse_seconds

TuneLike: TypeAlias = bool | int | str | Mapping[str, object] | None
DatabaseLike: TypeAlias = Database | str | Path | None
TargetLike: TypeAlias = str | dict[str, object] | Target | None

SPECIALIZED_SIZES = 8
_DEFAULT_TUNING = {"max_trials_global": 64, "budget_secs": 60.0}
# What `compile` itself says to the tuner.
_OWN = {"mod", "target", "database", "work_dir"}


@dataclass(frozen=True)
class CompileSettings:
    """How programs are compiled."""

    target: Target
    tuning: Mapping[str, object] | None = None  # options of `tune_tir`; None: without a search
    database: Database | str | None = None  # one that is given by its path is opened when needed
    max_sizes: int = SPECIALIZED_SIZES  # that get a kernel of their own
    inplace: bool = False
    _memory: MemoryDatabase = field(default_factory=MemoryDatabase)

    @contextmanager
    def records(self, *, writing: bool) -> Iterator[Database]:
        """The database to ask, and to tune into."""
        if isinstance(self.database, str):
            with closing(open_database(self.database, read_only=not writing)) as database:
                yield database
            return
        current = Database.current() if self.database is None else self.database
        yield self._memory if current is None else current

    def __deepcopy__(self, memo: object) -> CompileSettings:
        return self

    def __getstate__(self) -> dict[str, object]:
        """An open database stays here; what was chosen from it travels with the functions."""
        path = self.database if isinstance(self.database, str) else None
        return {**vars(self), "database": path, "_memory": MemoryDatabase()}


def parse_tuning(given: TuneLike) -> Mapping[str, object] | None:
    """The options of the tuner behind `tune=`; None: no search."""
    options: dict[str, object]
    match given:
        case None | False:
            return None
        case True:
            options = dict(_DEFAULT_TUNING)
        case int() if given > 0:
            options = {"max_trials_global": given}
        case str():
            options = {"budget_secs": parse_seconds(given, "tune")}
        case Mapping():
            options = dict(given)
            _check_names(options)
        case _:
            raise TuneError(
                f"tune={given!r}: expected a number of trials, a time such as '10s', True, or a "
                "dictionary of options for tune_tir"
            )
    return {"console": False, **options}


def _check_names(options: Mapping[str, object]) -> None:
    known = [name for name in inspect.signature(tune_tir).parameters if name not in _OWN]
    for name in options:
        if name in _OWN:
            raise TuneError(f"tune={{{name!r}: ...}}: give {name} to compile() itself")
        if name not in known:
            hint = did_you_mean(name, known)
            raise TuneError(f"tune={{{name!r}: ...}}: tune_tir has no such option{hint}")


def number_of_sizes(specialize: bool | int) -> int:
    """How many sizes get a kernel of their own."""
    if isinstance(specialize, bool):
        return SPECIALIZED_SIZES if specialize else 0
    if specialize < 0:
        raise ArgumentError(
            f"specialize={specialize!r}: expected True, False, or the number of sizes that get a "
            "kernel of their own"
        )
    return specialize

"""Chooses the schedule of a program as the options of `compile` say, and remembers it.

In this order: the one that was chosen before (it travels with a pickled function), the best that a
database knows, the one that a search finds, the one that is calculated without a search.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from tilewright.database import Database, MemoryDatabase, open_database
from tilewright.errors import ArgumentError, TilewrightError, TuneError
from tilewright.ir import For, ForKind, IRModule, PrimFunc, nodes_of, replace
from tilewright.records import normalize_mod
from tilewright.schedule import Schedule, Trace
from tilewright.space.layout_free import has_bound_weights
from tilewright.support.suggestions import did_you_mean
from tilewright.target import Target
from tilewright.tune import default_schedule, tune_tir
from tilewright.tune.budget import parse_seconds
from tilewright.tune.checks import why_not_tuned

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


logger = logging.getLogger("tilewright.jit")

# A function by its name, the sizes it is compiled for (none: all), and whether weights are bound.
Key = tuple[str, tuple[int, ...], bool]


class Schedules:
    """The schedules of the functions of a program."""

    def __init__(self, settings: CompileSettings, *, keeps_schedule: bool = False) -> None:
        self.settings = settings
        self._keeps_schedule = keeps_schedule
        self._traces: dict[Key, object] = {}  # as JSON

    def scheduled(self, module: IRModule, sizes: tuple[int, ...]) -> IRModule:
        """A module of which each function has its schedule."""
        functions = {
            name: self._scheduled(func, (name, sizes, has_bound_weights(func)))
            for name, func in module.functions.items()
        }
        return IRModule(functions, module.attrs)

    def tune(self, module: IRModule, sizes: tuple[int, ...], options: Mapping[str, object]) -> None:
        """Search for better schedules, and choose the best that are known then."""
        with self.settings.records(writing=True) as database:
            for name, func in module.functions.items():
                self._search(database, name, func, options)
                found = self._known(database, name, func)
                if found is not None:
                    self._remember((name, sizes, has_bound_weights(func)), found)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "machine": self._target.fingerprint}

    def __setstate__(self, state: dict[str, object]) -> None:
        """A schedule for one machine may be wrong for another, which then chooses its own."""
        machine = state.pop("machine")
        self.__dict__.update(state)
        if machine != self._target.fingerprint:
            self._traces = {}

    def _scheduled(self, func: PrimFunc, key: Key) -> PrimFunc:
        sch = self._replayed(func, key)
        if sch is None:
            # Is the schedule that the function was written with the one it shall have?
            if self._keeps_schedule or (self.settings.tuning is None and is_scheduled(func)):
                return func
            sch = self._chosen(func, key[0])
            self._remember(key, sch)
        return replace(sch.mod["main"], attrs=func.attrs)

    def _chosen(self, func: PrimFunc, name: str) -> Schedule:
        tuning = self.settings.tuning
        with self.settings.records(writing=tuning is not None) as database:
            found = self._known(database, name, func)
            if found is None and tuning is not None:
                self._search(database, name, func, tuning)
                found = self._known(database, name, func)
        return default_schedule(func, self._target) if found is None else found

    def _known(self, database: Database, name: str, func: PrimFunc) -> Schedule | None:
        return database.schedule_for(normalize_mod(func), self._target, name)

    def _search(
        self, database: Database, name: str, func: PrimFunc, options: Mapping[str, Any]
    ) -> None:
        refusal = why_not_tuned(name, func)
        if refusal is None:
            tune_tir(func, self._target, database=database, **options)
        else:
            logger.warning("%s", refusal.reason)

    @property
    def _target(self) -> Target:
        return self.settings.target

    def _remember(self, key: Key, sch: Schedule) -> None:
        if sch.trace is not None:
            self._traces[key] = sch.trace.as_json()

    def _replayed(self, func: PrimFunc, key: Key) -> Schedule | None:
        known = self._traces.get(key)
        if known is None:
            return None
        sch = Schedule(normalize_mod(func))
        try:
            Trace.from_json(known).apply_to_schedule(sch, remove_postproc=False)
        except TilewrightError as error:
            logger.warning("the schedule of %s() cannot be repeated: %s", key[0], error)
            return None
        return sch


def is_scheduled(func: PrimFunc) -> bool:
    """True if somebody has said how the loops of a program run: in parallel, say."""
    return any(loop.kind is not ForKind.SERIAL for loop in nodes_of(func, For))

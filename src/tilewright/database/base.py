"""`Database`: the contract of all databases of tuning records."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar

from typing_extensions import Self

from tilewright.database import similarity
from tilewright.database.anchor_trace import schedule_using_anchor_trace
from tilewright.database.compatibility import fit_of_record
from tilewright.database.history import History
from tilewright.database.module_equality import without_constants
from tilewright.database.record_check import complaint_about, unsafe_step
from tilewright.database.stored_record import Problem
from tilewright.database.task_queries import ListedTasks, TaskQueries
from tilewright.driver import schedules_from
from tilewright.errors import DatabaseError, TilewrightError
from tilewright.ir import IRModule, PrimFunc, replace, structural_equal
from tilewright.records import FailureKind, TuningRecord, Workload, normalize_mod
from tilewright.schedule import Schedule
from tilewright.space.layout_free import other_way_to_call
from tilewright.support.plugins import Family
from tilewright.support.text import printable
from tilewright.target import Target

logger = logging.getLogger("tilewright.database")

ALL = 2**31  # a `top_k` that no workload exceeds
BATCH = 1000  # records that are moved together

# Failures that another run, or one with other limits, may not have.
_TRANSIENT = {FailureKind.TIMEOUT, FailureKind.OUT_OF_MEMORY, FailureKind.CRASH}

_HOW_TO_ALLOW = "open the database with allow_unsafe=True if you trust its author"

_T = TypeVar("_T")
_scopes: contextvars.ContextVar[tuple[Database, ...]] = contextvars.ContextVar(
    "tilewright_database_scopes", default=()
)


class NotSupportedError(DatabaseError, NotImplementedError):
    """An operation that this kind of database cannot carry out."""


class EventLog(Protocol):
    """Takes lines and keeps them; nobody waits for that."""

    def write(self, line: str) -> None:
        """Take a line."""

    def close(self) -> None:
        """No more lines will come."""


@dataclass(eq=False)
class TaskRecords:
    """The records of one program that say something about a machine, for a search of it."""

    source: Database
    workload: Workload
    target: Target | None
    _fastest: list[TuningRecord] = field(default_factory=list)  # of all machines
    _asked: int = 0  # how many of them were asked for
    _is_told: bool = False  # whoever commits records tells them here, too

    @cached_property
    def earlier(self) -> list[TuningRecord]:
        """All that there were when they were first asked for, failed ones too."""
        return self._fitting(self.source.get_tuning_records_of(self.workload))

    def best(self, count: int) -> list[TuningRecord]:
        """The fastest, at most `count`, fastest first."""
        if self.source.has_news(self.workload) or not self._is_told or count > self._asked:
            self._fastest = self.source.get_top_k(self.workload, count)
            self._asked = count
        return self._fitting(self._fastest[:count])

    def add(self, committed: Iterable[TuningRecord]) -> None:
        """Take note of records that the database has now, so that it need not be asked for them."""
        valid = [record for record in committed if record.is_valid]
        self._fastest = sorted([*self._fastest, *valid], key=speed_order)[: self._asked]
        self._is_told = True

    def claim(self, programs: Iterable[int]) -> set[int]:
        """Of programs about to be measured, by hash, those that nobody else measures."""
        return self.source.claim(self.workload, self.target, programs)

    def _fitting(self, records: list[TuningRecord]) -> list[TuningRecord]:
        return [record for record in records if record.is_for(self.target)]


class Database(ABC):
    """Workloads and what was measured of them. `with database:` makes it the current one.

    `allows_unsafe`: records are used as they are, with steps called `unsafe_*` and unchecked.
    """

    allows_unsafe: bool = False

    @abstractmethod
    def has_workload(self, mod: IRModule) -> bool:
        """True if the program is known."""

    @abstractmethod
    def commit_workload(self, mod: IRModule) -> Workload:
        """The workload of a program, added if it is new."""

    @abstractmethod
    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Keep a record. It is safe on disk when the call returns, if the database is on disk."""

    @abstractmethod
    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        """The fastest valid records of a workload, fastest first."""

    @abstractmethod
    def get_all_tuning_records(self) -> list[TuningRecord]:
        """All records, failed ones too."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of records."""

    def record_batches(self, size: int = BATCH) -> Iterator[list[TuningRecord]]:
        """All records in the same order, some at a time; databases on disk read them that way."""
        records = self.get_all_tuning_records()
        for start in range(0, len(records), size):
            yield records[start : start + size]

    def get_tuning_records_of(self, workload: Workload) -> list[TuningRecord]:
        """All records of a workload, failed ones too, in the order of `get_all_tuning_records`."""
        own = self.commit_workload(workload.mod) if self.has_workload(workload.mod) else None
        return [record for record in self.get_all_tuning_records() if record.workload is own]

    def task_records(self, mod: IRModule, target: Target | None) -> TaskRecords:
        """The records of a program that say something about a machine, as a search takes them."""
        return TaskRecords(self, self.commit_workload(mod), target)

    # --- among other tuners -----------------------------------------------------------------

    def has_news(self, workload: Workload) -> bool:
        """Whether somebody else has added usable records of it since this was last asked.

        Databases for one process at a time never say so.
        """
        return False

    def stamp(self) -> object:
        """A value that is another one after somebody has committed something."""
        runs = self.history.runs()
        return len(self), [(run.id, run.status) for run in runs]

    def wait_for_news(self, secs: float) -> None:
        """Wait until somebody may have committed something, or for so long."""
        time.sleep(secs)

    def event_log(self) -> EventLog | None:
        """Where a tuner writes down what it does now, for who looks on; None: nowhere."""
        return None

    def event_lines(self, after: int) -> list[tuple[int, str]]:
        """The events after a number, with their numbers; perhaps only the first of them."""
        return []

    def claim(self, workload: Workload, target: Target | None, programs: Iterable[int]) -> set[int]:
        """Of programs about to be measured for a target, by hash, those that are left to us.

        Somebody else measures the others now, or has measured them. A claim holds for some time.
        """
        return set(programs)

    # --- committing many --------------------------------------------------------------------

    def commit_tuning_records(self, records: Iterable[TuningRecord]) -> int:
        """Keep records, all or none where the database can; how many of them were new."""
        before = len(self)
        with self.transaction():
            for record in records:
                self.commit_tuning_record(record)
        return len(self) - before

    def transaction(self) -> AbstractContextManager[None]:
        """Everything that is committed inside becomes visible and durable together, or not at all.

        Databases that cannot do that commit one thing after the other.
        """
        return contextlib.nullcontext()

    def atomically(self, work: Callable[[], _T]) -> _T:
        """What a function returns that commits things, in one transaction.

        A database on a server calls it again after a lost connection, so it does nothing else.
        """
        with self.transaction():
            return work()

    def correct_record(self, record: TuningRecord, corrected: TuningRecord) -> bool:
        """Put another record, with the same trace, in the place of one of this database.

        False if this kind of database never changes what it has written.
        """
        return False

    # --- queries ----------------------------------------------------------------------------

    def workloads(self) -> list[Workload]:
        """All known workloads."""
        return list(dict.fromkeys(record.workload for record in self.get_all_tuning_records()))

    def valid_records(self, mod: IRModule) -> list[TuningRecord]:
        """The valid records of a program, whatever their target, fastest first."""
        return self.get_top_k(self.commit_workload(mod), ALL) if self.has_workload(mod) else []

    def targets_of(self, mod: IRModule) -> list[str]:
        """The targets that a program was tuned for, as texts."""
        return sorted({str(record.target) for record in self.valid_records(mod)})

    def fitting_records(
        self, mod: IRModule, target: Target, workload_name: str = "main"
    ) -> Iterator[TuningRecord]:
        """The valid records of a program that may be used for a target, the best first.

        Records of the very same target come first, then those of compatible ones.
        """
        records = self.valid_records(mod)
        fits = [(fit_of_record(record, target), record) for record in records]
        ranked = sorted((fit, place) for place, (fit, _) in enumerate(fits) if fit is not None)
        for _, place in ranked:
            yield fits[place][1]

    def query_tuning_record(
        self, mod: IRModule, target: Target, workload_name: str = "main"
    ) -> TuningRecord | None:
        """The fastest record of a program that fits the target.

        Where it has none, one of the same program serves whose weights are bound, or not bound.
        """
        ways = (self.fitting_records(way, target, workload_name) for way in _ways_to_call(mod))
        return next((record for records in ways for record in records), None)

    def query_schedule(
        self, mod: IRModule, target: Target, workload_name: str = "main"
    ) -> Schedule | None:
        """The schedule of the fastest record that fits the target and can be replayed."""
        record = self.query_tuning_record(mod, target, workload_name)
        if record is None:
            return None
        found = self._usable(record, target)
        if found is not None:
            return found
        others = self.fitting_records(record.workload.mod, target, workload_name)
        return next(filter(None, (self._usable(other, target) for other in others)), None)

    def _usable(self, record: TuningRecord, target: Target) -> Schedule | None:
        """The schedule of a record; None, with a warning, if it must not be used here."""
        try:
            step = None if self.allows_unsafe else unsafe_step(record)
            sch = record.as_measure_candidate().sch
        except TilewrightError as error:
            told = printable(str(error), "\n")
            logger.warning("a record was skipped because its trace cannot be replayed: %s", told)
            return None
        complaint = ""
        if step is not None:
            complaint = f"it has the step {step}, which may change results; {_HOW_TO_ALLOW}"
        elif not self.allows_unsafe:
            complaint = complaint_about(record, sch.mod, target)
        if complaint:
            logger.warning("a record was skipped: %s", printable(complaint, "\n"))
        return None if complaint else sch

    def query_ir_module(
        self, mod: IRModule, target: Target, workload_name: str = "main"
    ) -> IRModule | None:
        """The program as the fastest record that fits the target makes it."""
        sch = self.query_schedule(mod, target, workload_name)
        return None if sch is None else sch.mod

    def schedule_for(self, mod: IRModule, target: Target, workload_name: str) -> Schedule | None:
        """The best schedule, of this very program.

        `query_schedule` gives that of the stored program, which may only count as equal.
        """
        record = self.query_tuning_record(mod, target, workload_name)
        ways = _ways_to_call(mod)
        if record is None or any(structural_equal(way, record.workload.mod) for way in ways):
            return self.query_schedule(mod, target, workload_name)
        adapted = _adapted(record, mod, target)
        return None if adapted is None else self._usable(adapted, target)

    def query(
        self, mod: IRModule, target: Target, *, workload_name: str = "main", kind: str = "schedule"
    ) -> Schedule | TuningRecord | IRModule | None:
        """One of the three queries by name."""
        match kind:
            case "schedule":
                return self.query_schedule(mod, target, workload_name)
            case "record":
                return self.query_tuning_record(mod, target, workload_name)
            case "ir_module":
                return self.query_ir_module(mod, target, workload_name)
        raise DatabaseError(
            f"unknown kind of query {kind!r}; use 'schedule', 'record' or 'ir_module'"
        )

    def nearest_workload(self, mod: IRModule) -> similarity.Similar | None:
        """The known workload that comes nearest to a program, and how the two differ."""
        return similarity.nearest(mod, self.workloads())

    def explain_miss(self, mod: IRModule, target: Target) -> str:
        """Why a query for a program finds nothing, in one sentence for the user."""
        name = similarity.describe(mod)
        if self.has_workload(mod):
            known = self.targets_of(mod)
            if known:
                return f"{name} was tuned, but for other targets than {target}: {'; '.join(known)}"
            return f"{name} is known, but {self._why_none_worked(mod)}"
        near = self.nearest_workload(mod)
        if near is not None:
            return f"{name} is not in the database: {near.difference}"
        return f"{name} is not in the database, and nothing like it"

    def _why_none_worked(self, mod: IRModule) -> str:
        """What became of the candidates of a program, and whether tuning it again can help."""
        records = self.get_tuning_records_of(self.commit_workload(mod))
        causes = Counter(record.failure for record in records if record.failure is not None)
        if not causes:
            return "no candidate of it was measured; `tilewright space why` says what there is"
        told = ", ".join(f"{number} {cause.value}" for cause, number in causes.most_common())
        again = "; tune it again, with more time or memory" if causes.keys() & _TRANSIENT else ""
        return f"none of its candidates worked ({told}){again}"

    # --- what the tuner keeps beside records ------------------------------------------------

    def save_state(self, key: str, value: object) -> None:
        """Keep a value made of plain JSON types. Databases on disk keep it there."""
        self.__dict__.setdefault("_states", {})[key] = value

    def load_state(self, key: str) -> object:
        """A value that was saved; None if there is none."""
        return self.__dict__.get("_states", {}).get(key)

    @cached_property
    def history(self) -> History:
        """Runs and trials, for reports."""
        return History()

    @cached_property
    def tasks(self) -> TaskQueries:
        """Questions about tasks that need not read all records."""
        return ListedTasks(self._records_as_kept)

    def _records_as_kept(self) -> list[TuningRecord]:
        """All records in the order in which they were committed."""
        return self.get_all_tuning_records()

    def problems(self) -> list[Problem]:
        """Rows that cannot be read. Asking looks at all of them."""
        return []

    def dump_pruned(self, destination: Database) -> None:
        """Copy the best valid record of each workload and target to another database."""
        valid = (record for record in self.get_all_tuning_records() if record.is_valid)
        groups = by_task(valid).values()
        destination.commit_tuning_records(min(group, key=speed_order) for group in groups)

    def keep_only(self, records: Iterable[TuningRecord]) -> None:
        """Forget all records but these, which are from this database."""
        raise NotSupportedError(f"{type(self).__name__} cannot forget records")

    def close(self) -> None:  # noqa: B027 - most databases hold no files
        """Let go of files. A closed database must not be used any more."""

    # --- scope and creation -----------------------------------------------------------------

    def __enter__(self) -> Self:
        _scopes.set((*_scopes.get(), self))
        scope = schedules_from(self.scheduled)
        scope.__enter__()
        self.__dict__.setdefault("_build_scopes", []).append(scope)
        return self

    def __exit__(self, *exc: object) -> None:
        _scopes.set(_scopes.get()[:-1])
        self.__dict__["_build_scopes"].pop().__exit__(None, None, None)

    def scheduled(self, mod: IRModule, target: Target) -> IRModule:
        """A module whose functions have the best schedules known here.

        A function that is not known gets a schedule without a search, and a warning says so.
        """
        functions = {
            name: self._scheduled_function(name, func, target)
            for name, func in mod.functions.items()
        }
        return IRModule(functions, mod.attrs)

    def _scheduled_function(self, name: str, func: PrimFunc, target: Target) -> PrimFunc:
        alone = normalize_mod(func)
        # A task made of a module is stored as it was given.
        ways = (alone, IRModule({"main": func}))
        found = next(filter(None, (self.schedule_for(way, target, name) for way in ways)), None)
        if found is None and "default" in fallback_schedules:
            why = self.explain_miss(alone, target)
            logger.warning("%s; it gets a schedule without a search", why)
            found = fallback_schedules.create("default", alone, target)
        return func if found is None else replace(found.mod["main"], attrs=func.attrs)

    @staticmethod
    def current() -> Database | None:
        """The database of the innermost `with` scope."""
        scopes = _scopes.get()
        return scopes[-1] if scopes else None

    @staticmethod
    def create(
        kind: str | Database | Callable[[Schedule], bool] = "sqlite",
        *args: object,
        **kwargs: object,
    ) -> Database:
        """A database by the name of its kind; a function becomes a `ScheduleFnDatabase`."""
        if isinstance(kind, Database):
            return kind
        if callable(kind):
            kind, args = "schedule_fn", (kind, *args)
        return databases.create(kind, *args, **kwargs)


databases: Family[Database] = Family("database", "tilewright.database")
# What schedules a program that no database knows; (mod, target) -> Schedule.
fallback_schedules: Family[Schedule] = Family("fallback schedule", "tilewright.fallback_schedule")


def by_task(records: Iterable[TuningRecord]) -> dict[tuple[Workload, str], list[TuningRecord]]:
    """Records by workload and target, in the order in which they come."""
    groups: dict[tuple[Workload, str], list[TuningRecord]] = {}
    for record in records:
        groups.setdefault((record.workload, str(record.target)), []).append(record)
    return groups


def speed_order(record: TuningRecord) -> float:
    """A key that sorts records, the fastest first."""
    return record.mean_secs


def _ways_to_call(mod: IRModule) -> Iterator[IRModule]:
    """A program, and the same with its weights bound, or not bound any more."""
    yield mod
    for name, func in mod.functions.items():
        other = other_way_to_call(func)
        if other is not None:
            yield mod.with_function(name, other)


def _adapted(record: TuningRecord, mod: IRModule, target: Target) -> TuningRecord | None:
    """A record of another program as one of this; None if it does not fit, which is common."""
    sch = Schedule(mod)
    try:
        if structural_equal(without_constants(mod), without_constants(record.workload.mod)):
            record.trace.apply_to_schedule(sch, remove_postproc=False)
        else:
            schedule_using_anchor_trace(sch, record.trace, target)
    except TilewrightError as error:
        told = printable(str(error), "\n")
        logger.info("a record of a program that counts as equal does not fit: %s", told)
        return None
    assert sch.trace is not None
    return TuningRecord(sch.trace, Workload(mod), record.run_secs, record.target)


def check_top_k(top_k: int) -> None:
    """A number of records cannot be negative."""
    if top_k < 0:
        raise DatabaseError(f"top_k must not be negative, got {top_k}")

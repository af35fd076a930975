"""Schedules for the kernels of a model: from a database where it has one, calculated where not.

A record serves the program that it was measured for. One of a program with the same anchor block,
its heaviest reduction, serves, too: what stands around that block is computed where it can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tilewright import ir
from tilewright.database import Database, MemoryDatabase
from tilewright.database.record_ids import record_id
from tilewright.records import ZERO_SEARCH, TuningRecord
from tilewright.runtime.module import Module
from tilewright.space.layout_free import other_way_to_call
from tilewright.target import Target
from tilewright.tune.context import normalize_mod
from tilewright.tune.fallback import default_schedule


class Match(str, Enum):
    """How a record fits the program that it serves."""

    EXACT = "exact"
    ANCHOR = "anchor block"
    NONE = "none"  # there is no record: the schedule is calculated


@dataclass(frozen=True)
class KernelOrigin:
    """Where the schedule of a kernel comes from."""

    match: Match = Match.NONE
    record: TuningRecord | None = None
    note: str = ""

    @property
    def record_name(self) -> str:
        """The id of the record, as `tilewright db` and `tilewright show` know it."""
        return "" if self.record is None else record_id(self.record)

    @property
    def seconds(self) -> float | None:
        """What the record took when it was measured."""
        return None if self.record is None else self.record.mean_secs


CALCULATED = KernelOrigin()


@dataclass(frozen=True)
class ScheduledKernel:
    """A scheduled program, where its schedule comes from, and its code if somebody made it."""

    mod: ir.IRModule
    origin: KernelOrigin = CALCULATED
    code: Module | None = None


Scheduler = Callable[[ir.PrimFunc, Target], "ir.IRModule | ScheduledKernel"]


def without_search(func: ir.PrimFunc, target: Target) -> ScheduledKernel:
    """The schedule that calculation alone chooses."""
    return ScheduledKernel(default_schedule(func, target).mod)


def from_database(database: Database, otherwise: Scheduler | None = None) -> Scheduler:
    """The best schedules that a database knows; calculated ones where it knows none."""
    return FromDatabase(database, otherwise or calculating(database))


class FromDatabase:
    """Finds the schedules of programs among records: their own, or of the same anchor block."""

    def __init__(self, database: Database, otherwise: Scheduler) -> None:
        self._database = database
        self._otherwise = otherwise
        self._by_anchor: dict[str, Database] = {}  # by the fingerprint of the target

    def __call__(self, func: ir.PrimFunc, target: Target) -> ScheduledKernel:
        return self.known(func, target) or schedule_of(self._otherwise(func, target))

    def known(self, func: ir.PrimFunc, target: Target) -> ScheduledKernel | None:
        """What the database has for a program, if anything."""
        mod = normalize_mod(func)
        record = self._database.query_tuning_record(mod, target, "main")
        if record is not None and is_beaten(self._database, record, target):
            note = f"faster in the model than record {record_id(record)}"
            made = schedule_of(self._otherwise(func, target)).mod
            return ScheduledKernel(made, KernelOrigin(note=note))
        return _served(self._database, mod, target) or self._like_another(mod, target)

    def _like_another(self, mod: ir.IRModule, target: Target) -> ScheduledKernel | None:
        """By the record of a program with the same anchor block."""
        key = target.fingerprint
        if key not in self._by_anchor:
            self._by_anchor[key] = _best_by_anchor(self._database, target)
        return _served(self._by_anchor[key], mod, target)


def _served(database: Database, mod: ir.IRModule, target: Target) -> ScheduledKernel | None:
    record = database.query_tuning_record(mod, target, "main")
    sch = None if record is None else database.schedule_for(mod, target, "main")
    if record is None or sch is None:
        return None
    match = Match.EXACT if _is_of(record, mod) else Match.ANCHOR
    return ScheduledKernel(sch.mod, KernelOrigin(match, record))


def _is_of(record: TuningRecord, mod: ir.IRModule) -> bool:
    other = other_way_to_call(mod["main"])
    ways = [mod] if other is None else [mod, mod.with_function("main", other)]
    return any(ir.structural_equal(way, record.workload.mod) for way in ways)


def _best_by_anchor(database: Database, target: Target) -> Database:
    """The best record of each program, found by the anchor blocks of the programs."""
    view = MemoryDatabase("anchor-block")
    view.allows_unsafe = database.allows_unsafe
    for workload in database.workloads():
        best = next(database.fitting_records(workload.mod, target), None)
        if best is not None:
            view.commit_workload(workload.mod)
            view.commit_tuning_record(best)
    return view


def calculating(database: Database) -> Scheduler:
    """Schedules that need no search."""
    return lambda func, target: calculated(func, target, database)


def calculated(func: ir.PrimFunc, target: Target, database: Database) -> ScheduledKernel:
    """The schedule that needs no search; a database in which it was measured has it already."""
    return known_without_search(func, target, database) or without_search(func, target)


def known_without_search(
    func: ir.PrimFunc, target: Target, database: Database
) -> ScheduledKernel | None:
    """The schedule that needs no search, of a database in which it was measured."""
    records = database.fitting_records(normalize_mod(func), target)
    known = next((record for record in records if record.baseline == ZERO_SEARCH), None)
    candidate = None if known is None else known.as_candidate_or_none()
    return None if candidate is None else ScheduledKernel(candidate.sch.mod)


# --- records that lose against calculation ------------------------------------------------------


def is_beaten(database: Database, record: TuningRecord, target: Target) -> bool:
    """True if the calculated schedule was faster than this record, both measured inside a model."""
    if record.baseline == ZERO_SEARCH:
        return False
    return database.load_state(_beaten_key(record, target)) == record_id(record)


def note_beaten(database: Database, record: TuningRecord, target: Target) -> None:
    """From now on models have the calculated schedule, until there is a better record."""
    database.save_state(_beaten_key(record, target), record_id(record))


def note_lost(database: Database, record: TuningRecord, target: Target) -> None:
    """From now on models compute in another way what the program of a record computes."""
    database.save_state(_lost_key(record, target), True)


def served_secs(database: Database, func: ir.PrimFunc, target: Target) -> float | None:
    """Seconds that a program takes with what a database has for it; None if it has nothing.

    Infinite for a way to compute something that lost against another one, inside of a model.
    """
    records = list(database.fitting_records(normalize_mod(func), target))
    if not records:
        record = database.query_tuning_record(normalize_mod(func), target, "main")
        return None if record is None else record.mean_secs
    if database.load_state(_lost_key(records[0], target)):
        return math.inf
    if not is_beaten(database, records[0], target):
        return records[0].mean_secs
    known = next((record for record in records if record.baseline == ZERO_SEARCH), records[0])
    return known.mean_secs


def _lost_key(record: TuningRecord, target: Target) -> str:
    return f"lost/{ir.structural_hash(record.workload.mod):x}/{target.fingerprint}"


def _beaten_key(record: TuningRecord, target: Target) -> str:
    return f"beaten/{ir.structural_hash(record.workload.mod):x}/{target.fingerprint}"


def schedule_of(found: ir.IRModule | ScheduledKernel) -> ScheduledKernel:
    """What a scheduler gave, with an origin."""
    return found if isinstance(found, ScheduledKernel) else ScheduledKernel(found)

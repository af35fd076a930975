"""A database in memory."""

from __future__ import annotations

import bisect
import dataclasses
import heapq
from collections.abc import Iterable

from tilewright.database.base import Database, check_top_k, databases
from tilewright.database.history import trial_of
from tilewright.database.module_equality import get_module_equality
from tilewright.database.stored_record import record_key, trace_text
from tilewright.ir import IRModule, structural_equal
from tilewright.records import TuningRecord, Workload


class WorkloadTable:
    """Workloads, found by an equality of programs. Equal programs may differ in detail, and a trace
    works on the program it was made for: so each of them stays a workload of its own.
    """

    def __init__(self, module_equality: str) -> None:
        self.equality = get_module_equality(module_equality)
        self._by_hash: dict[int, list[Workload]] = {}
        self._adopted: dict[Workload, Workload] = {}  # those of other databases

    def find(self, mod: IRModule) -> Workload | None:
        """The first workload that equals a program."""
        return self._find(mod, self.equality.hash(mod))

    def _find(self, mod: IRModule, shash: int) -> Workload | None:
        for workload in self._by_hash.get(shash, ()):
            if workload.mod.is_clone_of(mod) or self.equality.equal(workload.mod, mod):
                return workload
        return None

    def add(self, mod: IRModule) -> tuple[Workload, bool]:
        """The workload of a program, and whether it is new."""
        shash = self.equality.hash(mod)
        found = self._find(mod, shash)
        return (found, False) if found is not None else (self._append(mod, shash), True)

    def _append(self, mod: IRModule, shash: int) -> Workload:
        made = Workload(mod, shash)
        self._by_hash.setdefault(shash, []).append(made)
        return made

    def adopt(self, workload: Workload) -> tuple[Workload, bool]:
        """Our own workload for exactly that program, and whether it is new."""
        if workload in self:
            return workload, False
        if workload in self._adopted:
            return self._adopted[workload], False
        shash = self.equality.hash(workload.mod)
        group = self._by_hash.get(shash, ())
        known = next((own for own in group if structural_equal(own.mod, workload.mod)), None)
        own = known if known is not None else self._append(workload.mod, shash)
        self._adopted[workload] = own
        return own, known is None

    def remove(self, workload: Workload) -> None:
        """The workload could not be kept."""
        self._by_hash[workload.shash].remove(workload)
        self._adopted = {known: own for known, own in self._adopted.items() if own is not workload}

    def equal_to(self, workload: Workload) -> list[Workload]:
        """All workloads that equal one."""
        group = self._by_hash.get(workload.shash, ()) if workload in self else None
        if group is None:
            group = self._by_hash.get(self.equality.hash(workload.mod), ())
        return [
            known
            for known in group
            if known is workload or self.equality.equal(known.mod, workload.mod)
        ]

    def __contains__(self, workload: Workload) -> bool:
        return any(workload is known for known in self._by_hash.get(workload.shash, ()))

    def all(self) -> list[Workload]:
        """All workloads."""
        return [workload for group in self._by_hash.values() for workload in group]


class RecordTable:
    """Records of each workload, fastest first, those of equal speed in the order they came."""

    def __init__(self) -> None:
        self._sorted: dict[Workload, list[tuple[float, int, TuningRecord]]] = {}
        self._count = 0

    def add(self, record: TuningRecord) -> None:
        self._count += 1
        place = (record.mean_secs, self._count, record)
        bisect.insort(self._sorted.setdefault(record.workload, []), place)

    def top(self, workloads: Iterable[Workload], top_k: int) -> list[TuningRecord]:
        """The fastest valid records of some workloads."""
        chosen: list[TuningRecord] = []
        for _, _, record in heapq.merge(*(self._sorted.get(each, ()) for each in workloads)):
            if len(chosen) == top_k:
                break
            if record.is_valid:
                chosen.append(record)
        return chosen


class TableDatabase(Database):
    """A database whose records are all in memory, wherever else they may be."""

    _table: RecordTable
    _records: dict[bytes, TuningRecord]

    def __init__(self, module_equality: str) -> None:
        self._workloads = WorkloadTable(module_equality)

    def has_workload(self, mod: IRModule) -> bool:
        return self._workloads.find(mod) is not None

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        check_top_k(top_k)
        return self._table.top(self._workloads.equal_to(workload), top_k)

    def workloads(self) -> list[Workload]:
        return self._workloads.all()

    def __len__(self) -> int:
        return len(self._records)

    def _records_as_kept(self) -> list[TuningRecord]:
        return list(self._records.values())


@databases.register("memory")
class MemoryDatabase(TableDatabase):
    """A database that lives as long as its object."""

    def __init__(self, module_equality: str = "structural") -> None:
        super().__init__(module_equality)
        self._replace_records(())

    def _replace_records(self, records: Iterable[tuple[bytes, TuningRecord]]) -> None:
        self._records, self._table = {}, RecordTable()
        for key, record in records:
            self._keep(key, record)

    def commit_workload(self, mod: IRModule) -> Workload:
        return self._workloads.add(mod)[0]

    def commit_tuning_record(self, record: TuningRecord) -> None:
        own = adopted(record, self._workloads.adopt(record.workload)[0])
        self._keep(_key_of(own), own)
        trial = trial_of(own)
        if trial is not None:
            self.history.add_trials([trial])

    def _keep(self, key: bytes, record: TuningRecord) -> None:
        if key not in self._records:
            self._records[key] = record
            self._table.add(record)

    def correct_record(self, record: TuningRecord, corrected: TuningRecord) -> bool:
        """Put another record in the place of one."""
        if all(record is not known for known in self._records.values()):
            return False
        own = adopted(corrected, record.workload)
        self._replace_records(
            (_key_of(own), own) if known is record else (key, known)
            for key, known in list(self._records.items())
        )
        return True

    get_all_tuning_records = TableDatabase._records_as_kept

    def keep_only(self, records: Iterable[TuningRecord]) -> None:
        """Forget all other records."""
        self._replace_records([(_key_of(record), record) for record in records])


def _key_of(record: TuningRecord) -> bytes:
    # Workloads live as long as their database, so their identity serves as their hash.
    return record_key(id(record.workload), trace_text(record.trace), record)


def adopted(record: TuningRecord, workload: Workload) -> TuningRecord:
    """The record as one of a workload of this database."""
    if record.workload is workload:
        return record
    return dataclasses.replace(record, workload=workload)

"""The tables `workloads` and `targets`: each row is read once and remembered."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

import msgspec

from tilewright.database import similarity, stored_record
from tilewright.database.compatibility import identity_of, identity_of_record
from tilewright.database.module_equality import ModuleEquality, get_module_equality
from tilewright.database.sql_rows import object_from_json, to_json
from tilewright.database.sql_store import SQLStore
from tilewright.errors import StoredDataError
from tilewright.ir import IRModule, structural_equal, structural_hash
from tilewright.ir.json import load_json, save_json
from tilewright.records import TargetIdentity, TuningRecord, Workload, read_target
from tilewright.target import Target


class SQLWorkloads:
    """Programs by id and by the hashes of their equalities."""

    def __init__(self, store: SQLStore, module_equality: str) -> None:
        self._store = store
        self.equality: ModuleEquality = get_module_equality(module_equality)
        self._loaded: dict[int, Workload] = {}
        self._ids: dict[Workload, int] = {}
        self._adopted: dict[Workload, int] = {}  # those of other databases
        self._hashes: dict[int, int] = {}  # structural ones, by id
        if self.equality.name not in stored_record.MODES and not store.read_only:
            self._add_missing_hashes()

    def find(self, mod: IRModule) -> Workload | None:
        """The first workload that equals a program."""
        found = self.ids_of(mod)
        return self.load(found[0]) if found else None

    def ids_equal_to(self, workload: Workload) -> list[int]:
        """All rows whose program equals that of a workload."""
        known = workload in self._ids
        shash = workload.shash if known else self.equality.hash(workload.mod)
        return self._equal_ids(workload.mod, shash)

    def ids_of(self, mod: IRModule) -> list[int]:
        """All rows whose program equals one."""
        return self._equal_ids(mod, self.equality.hash(mod))

    def _equal_ids(self, mod: IRModule, shash: int) -> list[int]:
        equal = []
        for row_id in self._with_hash(self.equality.name, shash):
            if self.is_equal(row_id, mod):
                equal.append(row_id)
        return equal

    def is_equal(self, row_id: int, mod: IRModule) -> bool:
        """Whether a row has a program that equals one."""
        known = self._load_or_none(row_id)
        return known is not None and (
            known.mod.is_clone_of(mod) or self.equality.equal(known.mod, mod)
        )

    def _with_hash(self, mode: str, value: int) -> list[int]:
        statement = "SELECT workload_id FROM workload_hashes WHERE mode = ? AND hash = ?"
        ids = (row[0] for row in self._store.rows(statement, (mode, stored_record.as_hex(value))))
        return sorted(row_id for row_id in ids if isinstance(row_id, int))

    def _load_or_none(self, row_id: int) -> Workload | None:
        try:
            return self.load(row_id)
        except StoredDataError:
            return None

    def load(self, row_id: int, text: str | None = None) -> Workload:
        """The workload of a row, whose text may be at hand; equal rows are one object."""
        if row_id not in self._loaded:
            text = text or self._text(row_id)
            with stored_record.reading_row("workloads", row_id):
                mod = stored_record.usable_module(load_json(text))
                workload = Workload(mod, self.equality.hash(mod))
            self._loaded[row_id], self._ids[workload] = workload, row_id
        return self._loaded[row_id]

    def _text(self, row_id: int) -> str:
        rows = self._store.rows("SELECT module FROM workloads WHERE id = ?", (row_id,))
        if not rows:
            raise StoredDataError(f"workload {row_id} is missing")
        text: str = rows[0][0]
        return text

    def is_loaded(self, row_id: int) -> bool:
        """Whether it can be had without asking the store."""
        return row_id in self._loaded

    def trim(self, most: int) -> None:
        """Let go of the programs that were loaded first, if there are more."""
        for row_id in list(self._loaded)[: max(0, len(self._loaded) - most)]:
            self.forget(row_id)

    def forget(self, row_id: int) -> None:
        """The row is not there any more."""
        self._loaded.pop(row_id, None)
        self._hashes.pop(row_id, None)
        for ids in (self._ids, self._adopted):
            for workload in [workload for workload, known in ids.items() if known == row_id]:
                del ids[workload]

    def adopt(self, workload: Workload) -> tuple[int, bool]:
        """The row of exactly that program, and whether it is new."""
        known = self._ids.get(workload, self._adopted.get(workload))
        if known is not None:
            return known, False
        found = self._exact_id(workload.mod)
        if found is None:
            self._store.alone()  # another writer may have been quicker
            found = self._exact_id(workload.mod)
        row_id = self._insert(workload.mod) if found is None else found
        self._adopted[workload] = row_id
        return row_id, found is None

    def _exact_id(self, mod: IRModule) -> int | None:
        for row_id in self._with_hash("structural", structural_hash(mod)):
            known = self._load_or_none(row_id)
            if known is not None and structural_equal(known.mod, mod):
                return row_id
        return None

    def hash_of(self, row_id: int) -> int:
        """The structural hash of a workload."""
        if row_id not in self._hashes:
            self._hashes[row_id] = structural_hash(self.load(row_id).mod)
        return self._hashes[row_id]

    def _insert(self, mod: IRModule) -> int:
        row_id: int
        ((row_id,),) = self._store.rows(
            "INSERT INTO workloads (name, module) VALUES (?, ?) RETURNING id",
            (similarity.describe(mod), save_json(mod)),
        )
        self._insert_hashes(row_id, stored_record.workload_hashes(mod, [self.equality.name]))
        workload = self._loaded[row_id] = Workload(mod, self.equality.hash(mod))
        self._ids[workload] = row_id
        return row_id

    def _insert_hashes(self, row_id: int, hashes: Mapping[str, str]) -> None:
        for mode, value in hashes.items():
            self._store.execute(
                "INSERT INTO workload_hashes VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (mode, value, row_id),
            )

    def _add_missing_hashes(self) -> None:
        """For an equality of somebody else's, which earlier writers did not know."""
        mode = self.equality.name
        missing = self._store.rows(
            "SELECT id FROM workloads EXCEPT SELECT workload_id FROM workload_hashes "
            "WHERE mode = ?",
            (mode,),
        )
        if missing:
            with self._store.transaction():
                for (row_id,) in missing:
                    workload = self._load_or_none(row_id)
                    if workload is not None:
                        self._insert_hashes(row_id, {mode: stored_record.as_hex(workload.shash)})

    def all(self) -> list[Workload]:
        """All workloads that can be read."""
        rows = self._store.rows("SELECT id FROM workloads ORDER BY id")
        return self._readable(row_id for (row_id,) in rows)

    def similar_to(self, mod: IRModule) -> list[Workload]:
        """Workloads of the same structure: with other numbers if there are such."""
        for mode, of in (
            (stored_record.ANY_SHAPE, similarity.any_shape_hash),
            (stored_record.BLOCKS, similarity.block_structure_hash),
        ):
            found = self._readable(self._with_hash(mode, of(mod)))
            if found:
                return found
        return []

    def _readable(self, ids: Iterable[int]) -> list[Workload]:
        return [workload for workload in map(self._load_or_none, ids) if workload is not None]


class SQLTargets:
    """Targets by id, with what they were on the machine that measured."""

    def __init__(self, store: SQLStore) -> None:
        self._store = store
        self._loaded: dict[int, tuple[Target | None, TargetIdentity]] = {}
        self._ids: dict[tuple[str, str, str | None], int] = {}

    def add(self, record: TuningRecord) -> int | None:
        """The row for the target of a record."""
        identity = identity_of_record(record)
        if identity is None:
            return None
        given = record.target.export() if record.target is not None else identity.description
        texts = to_json(given, "target"), to_json(dict(identity.description), "target")
        place = (*texts, identity.fingerprint)
        if place not in self._ids:
            self._ids[place] = self._find(place) or self._add(place, identity)
        return self._ids[place]

    def _find(self, place: tuple[str, str, str | None]) -> int | None:
        rows = self._store.rows(
            "SELECT id FROM targets WHERE target = ? AND description = ? "
            "AND fingerprint IS NOT DISTINCT FROM ?",
            place,
        )
        return rows[0][0] if rows else None

    def _add(self, place: tuple[str, str, str | None], identity: TargetIdentity) -> int:
        self._store.alone()
        return self._find(place) or self._insert(place, identity)

    def _insert(self, place: tuple[str, str, str | None], identity: TargetIdentity) -> int:
        features = None if identity.features is None else msgspec.json.encode(identity.features)
        ((row_id,),) = self._store.rows(
            "INSERT INTO targets (kind, target, description, fingerprint, features) "
            "VALUES (?, ?, ?, ?, ?) RETURNING id",
            (
                str(identity.description.get("kind")),
                *place,
                None if features is None else features.decode(),
            ),
        )
        return int(row_id)

    def forget_all(self) -> None:
        """After a transaction that was undone."""
        self._ids.clear()
        self._loaded.clear()

    def load(self, row_id: int | None) -> tuple[Target | None, TargetIdentity | None]:
        """A target and its identity."""
        if row_id is None:
            return None, None
        if row_id not in self._loaded:
            rows = self._store.rows(
                "SELECT target, description, fingerprint, features FROM targets WHERE id = ?",
                (row_id,),
            )
            if not rows:
                raise StoredDataError(f"target {row_id} is missing")
            with stored_record.reading_row("targets", row_id):
                self._loaded[row_id] = _target_from_row(rows[0])
        return self._loaded[row_id]

    def loaded(self) -> dict[int, TargetIdentity]:
        """The identities of those that were read already."""
        return {row_id: identity for row_id, (_, identity) in self._loaded.items()}

    def all(self) -> dict[int, TargetIdentity]:
        """The identities of all targets that can be read."""
        found = {}
        for (row_id,) in self._store.rows("SELECT id FROM targets"):
            with contextlib.suppress(StoredDataError):
                identity = self.load(row_id)[1]
                if identity is not None:
                    found[row_id] = identity
        return found


_TargetRow = tuple[str, str, str | None, str | None]


def _target_from_row(row: tuple[object, ...]) -> tuple[Target | None, TargetIdentity]:
    given, description, fingerprint, features = msgspec.convert(row, _TargetRow)
    identity = TargetIdentity(
        object_from_json(description),
        fingerprint,
        None if features is None else msgspec.json.decode(features, type=tuple[str, ...]),
        is_complete=True,
    )
    target = read_target(object_from_json(given))
    if target is None or fingerprint is None or identity_of(target).fingerprint == fingerprint:
        return target, identity
    return read_target(identity.description), identity  # it was another machine

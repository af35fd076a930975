"""A database on a PostgreSQL server, for many tuners on many machines at once.

Whoever commits a usable record tells the others (NOTIFY), so that all of them breed from the best.
Before candidates are measured they are claimed; a claim ends by itself when its owner is gone.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator
from functools import cached_property

from tilewright.database import postgres_schema
from tilewright.database.base import databases, speed_order
from tilewright.database.compatibility import Fit, fit, fit_of_record, identity_of
from tilewright.database.postgres_connection import SCHEMA, PostgresConnection
from tilewright.database.postgres_events import PostgresEventLog
from tilewright.database.sql_database import SQLDatabase
from tilewright.database.sql_rows import COLUMNS
from tilewright.database.stored_record import as_hex
from tilewright.errors import DatabaseError, StoredDataError
from tilewright.ir import IRModule
from tilewright.records import TargetIdentity, TuningRecord, Workload
from tilewright.target import Target

# Longer than a round takes; a tuner that was killed blocks what it was about to measure so long.
CLAIM_SECONDS = 900.0
_NOBODY = 0  # no workload has this number: nothing to breed from
_MOST_LINES = 5000  # of one look
_EVENT_LINES = "SELECT id, line FROM events WHERE id > ? ORDER BY id LIMIT ?"
_STAMP = """
SELECT (SELECT max(id) FROM records), count(*), max(finished),
    count(*) FILTER (WHERE status = 'running')
FROM runs"""
# All that a query for the best record of a program has to know, in one round trip; programs that
# are loaded already are not sent again.
_BEST = f"""
SELECT hashes.workload_id, workloads.module, known.ids, best.*
FROM (SELECT array_agg(id) AS ids, ?::bigint[] AS loaded, ?::bigint[] AS same FROM targets) known
LEFT JOIN workload_hashes hashes ON hashes.mode = ? AND hashes.hash = ?
LEFT JOIN workloads
    ON workloads.id = hashes.workload_id AND hashes.workload_id <> ALL(known.loaded)
LEFT JOIN LATERAL (
    SELECT {COLUMNS} FROM records
    WHERE workload_id = hashes.workload_id AND valid = 1 AND target_id = ANY(known.same)
    ORDER BY mean, id LIMIT 1
) best ON TRUE"""
_FORGET = """
DELETE FROM claims WHERE ctid IN (
    SELECT ctid FROM claims WHERE expires < clock_timestamp() FOR UPDATE SKIP LOCKED
)"""
_CLAIM = """
INSERT INTO claims
SELECT ?, ?, program, ?, clock_timestamp() + make_interval(secs => ?)
FROM unnest(?::text[]) AS wanted (program)
WHERE NOT EXISTS (
    SELECT 1 FROM records JOIN targets ON targets.id = records.target_id
    WHERE records.workload_id = ANY(?::bigint[]) AND records.program = wanted.program
    AND targets.fingerprint = ?
)
ON CONFLICT (workload_id, fingerprint, program)
DO UPDATE SET owner = excluded.owner, expires = excluded.expires
WHERE claims.owner = excluded.owner OR claims.expires < clock_timestamp()
RETURNING program"""


@databases.register("postgresql")
class PostgresDatabase(SQLDatabase):
    """A database at a URL: postgresql://USER@HOST/NAME."""

    def __init__(
        self, url: str, *, module_equality: str = "structural", read_only: bool = False
    ) -> None:
        self._server = PostgresConnection(url, read_only)
        self.path = self._server.name
        try:
            postgres_schema.check(self._server)
        except DatabaseError:
            self._server.close()
            raise
        super().__init__(self._server, module_equality)
        self._owner = uuid.uuid4().hex
        self._claims = False
        self._by_hash: dict[str, list[int]] = {}  # workloads that were asked for
        self._ear: PostgresConnection | None = None
        self._told: set[int] = set()  # workloads with news, in the open transaction

    def close(self) -> None:
        """Let go of the connection, and of what was claimed but not measured."""
        if self._claims and not self._server.connection.closed:
            with contextlib.suppress(*self._server.errors):  # they expire anyway
                self._server.execute("DELETE FROM claims WHERE owner = ?", (self._owner,))
        if self._ear is not None:
            self._ear.close()
        super().close()

    def _insert(self, record: TuningRecord) -> int:
        inserted = super()._insert(record)
        if inserted:
            self._tell(self._adopt(record.workload) if record.is_valid else _NOBODY)
        return inserted

    def _correct(self, record: TuningRecord, corrected: TuningRecord) -> bool:
        is_done = super()._correct(record, corrected)
        if is_done:
            self._tell(self._adopt(record.workload))
        return is_done

    def _tell(self, workload_id: int) -> None:
        if workload_id not in self._told:
            self._told.add(workload_id)
            self._server.execute("SELECT pg_notify(?, ?)", (SCHEMA, str(workload_id)))

    def _transaction_ended(self, is_kept: bool) -> None:
        super()._transaction_ended(is_kept)
        self._told.clear()

    def has_news(self, workload: Workload) -> bool:
        with self._server.lock:
            self._server.listen()
            known = {str(row_id) for row_id in self._workloads.ids_equal_to(workload)}
            return self._server.take_news(known)

    def fitting_records(
        self, mod: IRModule, target: Target, workload_name: str = "main"
    ) -> Iterator[TuningRecord]:
        """The best one comes with one statement; whoever wants others asks as everybody does."""
        best = self._best_at_once(mod, identity_of(target))
        others = super().fitting_records(mod, target, workload_name)
        if best is not None and fit_of_record(best, target) is not None:
            yield best
            next(others, None)
        yield from others

    def _best_at_once(self, mod: IRModule, wanted: TargetIdentity) -> TuningRecord | None:
        """The best record of a program for exactly a target; None: it takes more to tell."""
        workloads, targets = self._workloads, self._targets
        same = [n for n, known in targets.loaded().items() if fit(known, wanted) is Fit.SAME]
        if not same:
            return None
        equality = workloads.equality
        shash = as_hex(equality.hash(mod))
        known = [row_id for row_id in self._by_hash.get(shash, ()) if workloads.is_loaded(row_id)]
        rows = self._server.rows(_BEST, (known, same, equality.name, shash))
        self._by_hash[shash] = [row_id for row_id, *_ in rows if row_id is not None]
        found = []
        for row_id, text, known_targets, *row in rows:
            if len(known_targets or ()) != len(targets.loaded()) or row_id is None:
                return None
            if text is not None:
                with contextlib.suppress(StoredDataError):
                    workloads.load(row_id, text)
            if row[0] is not None and workloads.is_equal(row_id, mod):
                found.append(self._read(tuple(row)))
        valid = [record for record in found if record is not None and record.is_valid]
        return min(valid, key=speed_order, default=None)

    def stamp(self) -> object:
        heard = 0 if self._ear is None else self._ear.heard
        return heard, self._server.rows(_STAMP)

    def wait_for_news(self, secs: float) -> None:
        """On a connection of its own, so that others can ask meanwhile."""
        if self._ear is None:
            with contextlib.suppress(DatabaseError):
                self._ear = PostgresConnection(self._server.url, True, only_waits=True)
        if self._ear is None or not self._ear.wait(secs):
            time.sleep(secs)

    def be_patient(self, secs: float) -> None:
        """Wait `secs` for a server that went away, instead of about a minute."""
        self._server.patience = secs

    # --- what tuners do now -----------------------------------------------------------------

    def event_log(self) -> PostgresEventLog:
        return PostgresEventLog(self._server.connect)

    def event_lines(self, after: int) -> list[tuple[int, str]]:
        if not self._has_events:
            return []
        return self._server.rows(_EVENT_LINES, (after, _MOST_LINES))

    @cached_property
    def _has_events(self) -> bool:
        """Tables of an earlier version, which may be read, have none."""
        return (postgres_schema.version_of(self._server) or 0) >= postgres_schema.EVENTS_SINCE

    def claim(self, workload: Workload, target: Target | None, programs: Iterable[int]) -> set[int]:
        ids = self._workloads.ids_equal_to(workload)
        fingerprint = "" if target is None else target.fingerprint
        wanted = sorted(map(as_hex, programs))  # in one order, so that nobody waits in a circle
        values = (ids[0], fingerprint, self._owner, CLAIM_SECONDS, wanted, ids, fingerprint)

        def take() -> set[int]:
            self._server.execute(_FORGET)
            return {int(program, 16) for (program,) in self._server.rows(_CLAIM, values)}

        self._claims = True
        return self.atomically(take)


databases.register("postgres")(PostgresDatabase)

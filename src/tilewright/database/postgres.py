"""A database on a PostgreSQL server, for many tuners on many machines at once.

Whoever commits a usable record tells the others (NOTIFY), so that all of them breed from the best.
Before candidates are measured they are claimed; a claim ends by itself when its owner is gone.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable

from tilewright.database import postgres_schema
from tilewright.database.base import databases
from tilewright.database.postgres_connection import SCHEMA, PostgresConnection
from tilewright.database.sql_database import SQLDatabase
from tilewright.database.stored_record import as_hex
from tilewright.errors import DatabaseError
from tilewright.records import TuningRecord, Workload
from tilewright.target import Target

# Longer than a round takes; a tuner that was killed blocks what it was about to measure so long.
CLAIM_SECONDS = 900.0
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
        self._told: set[int] = set()  # workloads with news, in the open transaction

    def close(self) -> None:
        """Let go of the connection, and of what was claimed but not measured."""
        if self._claims and not self._server.connection.closed:
            with contextlib.suppress(*self._server.errors):  # they expire anyway
                self._server.execute("DELETE FROM claims WHERE owner = ?", (self._owner,))
        super().close()

    def _insert(self, record: TuningRecord) -> int:
        inserted = super()._insert(record)
        if inserted and record.is_valid:
            self._tell(self._adopt(record.workload))
        return inserted

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

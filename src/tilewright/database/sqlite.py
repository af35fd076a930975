"""The default database: one SQLite file, one writer, any number of readers that never block it."""

from __future__ import annotations

from pathlib import Path

from tilewright.database.base import databases
from tilewright.database.sql_database import SQLDatabase
from tilewright.database.sqlite_file import SQLiteFile
from tilewright.database.sqlite_schema import version_of
from tilewright.errors import DatabaseError

DEFAULT_NAME = "tilewright.db"


@databases.register("sqlite")
class SQLiteDatabase(SQLDatabase):
    """A database in a file. `read_only` opens it beside a writer without disturbing it."""

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        work_dir: str | Path | None = None,
        module_equality: str = "structural",
        read_only: bool = False,
        allow_missing: bool = True,
    ) -> None:
        if path is None:
            if work_dir is None:
                raise DatabaseError("an SQLite database needs a path or a work_dir")
            path = Path(work_dir) / DEFAULT_NAME
        self.path = str(path)
        self._file = SQLiteFile(self.path, read_only, allow_missing, (module_equality,))
        super().__init__(self._file, module_equality)

    @property
    def schema_version(self) -> int:
        """The version of its tables."""
        return version_of(self._file.connection)

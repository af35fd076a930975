"""Databases of tuning records."""

from tilewright.database.base import (
    Database as Database,
    NotSupportedError as NotSupportedError,
    TaskRecords as TaskRecords,
    databases as databases,
)
from tilewright.database.history import *  # noqa: F403 - its `__all__`
from tilewright.database.json_database import JSONDatabase as JSONDatabase
from tilewright.database.memory import MemoryDatabase as MemoryDatabase
from tilewright.database.module_equality import *  # noqa: F403 - its `__all__`
from tilewright.database.opening import (
    open_database as open_database,
    upgrade_database as upgrade_database,
)
from tilewright.database.postgres import PostgresDatabase as PostgresDatabase
from tilewright.database.query_only import (
    OrderedUnionDatabase as OrderedUnionDatabase,
    ScheduleFnDatabase as ScheduleFnDatabase,
    UnionDatabase as UnionDatabase,
)
from tilewright.database.similarity import Similar as Similar
from tilewright.database.sqlite import SQLiteDatabase as SQLiteDatabase
from tilewright.database.stored_record import Problem as Problem
from tilewright.database.transfer import *  # noqa: F403 - its `__all__`

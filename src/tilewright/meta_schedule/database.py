"""Databases."""

from tilewright.database import (
    Database as Database,
    JSONDatabase as JSONDatabase,
    MemoryDatabase as MemoryDatabase,
    OrderedUnionDatabase as OrderedUnionDatabase,
    ScheduleFnDatabase as ScheduleFnDatabase,
    SQLiteDatabase as SQLiteDatabase,
    UnionDatabase as UnionDatabase,
    databases as databases,
    open_database as open_database,
)
from tilewright.records import TuningRecord as TuningRecord, Workload as Workload

PyDatabase = Database
create = Database.create

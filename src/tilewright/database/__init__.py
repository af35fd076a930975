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
from tilewright.database.module_equality import (
    ModuleEquality as ModuleEquality,
    find_anchor_block as find_anchor_block,
    get_module_equality as get_module_equality,
    module_equalities as module_equalities,
)
from tilewright.database.opening import open_database as open_database
from tilewright.database.query_only import (
    OrderedUnionDatabase as OrderedUnionDatabase,
    ScheduleFnDatabase as ScheduleFnDatabase,
    UnionDatabase as UnionDatabase,
)
from tilewright.database.similarity import Similar as Similar
from tilewright.database.sqlite import SQLiteDatabase as SQLiteDatabase
from tilewright.database.stored_record import Problem as Problem
from tilewright.database.transfer import (
    export as export,
    import_json as import_json,
    merge as merge,
    prune as prune,
)

"""Programs as they come out of a database: whoever wrote them, they can be listed and compared."""

from __future__ import annotations

from typing import Any

from tilewright.database import similarity
from tilewright.errors import IRError, StoredDataError
from tilewright.ir import IRModule
from tilewright.ir.verify import verify_well_formed
from tilewright.support.nesting import nested_deeply


def usable_module(read: Any) -> IRModule:
    """A program that was read back, unless listings, searches and compilers would fall over it."""
    if not isinstance(read, IRModule):
        raise StoredDataError("it is no module")
    with nested_deeply(IRError, "the program"):
        verify_well_formed(read)
    similarity.describe(read)
    str(read)
    return read

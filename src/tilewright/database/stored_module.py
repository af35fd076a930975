"""Programs as they come out of a database: checked when they are read, found by their hashes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilewright.database import similarity
from tilewright.database.module_equality import get_module_equality
from tilewright.errors import IRError, StoredDataError
from tilewright.ir import IRModule
from tilewright.ir.verify import verify_well_formed
from tilewright.support.nesting import nested_deeply

# Under these every workload can be found; other equalities are added where they are used.
MODES = ("structural", "ignore-ndarray", "anchor-block")
ANY_SHAPE, BLOCKS = "any-shape", "blocks"  # for what is similar but not equal


def workload_hashes(mod: IRModule, modes: Iterable[str] = ()) -> dict[str, str]:
    """Hashes by mode, in hexadecimal."""
    equalities = dict.fromkeys((*MODES, *modes))
    hashes = {mode: get_module_equality(mode).hash(mod) for mode in equalities}
    hashes[ANY_SHAPE] = similarity.any_shape_hash(mod)
    hashes[BLOCKS] = similarity.block_structure_hash(mod)
    return {mode: as_hex(value) for mode, value in hashes.items()}


def as_hex(value: int) -> str:
    """A 64-bit hash as it stands in tables, which know no unsigned numbers."""
    return f"{value:016x}"


def usable_module(read: Any) -> IRModule:
    """A program that was read back, unless listings, searches and compilers would fall over it."""
    if not isinstance(read, IRModule):
        raise StoredDataError("it is not a module")
    with nested_deeply(IRError, "the program"):
        verify_well_formed(read)
    similarity.describe(read)
    str(read)
    return read

"""The hashes under which a workload can be found: one for each equality, two for likeness."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.database import similarity
from tilewright.database.module_equality import get_module_equality
from tilewright.ir import IRModule

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

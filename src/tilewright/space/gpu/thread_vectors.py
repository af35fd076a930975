"""Vectors that the threads of a GPU load and store: what rules for rows and elements share.

A thread loads and stores 16 bytes at once, so what it reads goes through registers in vectors, and
so does its result; between them it works on one element at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright import ir
from tilewright.ir.access import inputs_of
from tilewright.ir.annotation_keys import TILING_STRUCTURE
from tilewright.nest.access import BufferAccess
from tilewright.schedule import BlockRV, ExprRV, LoopRV, Schedule

VECTOR_BYTES = 16
_WIDTHS = (16, 8, 4, 2)


def vector_width(extent: int, dtypes: Iterable[ir.DType]) -> int:
    """The most elements that fit into a vector and divide an axis."""
    size = max((dtype.itemsize for dtype in dtypes), default=VECTOR_BYTES)
    fitting = (w for w in _WIDTHS if w * size <= VECTOR_BYTES and extent % w == 0)
    return next(fitting, 1)


def inputs_along(block: ir.Block, var: ir.Var) -> dict[int, ir.BufferRegion]:
    """Inputs from memory whose neighbours along an iterator are neighbours, by their positions."""
    return {
        position: region
        for position, region in inputs_of(block).items()
        if region.buffer.scope == "global" and BufferAccess.of(region).lies_along(var)
    }


def sampled(sch: Schedule, choices: Sequence[int]) -> int | ExprRV:
    """One of several numbers; where there is one only, nothing is drawn."""
    if len(choices) == 1:
        return choices[0]
    return sch.sample_categorical(choices, [1 / len(choices)] * len(choices))


def through_registers(sch: Schedule, block: BlockRV, thread: LoopRV, structure: str) -> None:
    """Load and store what a thread works on in vectors, inside of its loop.

    The last iterator of the block runs over a vector.
    """
    stmt = sch.get_sref(block).block
    for position, region in inputs_along(stmt, stmt.iter_vars[-1].var).items():
        if _is_gathered(region):
            continue  # which part of it a thread works on is known when it runs
        copy = sch.cache_read(block, position, "local", [block])
        sch.compute_at(copy, thread, preserve_unit_loops=True)
        mark_copy(sch, copy, structure)
    if stmt.writes[0].buffer.scope == "global":
        copy = sch.cache_write(block, 0, "local")
        sch.reverse_compute_at(copy, thread, preserve_unit_loops=True)
        mark_copy(sch, copy, structure)


def _is_gathered(region: ir.BufferRegion) -> bool:
    """True if indices depend on other values in memory."""
    return any(True for r in region.region for _ in ir.nodes_of(r.min, ir.BufferLoad))


def mark_copy(sch: Schedule, copy: BlockRV, structure: str) -> None:
    """A copy of vectors: nothing else is to be done about it."""
    sch.vectorize(sch.get_loops(copy)[-1])
    sch.annotate(copy, TILING_STRUCTURE, structure)

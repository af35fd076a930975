"""Short reductions of many results, such as pools: a thread has a vector of neighbouring results.

What a step reads lies along the results, so that it is loaded as one vector.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.errors import ScheduleError
from tilewright.ir.access import inputs_of
from tilewright.ir.annotation_keys import TILING_STRUCTURE
from tilewright.nest.access import BufferAccess
from tilewright.nest.block_loops import first_not_spatial, nest_above
from tilewright.schedule import BlockRV, Schedule
from tilewright.space.conditions import constant_extent
from tilewright.space.gpu.thread_vectors import mark_copy, sampled, vector_width

_THREADS = (64, 128, 256)


def width_along_results(sch: Schedule, block: BlockRV, last: BlockRV | None) -> int:
    """Elements of a vector of results for which all that a reduction reads is vectors, too, or 1.

    `last` is an elementwise block behind the reduction that is to be done with it.
    """
    stmt = sch.get_sref(block).block
    axes = [v.var for v in stmt.iter_vars if v.iter_type is ir.IterType.DATA_PAR]
    regions = [*stmt.writes, *inputs_of(stmt).values()]
    still = {v.var: ir.const(0) for v in stmt.iter_vars if _is_still(v)}
    if not axes or not all(_lies_along(region, axes[-1], still) for region in regions):
        return 1
    end = sch.get_sref(block if last is None else last).block
    types = [end.writes[0].buffer.dtype, *(region.buffer.dtype for region in regions[1:])]
    position = first_not_spatial(nest_above(sch.get_sref(block)))
    if position is None or position == 0:
        return 1
    extent = constant_extent(sch.get_sref(sch.get_loops(block)[position - 1])) or 1
    return vector_width(extent, types)


def _is_still(axis: ir.IterVar) -> bool:
    return axis.dom is not None and ir.is_one(axis.dom.extent)


def _lies_along(region: ir.BufferRegion, axis: ir.Var, still: Mapping[ir.Var, ir.PrimExpr]) -> bool:
    """Whether neighbours along an axis are neighbours in memory; some iterators are always 0."""
    analyzer = Analyzer()
    indices = [analyzer.simplify(ir.substitute(r.min, still)) for r in region.region]
    return BufferAccess.at(region.buffer, indices).lies_along(axis)


def share_vectors(
    sch: Schedule, block: BlockRV, last: BlockRV | None, width: int, structure: str
) -> None:
    """Share results among threads, a vector each."""
    if last is None:
        last = sch.cache_write(block, 0, "local")
    else:
        sch.set_scope(block, 0, "local")
    *outer, row = sch.get_loops(last)
    vectors, lanes = sch.split(row, [None, width])
    extents = [constant_extent(sch.get_sref(loop)) or 1 for loop in (*outer, vectors)]
    fused = sch.fuse(*outer, vectors) if outer else vectors
    fitting = [n for n in _THREADS if n <= math.prod(extents)] or [math.prod(extents)]
    blocks, threads = sch.split(fused, [None, sampled(sch, fitting)])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")
    sch.compute_at(block, threads, preserve_unit_loops=True)
    _fetch(sch, block, structure)
    if sch.get_sref(last).block.writes[0].buffer.dtype.itemsize * width <= 16:
        with contextlib.suppress(ScheduleError):
            sch.vectorize(lanes)
    for each in (block, last):
        sch.annotate(each, TILING_STRUCTURE, structure)


def _fetch(sch: Schedule, block: BlockRV, structure: str) -> None:
    """The steps of the reduction go around the vector, whose operands each loads at once."""
    loops = sch.get_loops(block)[2:]
    position = first_not_spatial(nest_above(sch.get_sref(block)))
    assert position is not None
    own, steps = loops[: position - 2], loops[position - 2 :]
    sch.reorder(*own[:-1], *steps, own[-1])
    # Images come last: nothing can be placed behind a copy that leaves out what is padding.
    for number in reversed(inputs_of(sch.get_sref(block).block)):
        copy = sch.cache_read(block, number, "local", [block])
        sch.compute_at(copy, steps[-1], preserve_unit_loops=True)
        mark_copy(sch, copy, structure)
        for producer in sch.get_producers(copy):
            with contextlib.suppress(ScheduleError):
                sch.compute_inline(producer)  # padding

"""The frame of rules that write tile kernels: `WarpGroupTiling` and `ThreadTiling`.

The block becomes a product of matrices by fusing iterators. A block of threads computes a tile of
the result: tiles of both operands go through shared memory, and what comes after the sum is done on
the way out. How threads share the work is left to `lowering/gpu/tile_kernels`.

Decisions are the width of a tile and the order of tiles, which decides what they find in the cache.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from tilewright import ir, te
from tilewright.errors import LowerError, ScheduleError
from tilewright.ir.access import inputs_of
from tilewright.ir.annotation_keys import (
    THREAD_ROWS,
    TILE_STAGES,
    TILING_STRUCTURE,
)
from tilewright.lowering.gpu.tile_kernels.layout import can_be_written
from tilewright.lowering.gpu.tile_kernels.lower_tile_kernels import LowerTileKernels
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.schedule.analysis import get_auto_tensorize_mapping_info
from tilewright.space.base import NotApplied, ScheduleRule, TaskContext
from tilewright.space.conditions import why_not_free
from tilewright.space.tvm.tensor_core_layout import transform_for_tensorization
from tilewright.target import Target

STRUCTURE = "tile kernel"


class TileShape(NamedTuple):
    """Rows of a tile, the columns to choose from, and who shares the work."""

    rows: int
    columns: tuple[int, ...]
    depth: int  # bytes of the sum in one step
    annotations: Mapping[str, int]


_ORDERS = (1, 4, 8, 16)  # rows of tiles that are done together


class TileRule(ScheduleRule):
    """A rule that writes tile kernels: for some types, where the target can run them."""

    types: ClassVar[Sequence[tuple[str, str]]]
    shapes: ClassVar[Sequence[TileShape]]
    other_types: ClassVar[str]  # the reason to leave other types alone

    def __init__(self) -> None:
        self._target: Target | None = None

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        self._target = context.target

    @abstractmethod
    def why_not_on(self, target: Target | None) -> str:
        """The reason why a target cannot run such kernels; empty if it can."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """One sketch for each shape that fits."""
        sref = sch.get_sref(block)
        if reason := self.why_not_on(self._target) or why_not_free(sref):
            return NotApplied(sch, reason)
        dtypes = types_of(sref.block, self.types)
        if dtypes is None:
            return NotApplied(sch, self.other_types)
        assert self._target is not None
        return tile_sketches(sch, block, dtypes, self.shapes, self._target)


def tile_sketches(
    sch: Schedule,
    block: BlockRV,
    dtypes: tuple[str, str],
    shapes: Sequence[TileShape],
    target: Target,
) -> list[Schedule]:
    """One sketch for each shape of which a kernel can be made."""
    sketches, reason = [], "it is not a product of two matrices"
    for shape in shapes:
        made = sch.copy()
        try:
            tiled = _tile(made, block, dtypes, shape)
            if tiled:
                LowerTileKernels()(made.mod, target)
        except (ScheduleError, LowerError) as error:
            reason = str(error).rpartition("but ")[2]
            continue
        if tiled:
            sketches.append(made)
    return sketches or NotApplied(sch, reason)


def types_of(block: ir.Block, known: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """The types of both operands and of the sum, if they are known ones."""
    inputs = [str(region.buffer.dtype) for region in inputs_of(block).values()]
    if len(inputs) != 2 or inputs[0] != inputs[1] or len(block.writes) != 1:
        return None
    found = inputs[0], str(block.writes[0].buffer.dtype)
    return found if found in known else None


@functools.cache
def _product(operand: str, sums: str) -> ir.PrimFunc:
    """A product of matrices of these types."""
    left = te.placeholder((16, 16), operand, name="left")
    right = te.placeholder((16, 16), operand, name="right")
    k = te.reduce_axis((0, 16), name="k")
    product = te.compute(
        (16, 16),
        lambda i, j: te.sum(left[i, k].astype(sums) * right[k, j].astype(sums), axis=k),
        name="product",
    )
    return te.create_prim_func([left, right, product])


def _tile(sch: Schedule, block: BlockRV, dtypes: tuple[str, str], shape: TileShape) -> bool:
    """Tile a block; False if it is not a product of matrices."""
    mapping = get_auto_tensorize_mapping_info(sch, block, _product(*dtypes))
    if mapping is None:
        return False
    copies = transform_for_tensorization(sch, block, mapping)
    *batch, rows, columns, depth = sch.get_loops(block)
    widths = _columns_of(_extent(sch, columns), shape)
    width = sch.sample_categorical(widths, [1 / len(widths)] * len(widths))
    row, inner_row = sch.split(rows, [None, shape.rows])
    column, inner_column = sch.split(columns, [None, width])
    step, inner_depth = sch.split(depth, [None, shape.depth // ir.DType(dtypes[0]).itemsize])
    orders = _orders_of(_extent(sch, row))
    order = sch.sample_categorical(orders, [1 / len(orders)] * len(orders))
    outer, together = sch.split(row, [None, order])
    sch.reorder(*batch, outer, column, together, step, inner_row, inner_column, inner_depth)
    tiles = sch.fuse(*batch, outer, column, together)
    sch.bind(tiles, "blockIdx.x")
    sch.annotate(tiles, TILE_STAGES, 0)
    for key, value in shape.annotations.items():
        sch.annotate(tiles, key, value)
    on_threads = THREAD_ROWS in shape.annotations
    output = sch.cache_write(block, 0, "local" if on_threads else "wgmma.accumulator")
    sch.reverse_compute_at(output, tiles, preserve_unit_loops=True)
    for position, copy in enumerate(copies.reads):
        tile = sch.cache_read(block, position, "shared.dyn")
        sch.compute_at(tile, step, preserve_unit_loops=True)
        _inline_producers(sch, copy)
        sch.annotate(tile, TILING_STRUCTURE, STRUCTURE)
    sch.reverse_compute_inline(copies.write)
    _inline_consumers(sch, output, on_threads=on_threads)
    for each in (block, output):
        sch.annotate(each, TILING_STRUCTURE, STRUCTURE)
    return True


def _extent(sch: Schedule, loop: LoopRV) -> int:
    stmt = sch.get(loop)
    assert isinstance(stmt, ir.For)
    assert isinstance(stmt.extent, ir.IntImm)
    return stmt.extent.value


def _columns_of(count: int, shape: TileShape) -> list[int]:
    """Widths of tiles that are not much wider than the result."""
    enough = next((w for w in shape.columns if w >= count), shape.columns[-1])
    return [width for width in shape.columns if width <= enough]


def _orders_of(rows: int) -> list[int]:
    """Rows of tiles that may be done together."""
    return [n for n in _ORDERS if rows % n == 0]


def _inline_producers(sch: Schedule, copy: BlockRV) -> None:
    """Read what an operand is made of, instead of the operand: padding, say."""
    producers = sch.get_producers(copy)
    sch.compute_inline(copy)
    for producer in producers:
        try:
            _inline_producers(sch, producer)
        except ScheduleError:
            continue  # it is computed before


def _inline_consumers(sch: Schedule, output: BlockRV, *, on_threads: bool) -> None:
    """Do on the way out what is done to each result; warp groups cannot write all types."""
    while len(consumers := sch.get_consumers(output)) == 1:
        if not on_threads and not can_be_written(_result_type(sch, consumers[0])):
            return  # it is done afterwards
        try:
            sch.reverse_compute_inline(consumers[0])
        except ScheduleError:
            return  # so is what cannot be done on the way


def _result_type(sch: Schedule, block: BlockRV) -> ir.DType:
    stmt = sch.get(block)
    assert isinstance(stmt, ir.Block)
    return stmt.writes[0].buffer.dtype

"""`WinogradTiling`: a Winograd convolution in one pass over blocks of tiles.

As passes of their own, the transforms of a Winograd convolution move more bytes than its product
saves multiplications. Here a task takes a block of tiles, and some filters where tiles are few: it
transforms the data of the block, channels in vectors and tiles written out, into a buffer that
stays in the cache; then, for a panel of filters at a time, it multiplies all points with register
tiles, and transforms the results where they are, so that bias and activation see them in registers.

Weights are transformed ahead of time, into the panels that the product reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.errors import ScheduleError
from tilewright.ir import annotation_keys as keys
from tilewright.nest.loops import known_extent
from tilewright.schedule import BlockRV, LoopRV, Schedule, StmtSRef
from tilewright.schedule.analysis import has_trivial_binding
from tilewright.schedule.primitives.get_blocks import neighbours
from tilewright.space.base import NotApplied, TaskContext, schedule_rules
from tilewright.space.conditions import all_iters_spatial, why_not_free
from tilewright.space.cpu.cpu_rule import NO_PLACE, CpuRule
from tilewright.space.cpu.elementwise_loops import (
    choose,
    extent_of,
    vectorize_last,
    whole_vectors,
    write_out,
)
from tilewright.space.cpu.register_tiling import is_elementwise
from tilewright.space.cpu.tile_builder import ENOUGH_ACCUMULATORS, used_share
from tilewright.space.layout_free import is_layout_free

STRUCTURE = "winograd"
SKETCHES = 3
MAX_VECTORS = 4
BLOCK_CHOICES = 2
WIDEST_BLOCK = 16  # tiles: more in a row only lengthen what a task waits for
MOST_TILES = 64  # of a block: weights are read often enough then
LEAST_TASKS = 4  # for each core: where blocks are fewer, filters may be shared out
UNKNOWN_CACHE = 1 << 20


@dataclass(frozen=True)
class RegisterShape:
    """A register tile of the product: tiles of the image by vectors of filters; its block."""

    vectors: int
    rows: int
    columns: int
    block_columns: int


@dataclass(frozen=True)
class ProductExtents:
    """The extents of a product of tiles."""

    alpha: int
    images: int
    rows: int
    columns: int
    filters: int
    channels: int

    @staticmethod
    def of(block: ir.Block) -> ProductExtents | None:
        """The extents of a block, if they are numbers."""
        extents = list(map(known_extent, block.iter_vars))
        if len(extents) != 7 or None in extents:
            return None
        numbers = [extent or 0 for extent in extents]
        return ProductExtents(*numbers[1:])


@schedule_rules.register("WinogradTiling")
class WinogradTiling(CpuRule):
    """Schedules all stages of a Winograd convolution at once."""

    def __init__(self) -> None:
        super().__init__()
        self._cache = UNKNOWN_CACHE

    def _initialize_with_tune_context(self, context: TaskContext) -> None:
        super()._initialize_with_tune_context(context)
        if context.target is not None and context.target.is_cpu:
            self._cache = context.target.cpu.caches.l2_bytes or UNKNOWN_CACHE

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        sref = sch.get_sref(block)
        if reason := why_not_free(sref):
            return NotApplied(sch, reason)
        extents = ProductExtents.of(sref.block)
        if keys.WINOGRAD_TILE not in sref.block.annotations or extents is None:
            return NotApplied(sch, "it is not a product of Winograd tiles")
        made = []
        for shape in self._tile_shapes(sref.block, extents):
            copy = sch.copy()
            try:
                self._builder(copy, block, extents, shape).run()
            except ScheduleError:
                continue  # the program around it is not what it was made as
            made.append(copy)
        return made or NotApplied(sch, NO_PLACE)

    def _tile_shapes(self, block: ir.Block, extents: ProductExtents) -> list[RegisterShape]:
        """Register tiles, those that waste least of the registers first."""
        lanes = self._lanes_of(block)
        most = {
            vectors: self._shape.tile_rows(block, vectors * lanes, lanes)
            for vectors in range(1, min(MAX_VECTORS, -(-extents.filters // lanes)) + 1)
        }
        found = {
            RegisterShape(vectors, rows, columns, wide): _quality(
                RegisterShape(vectors, rows, columns, wide), extents, lanes
            )
            for vectors in most
            for wide in _block_widths(extents.columns)
            for columns in range(1, min(wide, most[vectors]) + 1)
            for rows in range(1, most[vectors] // columns + 1)
            if rows <= extents.rows and (rows == 1 or columns == wide)
        }
        return sorted(found, key=lambda shape: -found[shape])[:SKETCHES]

    def _builder(
        self, sch: Schedule, block: BlockRV, extents: ProductExtents, shape: RegisterShape
    ) -> _Builder:
        lanes = self._lanes_of(sch.get_sref(block).block)
        element = sch.get_sref(block).block.writes[0].buffer.dtype.itemsize
        tile_row = extents.alpha**2 * shape.block_columns * extents.channels * element
        most = min(self._cache // tile_row, MOST_TILES // shape.block_columns)
        heights = _heights(extents.rows, shape.rows, max(1, most))
        blocks = (
            extents.images
            * -(-extents.columns // shape.block_columns)
            * (-(-extents.rows // (max(heights) * shape.rows)))
        )
        return _Builder(
            sch, block, shape, lanes, heights, self._shares(blocks, extents, shape, lanes)
        )

    def _shares(
        self, blocks: int, extents: ProductExtents, shape: RegisterShape, lanes: int
    ) -> list[int]:
        """Among how many tasks the filters of a block may be shared."""
        panels = -(-extents.filters // (shape.vectors * lanes))
        is_busy = blocks >= LEAST_TASKS * self._cores
        return [1] if is_busy or panels < self._cores else sorted({1, self._cores})


def _quality(shape: RegisterShape, extents: ProductExtents, lanes: int) -> float:
    """The share of the multiply-adds that a register tile does in vain, and its latency."""
    used = used_share(extents.filters, shape.vectors * lanes)
    used *= used_share(extents.columns, shape.block_columns)
    used *= used_share(shape.block_columns, shape.columns)
    used *= used_share(extents.rows, shape.rows)
    accumulators = shape.vectors * shape.rows * shape.columns
    loads = shape.vectors + shape.rows * shape.columns  # for each step of the sum
    return used * min(1.0, accumulators / ENOUGH_ACCUMULATORS) * (1.0 - 0.1 * loads / accumulators)


def _block_widths(columns: int) -> list[int]:
    """How many tiles of a row a block may have: all, or an equal part."""
    parts = -(-columns // WIDEST_BLOCK)
    return sorted({-(-columns // count) for count in (parts, parts + 1)})


def _heights(rows: int, unit: int, most: int) -> list[int]:
    """How many register tiles high a block may be: all, a half, ... of what there is."""
    found, count = [], -(-rows // unit)
    while True:
        if count * unit <= max(most, unit):
            found.append(count)
        if count == 1:
            return sorted(found)[-BLOCK_CHOICES:]
        count = -(-count // 2)


class _Builder:
    """Builds one sketch."""

    def __init__(
        self,
        sch: Schedule,
        products: BlockRV,
        shape: RegisterShape,
        lanes: int,
        heights: Sequence[int],
        shares: Sequence[int],
    ) -> None:
        self._sch = sch
        self._products = products
        self._shape = shape
        self._lanes = lanes
        self._wide = shape.vectors * lanes
        self._heights = heights
        self._shares = shares
        made = sch.get_producers(products)
        self._data = next(b for b in made if len(sch.get_sref(b).block.iter_vars) == 6)
        self._weights = next(b for b in made if len(sch.get_sref(b).block.iter_vars) == 4)
        self._outputs = sch.get_sref(products).block.annotations[keys.WINOGRAD_TILE]

    def run(self) -> None:
        """Do all that is needed; raises a `ScheduleError` where it is impossible."""
        sch = self._sch
        (result_rows,) = sch.get_consumers(self._products)
        (result,) = sch.get_consumers(result_rows)
        result = self._with_epilogue(result)
        for block in (self._products, self._data, self._weights, result_rows, result):
            sch.annotate(block, keys.TILING_STRUCTURE, STRUCTURE)
        self._pack_weights()  # without a choice, so that no replay does it again
        task, panel = self._transform_results(result, result_rows)
        depth = self._multiply(panel)
        self._transform_data(task)
        sch.decompose_reduction(self._products, depth)

    def _with_epilogue(self, result: BlockRV) -> BlockRV:
        """The last block of those that work on single elements of the result."""
        sch = self._sch
        while True:
            consumers = neighbours(sch, sch.get_sref(result), before=False)
            if len(consumers) != 1 or not _continues(consumers[0], sch.get_sref(result)):
                return result
            (consumer,) = sch.get_consumers(result)
            sch.compute_inline(result)
            result = consumer

    def _transform_results(self, result: BlockRV, rows: BlockRV) -> tuple[LoopRV, LoopRV]:
        """Cut the result into tasks, panels and tiles; the loops over the first two."""
        sch, shape, side = self._sch, self._shape, self._outputs
        n, h, w, k = sch.get_loops(result)
        height = choose(sch, self._heights)
        block_h, tile_h, unit, h = sch.split(h, [None, height, shape.rows, side])
        block_w, tile_w, w = sch.split(w, [None, shape.block_columns, side])
        share, panel, vector, lanes = sch.split(
            k, [choose(sch, self._shares), None, shape.vectors, self._lanes]
        )
        sch.reorder(n, block_h, block_w, share, panel, tile_h, unit, tile_w, vector, h, w, lanes)
        task = sch.fuse(n, block_h, block_w, share)
        sch.parallel(task)
        self._keep_local(rows, vector)
        write_out(self._sch, [h, w], lanes)
        return task, panel

    def _keep_local(self, rows: BlockRV, loop: LoopRV) -> None:
        """Transform along one axis right before the other, in registers."""
        sch = self._sch
        own = len(sch.get_sref(rows).block.iter_vars)
        sch.annotate(rows, keys.TILING_STRUCTURE, STRUCTURE)
        sch.compute_at(rows, loop, preserve_unit_loops=True)
        sch.set_scope(rows, 0, "local")
        *outer, lanes = sch.get_loops(rows)[-own:]
        write_out(self._sch, outer, whole_vectors(sch, lanes, self._lanes))

    def _multiply(self, panel: LoopRV) -> LoopRV:
        """Register tiles for all points of a panel of filters; the loop of their sums."""
        sch, block, shape = self._sch, self._products, self._shape
        stored = sch.cache_write(block, 0, "local")
        sch.annotate(stored, keys.TILING_STRUCTURE, STRUCTURE)
        sch.compute_at(stored, panel, preserve_unit_loops=True)
        *points, h, w, vector = sch.get_loops(stored)[-6:]
        outer_h, h = sch.split(h, [None, shape.rows])
        outer_w, w = sch.split(w, [None, shape.columns])
        sch.reorder(*points, outer_h, outer_w, h, w, vector)
        sch.compute_at(block, outer_w, preserve_unit_loops=True)
        write_out(self._sch, [h, w], whole_vectors(sch, vector, self._wide))
        *own, vector, depth = sch.get_loops(block)[-7:]
        depth, step = sch.split(depth, [None, 1 + (extent_of(sch, depth) % 2 == 0)])
        sch.reorder(depth, step, *own, vector)
        write_out(self._sch, [step, *own], whole_vectors(sch, vector, self._wide))
        return depth

    def _pack_weights(self) -> None:
        """Transform weights into panels, ahead of time if they are constants."""
        sch, block, wide = self._sch, self._weights, self._wide
        source = sch.get_sref(block).block.reads[0].buffer
        function = sch.mod[sch.state.function_of(sch.get_sref(block))]

        def panels(eps: ir.Var, nu: ir.Var, ci: ir.Var, co: ir.Var) -> tuple[ir.PrimExpr, ...]:
            return (ir.floordiv(co, wide), eps, nu, ci, ir.floormod(co, wide))

        sch.transform_layout(block, ("write", 0), panels, assume_injective_transform=True)
        *outer, filters = sch.get_loops(block)
        panel, lanes = sch.split(filters, [None, wide])
        if is_layout_free(function, source):
            sch.annotate(block, keys.LAYOUT_REWRITE_PREPROC, True)
            sch.reorder(panel, *outer, lanes)
            sch.vectorize(lanes)
        else:  # in every call: all points of a pair of channels share what they read
            eps, nu, channel = outer
            vector, lanes = sch.split(lanes, [None, self._lanes])
            sch.reorder(panel, channel, vector, eps, nu, lanes)
            write_out(sch, [eps, nu], lanes)
        sch.parallel(panel)

    def _transform_data(self, task: LoopRV) -> None:
        """Transform the data of a task; channels in vectors."""
        sch, block = self._sch, self._data
        (rows,) = sch.get_producers(block)
        stages = sch.get_producers(rows)
        sch.compute_at(block, task, preserve_unit_loops=True)
        eps, nu, *tiles, channels = sch.get_loops(block)[-6:]
        outer, lanes = sch.split(channels, [None, self._lanes])
        sch.reorder(*tiles, outer, eps, nu, lanes)
        self._keep_local(rows, outer)
        write_out(self._sch, [eps, nu], lanes)
        for stage in stages:
            self._pad(stage, task)

    def _pad(self, block: BlockRV, task: LoopRV) -> None:
        """Bring what a task needs of the image together, with zeros around it."""
        sch = self._sch
        stmt = sch.get_sref(block).block
        sch.annotate(block, keys.TILING_STRUCTURE, STRUCTURE)
        match stmt.body:
            case ir.BufferStore(value=ir.BufferLoad()):
                sch.compute_inline(block)
            case _:
                sch.compute_at(block, task, preserve_unit_loops=True)
                vectorize_last(sch, block, sch.get_loops(block)[-1])


def _continues(consumer: StmtSRef, maker: StmtSRef) -> bool:
    """True if a block makes each element from the same element of another block's result."""
    return (
        all_iters_spatial(consumer.block)
        and has_trivial_binding(consumer)
        and is_elementwise(consumer.block, maker.block)
    )

"""The frame of rules that write tile kernels: `WarpGroupTiling` and `ThreadTiling`.

The block becomes a product of matrices by fusing iterators. A block of threads computes a tile of
the result: tiles of both operands go through shared memory, and what comes after the sum is done on
the way out. How threads share the work is left to `lowering/gpu/tile_kernels`.

Decisions are the width of a tile, the order of tiles, which decides what they find in the cache,
and, where tiles are few, how many blocks of threads share the sum of each, or whether all blocks
take equal shares of all sums.
"""

from __future__ import annotations

import contextlib
import functools
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tilewright import ir, te
from tilewright.errors import LowerError, ScheduleError
from tilewright.ir.access import inputs_of
from tilewright.ir.annotation_keys import (
    FAST_SUMS,
    STREAMED,
    THREAD_ROWS,
    TILE_SPLITS,
    TILE_STAGES,
    TILING_STRUCTURE,
)
from tilewright.lowering.gpu.tile_kernels.layout import can_be_written
from tilewright.lowering.gpu.tile_kernels.lower_tile_kernels import (
    LowerTileKernels,
    processors_of,
)
from tilewright.lowering.gpu.tile_kernels.tile_form import CopyRefused
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.schedule.analysis import get_auto_tensorize_mapping_info
from tilewright.space.base import NotApplied, ScheduleRule, TaskContext
from tilewright.space.conditions import why_not_free
from tilewright.space.cpu.elementwise_loops import extent_of
from tilewright.space.gpu.packed_operands import packed_operand
from tilewright.space.gpu.thin_products import is_thin_product
from tilewright.space.gpu.thread_vectors import sampled
from tilewright.space.tvm.tensor_core_layout import Reindexed, transform_for_tensorization
from tilewright.target import Target

STRUCTURE = "tile kernel"
_ORDERS = (1, 4, 8, 16)  # rows of tiles that are done together
_FEW_ROWS = 48
_SPLITS = (1, 2, 4, 8)  # blocks of threads that share the sum of a tile
_LEAST_STEPS = 4  # of each of them
_FAST_WIDTH = 128  # columns
_MOST_USED = 0.93  # of processors: where more have work, sharing steps costs more than it saves


class Types(NamedTuple):
    """Of both operands, and of the sum of their products."""

    left: str
    right: str
    sums: str


class TileShape(NamedTuple):
    """Rows of a tile, the columns to choose from, and who shares the work."""

    rows: int
    columns: tuple[int, ...]
    depth: int  # bytes of the sum in one step
    annotations: Mapping[str, int]


class Way(NamedTuple):
    """Shapes of tiles, and whether matrices that cannot be fetched as they lie may be packed."""

    shapes: Sequence[TileShape]
    packs_matrices: bool = False

    @property
    def on_threads(self) -> bool:
        """Whether threads multiply on their own, without tensor cores."""
        return any(THREAD_ROWS in shape.annotations for shape in self.shapes)


@dataclass(frozen=True, eq=False)
class _Staged:
    """A product whose operands and result have copies that are still to be moved into tiles."""

    sch: Schedule
    fetched: Sequence[BlockRV]
    output: BlockRV
    loops: Sequence[LoopRV]


class TileRule(ScheduleRule):
    """A rule that writes tile kernels: for some types, where the target can run them."""

    types: ClassVar[Sequence[Types]]
    ways: ClassVar[Sequence[Way]]  # the first one of which kernels can be made is taken
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
        attrs = sch.mod[sch.state.function_of(sref)].attrs
        dtypes = types_of(sref.block)
        if dtypes is None or not self.knows(dtypes, attrs):
            return NotApplied(sch, self.other_types)
        assert self._target is not None
        marks = {key: 1 for key in (FAST_SUMS,) if attrs.get(key)}
        refused: NotApplied | None = None
        for way in self.ways:
            made = _Tiling(dtypes, marks, self._target, way).sketches(sch, block)
            if not isinstance(made, NotApplied):
                # Rows by themselves are the better kernels of some, so both are tried.
                return [sch, *made] if is_thin_product(sref.block) else made
            refused = refused or made
        assert refused is not None
        return refused

    def knows(self, dtypes: Types, attrs: Mapping[str, object]) -> bool:
        """Whether it writes kernels for these types, in a function with these attributes."""
        return dtypes in self.types


def types_of(block: ir.Block) -> Types | None:
    """The types of a product of two operands; sums of short floats are added up in float32."""
    inputs = [str(region.buffer.dtype) for region in inputs_of(block).values()]
    if len(inputs) != 2 or len(block.writes) != 1:
        return None
    left, right = inputs
    return Types(left, right, str(block.writes[0].buffer.dtype.accumulator))


@functools.cache
def _product(dtypes: Types) -> ir.PrimFunc:
    """A product of matrices of these types."""
    left = te.placeholder((16, 16), dtypes.left, name="left")
    right = te.placeholder((16, 16), dtypes.right, name="right")
    k, sums = te.reduce_axis((0, 16), name="k"), dtypes.sums
    product = te.compute(
        (16, 16),
        lambda i, j: te.sum(left[i, k].astype(sums) * right[k, j].astype(sums), axis=k),
        name="product",
    )
    return te.create_prim_func([left, right, product])


@dataclass(frozen=True)
class _Tiling:
    """Writes the sketches of a rule for one block."""

    dtypes: Types
    marks: Mapping[str, int]  # annotations of the loop over tiles
    target: Target
    way: Way

    def sketches(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """One sketch for each shape of which a kernel can be made."""
        made, reason, packed = [], "", list[int]()
        product = sch.copy()
        try:
            operands = self._as_product(product, block)
        except ScheduleError as error:
            return NotApplied(sch, _reason(error))
        staged = functools.cache(
            lambda *packed: self._staged(product.copy(), block, operands, packed)
        )
        for shape in self.way.shapes:
            try:
                made.append(self._sketch(staged, shape, packed))
            except (ScheduleError, LowerError) as error:
                reason = _reason(error)
        return made or NotApplied(sch, reason)

    def _as_product(self, sch: Schedule, block: BlockRV) -> Reindexed:
        """Make a block a product of matrices, for all shapes alike."""
        if str(sch.get_sref(block).block.writes[0].buffer.dtype) != self.dtypes.sums:
            sch.widen_accumulator(block, self.dtypes.sums)
        mapping = get_auto_tensorize_mapping_info(sch, block, _product(self.dtypes))
        if mapping is None:
            raise ScheduleError("it is not a product of two matrices")
        return transform_for_tensorization(sch, block, mapping)

    def _sketch(
        self, staged: Callable[..., _Staged], shape: TileShape, packed: list[int]
    ) -> Schedule:
        """A sketch that can be lowered; what must be packed for that is added to `packed`."""
        product = staged(*packed)
        made = self._tiled(product, shape)
        try:
            LowerTileKernels()(made.mod, self.target)
        except CopyRefused as error:
            written = [made.get_sref(copy).block.writes[0].buffer for copy in product.fetched]
            position = written.index(error.written)
            may_pack = self.way.packs_matrices and not error.is_windows
            if not may_pack or position in packed:
                raise
            packed.append(position)
            try:
                return self._sketch(staged, shape, packed)
            except LowerError:
                packed.remove(position)  # it did not help
                raise error from None
        return made

    def _staged(
        self, sch: Schedule, block: BlockRV, operands: Reindexed, packed: Sequence[int]
    ) -> _Staged:
        """Give a block copies of both operands and of its result, for all shapes alike.

        At some of these positions kernels of their own pack operands. No decision changes any of
        this: replays begin behind it.
        """
        on_threads = self.way.on_threads
        converted = [on_threads and given != self.dtypes.sums for given in self.dtypes[:2]]
        for copy, is_converted in zip(operands.reads, converted, strict=True):
            if is_converted:
                sch.unsafe_set_dtype(copy, 0, self.dtypes.sums)
        output = sch.cache_write(block, 0, "local" if on_threads else "wgmma.accumulator")
        fetched = [sch.cache_read(block, position, "shared.dyn") for position in range(2)]
        for position, copy in enumerate(operands.reads):
            if converted[position]:
                sch = packed_operand(sch, copy, is_turned=False)
            elif position in packed:
                sch = packed_operand(sch, copy, is_turned=position == 1)
            else:
                _inline_producers(sch, copy)
        sch.reverse_compute_inline(operands.write)
        _inline_consumers(sch, output, on_threads=on_threads)
        for each in (*fetched, block, output):
            sch.annotate(each, TILING_STRUCTURE, STRUCTURE)
        return _Staged(sch, fetched, output, sch.get_loops(block))

    def _tiled(self, product: _Staged, shape: TileShape) -> Schedule:
        """Tile a product; its copies move to where tiles need them."""
        sch = product.sch.copy()
        step, tiles = self._loops(sch, product.loops, shape)
        sch.reverse_compute_at(product.output, tiles, preserve_unit_loops=True)
        for copy in product.fetched:
            sch.compute_at(copy, step, preserve_unit_loops=True)
        return sch

    def _loops(
        self, sch: Schedule, loops: Sequence[LoopRV], shape: TileShape
    ) -> tuple[LoopRV, LoopRV]:
        """The loop over steps of the sum, and the one over tiles."""
        *batch, rows, columns, depth = loops
        extents = [extent_of(sch, loop) for loop in (*batch, rows, columns)]
        widths = _columns_of(extents[-1], shape)
        width = sampled(sch, widths)
        row, inner_row = sch.split(rows, [None, shape.rows])
        column, inner_column = sch.split(columns, [None, width])
        on_threads = self.way.on_threads
        size = ir.DType(self.dtypes.sums if on_threads else self.dtypes.left).itemsize
        step, inner_depth = sch.split(depth, [None, shape.depth // size])
        outer, together = sch.split(row, [None, sampled(sch, _orders_of(extent_of(sch, row)))])
        sch.reorder(*batch, outer, column, together, step, inner_row, inner_column, inner_depth)
        tiles = sch.fuse(*batch, outer, column, together)
        sch.bind(tiles, "blockIdx.x")
        for key, value in {TILE_STAGES: 0, **shape.annotations, **self.marks}.items():
            sch.annotate(tiles, key, value)
        if not on_threads:
            counts = [
                math.prod(extents[:-2]) * math.ceil(extents[-2] / shape.rows) * across
                for across in (math.ceil(extents[-1] / width) for width in _wide(widths))
            ]
            splits = _splits_of(extent_of(sch, step), counts, processors_of(self.target))
            if splits != [1]:
                sch.annotate(tiles, TILE_SPLITS, sampled(sch, splits))
        return step, tiles


def _reason(error: Exception) -> str:
    return str(error).rpartition("but ")[2]


def _columns_of(count: int, shape: TileShape) -> list[int]:
    """Widths of tiles that are not much wider than the result."""
    enough = next((w for w in shape.columns if w >= count), shape.columns[-1])
    return [width for width in shape.columns if width <= enough]


def _orders_of(rows: int) -> list[int]:
    """Rows of tiles that may be done together: near those wanted, or all where they are few."""
    divisors = [n for n in range(1, _ORDERS[-1] + 1) if rows % n == 0]
    wanted = {min(divisors, key=lambda n, near=near: abs(n - near)) for near in _ORDERS}  # type: ignore[misc]
    return sorted(wanted | ({rows} if rows <= _FEW_ROWS else set()))


def _splits_of(steps: int, tiles: Sequence[int], processors: int) -> list[int]:
    """How many blocks of a cluster may share a tile, where the tiles alone leave processors idle.

    0 stands for all blocks sharing the steps of all tiles.
    """
    splits = [
        n for n in _SPLITS if n == 1 or (steps >= n * _LEAST_STEPS and min(tiles) * n <= processors)
    ]
    is_shared = all(
        _used_part(count, processors) < _MOST_USED and count * steps >= processors * _LEAST_STEPS
        for count in tiles
    )
    return [*splits, STREAMED] if is_shared else splits


def _wide(widths: Sequence[int]) -> list[int]:
    """The widths at which tensor cores are fast, or the largest."""
    return [width for width in widths if width >= _FAST_WIDTH] or [*widths[-1:]]


def _used_part(tiles: int, processors: int) -> float:
    """Of processors, over all rounds of tiles."""
    return tiles / (math.ceil(tiles / processors) * processors)


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
        _inline_operands(sch, consumers[0], output)
        try:
            sch.reverse_compute_inline(consumers[0])
        except ScheduleError:
            return  # so is what cannot be done on the way


def _inline_operands(sch: Schedule, consumer: BlockRV, output: BlockRV) -> None:
    """What else a consumer reads and is computed after the tiles: a bias in another type, say."""
    for producer in sch.get_producers(consumer):
        if sch.get(producer) is not sch.get(output):
            with contextlib.suppress(ScheduleError):
                sch.compute_inline(producer)


def _result_type(sch: Schedule, block: BlockRV) -> ir.DType:
    stmt = sch.get(block)
    assert isinstance(stmt, ir.Block)
    return stmt.writes[0].buffer.dtype

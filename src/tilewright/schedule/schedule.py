"""`Schedule`: a program and the steps that transform it.

One method a primitive, and nothing in it but the call: what a primitive does and checks lives in a
file of its own under `primitives/`, its manual in `docs/primitives`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tilewright.errors import ScheduleError
from tilewright.ir import PrimExpr
from tilewright.schedule.core import (
    BufferLike,
    IndexMapLike,
    ScheduleCore,
    WrongArgument,
    as_index_map,
)
from tilewright.schedule.layouts.layout import as_pad_value
from tilewright.schedule.primitives import get_blocks
from tilewright.schedule.primitives.add_unit_loop import AddUnitLoop
from tilewright.schedule.primitives.annotate import Annotate, Unannotate
from tilewright.schedule.primitives.blockize import Blockize
from tilewright.schedule.primitives.cache_index import CacheIndex
from tilewright.schedule.primitives.cache_inplace import CacheInplace
from tilewright.schedule.primitives.cache_read import CacheRead
from tilewright.schedule.primitives.cache_write import CacheWrite
from tilewright.schedule.primitives.compute_at import ComputeAt, ReverseComputeAt
from tilewright.schedule.primitives.compute_inline import ComputeInline
from tilewright.schedule.primitives.copy_at import ReadAt, WriteAt
from tilewright.schedule.primitives.declared_access import (
    AnnotateBufferAccess,
    UnsafeHideBufferAccess,
    bounds_map,
    side_number,
)
from tilewright.schedule.primitives.decompose_padding import DecomposePadding
from tilewright.schedule.primitives.decompose_reduction import DecomposeReduction
from tilewright.schedule.primitives.enter_postproc import EnterPostproc
from tilewright.schedule.primitives.fuse import Fuse
from tilewright.schedule.primitives.loop_kind import Bind, Parallel, Unroll, Vectorize
from tilewright.schedule.primitives.loop_partition import PartitionLoop
from tilewright.schedule.primitives.merge import Merge
from tilewright.schedule.primitives.pad_einsum import PadEinsum
from tilewright.schedule.primitives.reindex import ReIndex
from tilewright.schedule.primitives.reindex_cache import ReindexCacheRead, ReindexCacheWrite
from tilewright.schedule.primitives.reorder import Reorder
from tilewright.schedule.primitives.reorder_block_iter_var import ReorderBlockIterVar
from tilewright.schedule.primitives.reverse_compute_inline import ReverseComputeInline
from tilewright.schedule.primitives.rfactor import RFactor
from tilewright.schedule.primitives.rolling_buffer import RollingBuffer
from tilewright.schedule.primitives.sample_categorical import SampleCategorical
from tilewright.schedule.primitives.sample_compute_location import SampleComputeLocation
from tilewright.schedule.primitives.sample_perfect_tile import (
    SamplePartitionedTile,
    SamplePerfectTile,
)
from tilewright.schedule.primitives.set_axis_separator import SetAxisSeparator
from tilewright.schedule.primitives.set_scope import SetScope
from tilewright.schedule.primitives.shift_operand import ShiftOperand
from tilewright.schedule.primitives.split import Split
from tilewright.schedule.primitives.storage_align import StorageAlign
from tilewright.schedule.primitives.tensorize import Tensorize
from tilewright.schedule.primitives.transform_block_layout import TransformBlockLayout
from tilewright.schedule.primitives.transform_layout import TransformLayout
from tilewright.schedule.primitives.unsafe_set_dtype import UnsafeSetDType
from tilewright.schedule.primitives.widen_accumulator import WidenAccumulator
from tilewright.schedule.primitives.winograd import Winograd
from tilewright.schedule.state import BlockRV, ExprRV, LoopRV

BlockLike: TypeAlias = BlockRV | str
Factor: TypeAlias = int | PrimExpr | None


class Schedule(ScheduleCore):
    """A module under transformation, handles to its blocks and loops, a trace of all steps."""

    def block(self, block: BlockLike) -> BlockRV:
        """A block given by handle or by name; a name is looked up, which is a step of its own."""
        return self.get_block(block) if isinstance(block, str) else block

    def _side_of(self, block: BlockLike, buffer: BufferLike, side: str) -> tuple[BlockRV, int]:
        target = self.block(block)
        return target, self.buffer_index(target, buffer, side)

    # --- sampling -------------------------------------------------------------------------------

    def sample_categorical(
        self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
    ) -> ExprRV:
        return self.run(SampleCategorical(list(candidates), list(probs)), decision)

    def sample_perfect_tile(
        self,
        loop: LoopRV,
        n: int,
        max_innermost_factor: int = 16,
        decision: Sequence[int] | None = None,
    ) -> list[ExprRV]:
        chosen = None if decision is None else list(decision)
        return self.run(SamplePerfectTile(loop, n, max_innermost_factor), chosen)

    def sample_partitioned_tile(
        self,
        loop: LoopRV,
        n: int,
        partition_pos: int = 0,
        innerpart_factor: int = 1,
        decision: Sequence[int] | None = None,
    ) -> list[ExprRV]:
        chosen = None if decision is None else list(decision)
        return self.run(SamplePartitionedTile(loop, n, partition_pos, innerpart_factor), chosen)

    def sample_compute_location(self, block: BlockLike, decision: int | None = None) -> LoopRV:
        return self.run(SampleComputeLocation(self.block(block)), decision)

    # --- getters --------------------------------------------------------------------------------

    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        if not isinstance(name, str):
            raise WrongArgument(f"get_block: the name of a block is a text, got {name!r}")
        function = func_name or self.func_working_on
        if function is None:
            raise ScheduleError(
                "the module has several functions; say which with func_name= or work_on()"
            )
        return self.run(get_blocks.GetBlock(name, function))

    def get_loops(self, block: BlockLike) -> list[LoopRV]:
        return self.run(get_blocks.GetLoops(self.block(block)))

    def get_child_blocks(self, block_or_loop: BlockRV | LoopRV) -> list[BlockRV]:
        return self.run(get_blocks.GetChildBlocks(block_or_loop))

    def get_producers(self, block: BlockLike) -> list[BlockRV]:
        return self.run(get_blocks.GetProducers(self.block(block)))

    def get_consumers(self, block: BlockLike) -> list[BlockRV]:
        return self.run(get_blocks.GetConsumers(self.block(block)))

    def get_output_blocks(self, scope_block: BlockLike) -> list[BlockRV]:
        return self.run(get_blocks.GetOutputBlocks(self.block(scope_block)))

    # --- loops ----------------------------------------------------------------------------------

    def fuse(self, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        return self.run(Fuse(loops, preserve_unit_iters))

    def merge(self, *loops: LoopRV) -> LoopRV:
        return self.run(Merge(loops))

    def split(
        self,
        loop: LoopRV,
        factors: Sequence[Factor],
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        return self.run(Split(loop, tuple(factors), preserve_unit_iters, disable_predication))

    def loop_partition(
        self, loop: LoopRV, factors: Sequence[Factor], preserve_unit_iters: bool = True
    ) -> list[LoopRV]:
        return self.run(PartitionLoop(loop, tuple(factors), preserve_unit_iters))

    def reorder(self, *ordered_loops: LoopRV) -> None:
        self.run(Reorder(ordered_loops))

    def reorder_block_iter_var(self, block: BlockLike, new_order: Sequence[int]) -> None:
        self.run(ReorderBlockIterVar(self.block(block), list(new_order)))

    def add_unit_loop(self, block_or_loop: BlockRV | LoopRV) -> LoopRV:
        return self.run(AddUnitLoop(block_or_loop))

    def parallel(self, loop: LoopRV) -> None:
        self.run(Parallel(loop))

    def vectorize(self, loop: LoopRV) -> None:
        self.run(Vectorize(loop))

    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        self.run(Bind(loop, thread_axis))

    def unroll(self, loop: LoopRV) -> None:
        self.run(Unroll(loop))

    # --- cache stages ---------------------------------------------------------------------------

    def cache_read(
        self,
        block: BlockLike,
        read_buffer_index: BufferLike,
        storage_scope: str,
        consumer_blocks: Sequence[BlockLike] | None = None,
    ) -> BlockRV:
        target, index = self._side_of(block, read_buffer_index, "read")
        consumers = [self.block(consumer) for consumer in consumer_blocks or ()]
        return self.run(CacheRead(target, index, storage_scope, consumers))

    def cache_write(
        self,
        block: BlockLike,
        write_buffer_index: BufferLike,
        storage_scope: str,
        consumer_blocks: Sequence[BlockLike] | None = None,
    ) -> BlockRV:
        target, index = self._side_of(block, write_buffer_index, "write")
        consumers = [self.block(consumer) for consumer in consumer_blocks or ()]
        return self.run(CacheWrite(target, index, storage_scope, consumers))

    def reindex_cache_read(
        self,
        block: BlockLike,
        read_buffer_index: BufferLike,
        storage_scope: str,
        index_map: IndexMapLike,
    ) -> BlockRV:
        target, index = self._side_of(block, read_buffer_index, "read")
        layout = self.block_index_map(target, index_map)
        return self.run(ReindexCacheRead(target, index, storage_scope, layout))

    def reindex_cache_write(
        self,
        block: BlockLike,
        write_buffer_index: BufferLike,
        storage_scope: str,
        index_map: IndexMapLike,
    ) -> BlockRV:
        target, index = self._side_of(block, write_buffer_index, "write")
        layout = self.block_index_map(target, index_map)
        return self.run(ReindexCacheWrite(target, index, storage_scope, layout))

    def cache_inplace(
        self, block: BlockLike, read_buffer_index: BufferLike, storage_scope: str
    ) -> list[BlockRV]:
        target, index = self._side_of(block, read_buffer_index, "read")
        return self.run(CacheInplace(target, index, storage_scope))

    def cache_index(
        self, block: BlockLike, storage_scope: str, cse_thresh: int = 0
    ) -> list[BlockRV]:
        return self.run(CacheIndex(self.block(block), storage_scope, cse_thresh))

    def reindex(self, block: BlockLike, buffer: BufferLike) -> BlockRV:
        target = self.block(block)
        kind, index = self.buffer_side(target, buffer)
        return self.run(ReIndex(target, index, kind))

    def read_at(
        self, loop: LoopRV, block: BlockLike, read_buffer_index: int, storage_scope: str
    ) -> BlockRV:
        return self.run(ReadAt(loop, self.block(block), read_buffer_index, storage_scope))

    def write_at(
        self, loop: LoopRV, block: BlockLike, write_buffer_index: int, storage_scope: str
    ) -> BlockRV:
        return self.run(WriteAt(loop, self.block(block), write_buffer_index, storage_scope))

    # --- where a block is computed --------------------------------------------------------------

    def compute_at(
        self, block: BlockLike, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        self.run(ComputeAt(self.block(block), loop, preserve_unit_loops, index))

    def reverse_compute_at(
        self, block: BlockLike, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        self.run(ReverseComputeAt(self.block(block), loop, preserve_unit_loops, index))

    def compute_inline(self, block: BlockLike) -> None:
        self.run(ComputeInline(self.block(block)))

    def reverse_compute_inline(self, block: BlockLike) -> None:
        self.run(ReverseComputeInline(self.block(block)))

    # --- reductions -----------------------------------------------------------------------------

    def decompose_reduction(self, block: BlockLike, loop: LoopRV) -> BlockRV:
        return self.run(DecomposeReduction(self.block(block), loop))

    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        return self.run(RFactor(loop, factor_axis))

    # --- buffers --------------------------------------------------------------------------------

    def storage_align(
        self, block: BlockLike, buffer_index: int, axis: int, factor: int, offset: int
    ) -> None:
        self.run(StorageAlign(self.block(block), buffer_index, axis, factor, offset))

    def set_scope(self, block: BlockLike, buffer_index: BufferLike, storage_scope: str) -> None:
        self.run(SetScope(*self._side_of(block, buffer_index, "write"), storage_scope))

    def unsafe_set_dtype(self, block: BlockLike, buffer_index: int, dtype: str) -> None:
        self.run(UnsafeSetDType(self.block(block), buffer_index, dtype))

    def rolling_buffer(self, block: BlockLike, write_buffer_index: int) -> None:
        self.run(RollingBuffer(self.block(block), write_buffer_index))

    def unsafe_hide_buffer_access(
        self, block: BlockLike, buf_type: str, buf_index_array: Sequence[int]
    ) -> None:
        self.run(UnsafeHideBufferAccess(self.block(block), buf_type, list(buf_index_array)))

    def annotate_buffer_access(
        self, block: BlockLike, buffer_index: int, buf_type: str, gen_new_ranges: IndexMapLike
    ) -> None:
        target = self.block(block)
        bounds = bounds_map(self.get_sref(target).block, gen_new_ranges)
        self.run(AnnotateBufferAccess(target, buffer_index, side_number(buf_type), bounds))

    # --- blocks and tensor instructions ---------------------------------------------------------

    def blockize(
        self, target: LoopRV | Sequence[BlockRV], preserve_unit_iters: bool = True
    ) -> BlockRV:
        what = target if isinstance(target, LoopRV) else list(target)
        return self.run(Blockize(what, preserve_unit_iters))

    def tensorize(
        self, block_or_loop: BlockRV | LoopRV, tensor_intrin: str, preserve_unit_iters: bool = True
    ) -> None:
        self.run(Tensorize(block_or_loop, tensor_intrin, preserve_unit_iters))

    # --- annotations ----------------------------------------------------------------------------

    def annotate(self, block_or_loop: BlockRV | LoopRV, ann_key: str, ann_val: Any) -> None:
        if not isinstance(ann_key, str):
            raise WrongArgument(f"annotate: the key is a text, got {ann_key!r}")
        self.run(Annotate(block_or_loop, ann_key, ann_val))

    def unannotate(self, block_or_loop: BlockRV | LoopRV, ann_key: str) -> None:
        self.run(Unannotate(block_or_loop, ann_key))

    # --- layouts and padding --------------------------------------------------------------------

    def transform_layout(
        self,
        block: BlockLike,
        buffer: BufferLike,
        index_map: IndexMapLike,
        pad_value: Any = None,
        *,
        assume_injective_transform: bool = False,
    ) -> None:
        target = self.block(block)
        kind, index = self.buffer_side(target, buffer)
        chosen = self.buffer_of(target, kind, index)
        layout, separators = as_index_map(
            index_map, chosen.ndim, [extent.dtype for extent in chosen.shape]
        )
        padding = as_pad_value(pad_value, len(layout.final_indices), chosen)
        self.run(TransformLayout(target, index, kind, layout, padding, assume_injective_transform))
        if separators:
            self.run(SetAxisSeparator(target, index, kind, separators))

    def transform_block_layout(self, block: BlockLike, index_map: IndexMapLike) -> None:
        target = self.block(block)
        self.run(TransformBlockLayout(target, self.block_index_map(target, index_map)))

    def set_axis_separator(
        self, block: BlockLike, buffer: BufferLike, axis_separators: Sequence[int]
    ) -> None:
        target = self.block(block)
        kind, index = self.buffer_side(target, buffer)
        self.run(SetAxisSeparator(target, index, kind, list(axis_separators)))

    def decompose_padding(self, block: BlockLike, loop: LoopRV) -> BlockRV:
        return self.run(DecomposePadding(self.block(block), loop))

    def can_decompose_padding(self, block: BlockLike, loop: LoopRV) -> bool:
        """True when `decompose_padding` would succeed; not recorded."""
        trial = self.copy()
        trial.trace = None
        try:
            trial.decompose_padding(block, loop)
        except ScheduleError:
            return False
        return True

    def pad_einsum(self, block: BlockLike, padding: Sequence[int]) -> None:
        self.run(PadEinsum(self.block(block), list(padding)))

    def shift_operand(self, block: BlockLike, read_buffer_index: int) -> list[BlockRV]:
        """Give one operand of a sum of products of integers the other sign.

        The blocks that make the shifted operand and the sums that results start from.
        """
        return self.run(ShiftOperand(self.block(block), read_buffer_index))

    def widen_accumulator(self, block: BlockLike, dtype: str) -> BlockRV:
        """Let a reduction add up in a wider floating type; the block that rounds its results."""
        return self.run(WidenAccumulator(self.block(block), str(dtype)))

    def winograd(self, block: BlockLike, tile_size: int) -> None:
        """Compute a convolution of 3 x 3 windows by tiles; the block becomes that of products."""
        self.run(Winograd(self.block(block), tile_size))

    def enter_postproc(self) -> None:
        self.run(EnterPostproc())

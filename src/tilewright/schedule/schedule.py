"""`Schedule`: a program and the steps that transform it.

One method a primitive, and nothing in it but the call: what a primitive does and checks lives in a
file of its own under `primitives/`, its manual in `docs/primitives`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

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
from tilewright.schedule.primitives.declared_access import bounds_map, side_number
from tilewright.schedule.state.handles import BlockRV, ExprRV, LoopRV

BlockLike: TypeAlias = BlockRV | str
Factor: TypeAlias = int | PrimExpr | None


class Schedule(ScheduleCore):
    """A module under transformation, handles to its blocks and loops, a trace of all steps."""

    def block(self, block: BlockLike) -> BlockRV:
        """A block given by handle or by name; a name is looked up, which is a step of its own."""
        return self.get_block(block) if isinstance(block, str) else block

    # --- sampling -------------------------------------------------------------------------------

    def sample_categorical(
        self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
    ) -> ExprRV:
        attrs = (list(candidates), list(probs))
        return cast(ExprRV, self._run("SampleCategorical", (), attrs, decision=decision))

    def sample_perfect_tile(
        self,
        loop: LoopRV,
        n: int,
        max_innermost_factor: int = 16,
        decision: Sequence[int] | None = None,
    ) -> list[ExprRV]:
        attrs = (n, max_innermost_factor)
        chosen = None if decision is None else list(decision)
        return cast("list[ExprRV]", self._run("SamplePerfectTile", (loop,), attrs, decision=chosen))

    def sample_partitioned_tile(
        self,
        loop: LoopRV,
        n: int,
        partition_pos: int = 0,
        innerpart_factor: int = 1,
        decision: Sequence[int] | None = None,
    ) -> list[ExprRV]:
        attrs = (n, partition_pos, innerpart_factor)
        chosen = None if decision is None else list(decision)
        made = self._run("SamplePartitionedTile", (loop,), attrs, decision=chosen)
        return cast("list[ExprRV]", made)

    def sample_compute_location(self, block: BlockLike, decision: int | None = None) -> LoopRV:
        inputs = (self.block(block),)
        return cast(LoopRV, self._run("SampleComputeLocation", inputs, decision=decision))

    # --- getters --------------------------------------------------------------------------------

    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        if not isinstance(name, str):
            raise WrongArgument(f"get_block: the name of a block is a text, got {name!r}")
        function = func_name or self.func_working_on
        if function is None:
            raise ScheduleError(
                "the module has several functions; say which with func_name= or work_on()"
            )
        return cast(BlockRV, self._run("GetBlock", (), (name, function)))

    def get_loops(self, block: BlockLike) -> list[LoopRV]:
        return cast("list[LoopRV]", self._run("GetLoops", (self.block(block),)))

    def get_child_blocks(self, block_or_loop: BlockRV | LoopRV) -> list[BlockRV]:
        return cast("list[BlockRV]", self._run("GetChildBlocks", (block_or_loop,)))

    def get_producers(self, block: BlockLike) -> list[BlockRV]:
        return cast("list[BlockRV]", self._run("GetProducers", (self.block(block),)))

    def get_consumers(self, block: BlockLike) -> list[BlockRV]:
        return cast("list[BlockRV]", self._run("GetConsumers", (self.block(block),)))

    def get_output_blocks(self, scope_block: BlockLike) -> list[BlockRV]:
        return cast("list[BlockRV]", self._run("GetOutputBlocks", (self.block(scope_block),)))

    # --- loops ----------------------------------------------------------------------------------

    def fuse(self, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        return cast(LoopRV, self._run("Fuse", loops, (preserve_unit_iters,)))

    def merge(self, *loops: LoopRV) -> LoopRV:
        return cast(LoopRV, self._run("Merge", loops))

    def split(
        self,
        loop: LoopRV,
        factors: Sequence[Factor],
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        attrs = (preserve_unit_iters, disable_predication)
        return cast("list[LoopRV]", self._run("Split", (loop, *factors), attrs))

    def loop_partition(
        self, loop: LoopRV, factors: Sequence[Factor], preserve_unit_iters: bool = True
    ) -> list[LoopRV]:
        made = self._run("LoopPartition", (loop, *factors), (preserve_unit_iters,))
        return cast("list[LoopRV]", made)

    def reorder(self, *ordered_loops: LoopRV) -> None:
        self._run("Reorder", ordered_loops)

    def reorder_block_iter_var(self, block: BlockLike, new_order: Sequence[int]) -> None:
        self._run("ReorderBlockIterVar", (self.block(block), list(new_order)))

    def add_unit_loop(self, block_or_loop: BlockRV | LoopRV) -> LoopRV:
        return cast(LoopRV, self._run("AddUnitLoop", (block_or_loop,)))

    def parallel(self, loop: LoopRV) -> None:
        self._run("Parallel", (loop,))

    def vectorize(self, loop: LoopRV) -> None:
        self._run("Vectorize", (loop,))

    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        self._run("Bind", (loop,), (thread_axis,))

    def unroll(self, loop: LoopRV) -> None:
        self._run("Unroll", (loop,))

    # --- cache stages ---------------------------------------------------------------------------

    def cache_read(
        self,
        block: BlockLike,
        read_buffer_index: BufferLike,
        storage_scope: str,
        consumer_blocks: Sequence[BlockLike] | None = None,
    ) -> BlockRV:
        target = self.block(block)
        index = self.buffer_index(target, read_buffer_index, "read")
        consumers = [self.block(consumer) for consumer in consumer_blocks or ()]
        return cast(BlockRV, self._run("CacheRead", (target, consumers), (index, storage_scope)))

    def cache_write(
        self,
        block: BlockLike,
        write_buffer_index: BufferLike,
        storage_scope: str,
        consumer_blocks: Sequence[BlockLike] | None = None,
    ) -> BlockRV:
        target = self.block(block)
        index = self.buffer_index(target, write_buffer_index, "write")
        consumers = [self.block(consumer) for consumer in consumer_blocks or ()]
        return cast(BlockRV, self._run("CacheWrite", (target, consumers), (index, storage_scope)))

    def reindex_cache_read(
        self,
        block: BlockLike,
        read_buffer_index: BufferLike,
        storage_scope: str,
        index_map: IndexMapLike,
    ) -> BlockRV:
        target = self.block(block)
        index = self.buffer_index(target, read_buffer_index, "read")
        inputs = (target, self.block_index_map(target, index_map))
        return cast(BlockRV, self._run("ReindexCacheRead", inputs, (index, storage_scope)))

    def reindex_cache_write(
        self,
        block: BlockLike,
        write_buffer_index: BufferLike,
        storage_scope: str,
        index_map: IndexMapLike,
    ) -> BlockRV:
        target = self.block(block)
        index = self.buffer_index(target, write_buffer_index, "write")
        inputs = (target, self.block_index_map(target, index_map))
        return cast(BlockRV, self._run("ReindexCacheWrite", inputs, (index, storage_scope)))

    def cache_inplace(
        self, block: BlockLike, read_buffer_index: BufferLike, storage_scope: str
    ) -> list[BlockRV]:
        target = self.block(block)
        index = self.buffer_index(target, read_buffer_index, "read")
        return cast("list[BlockRV]", self._run("CacheInplace", (target,), (index, storage_scope)))

    def cache_index(
        self, block: BlockLike, storage_scope: str, cse_thresh: int = 0
    ) -> list[BlockRV]:
        made = self._run("CacheIndex", (self.block(block),), (storage_scope, cse_thresh))
        return cast("list[BlockRV]", made)

    def reindex(self, block: BlockLike, buffer: BufferLike) -> BlockRV:
        target = self.block(block)
        kind, index = self.buffer_side(target, buffer)
        return cast(BlockRV, self._run("ReIndex", (target,), (index, kind)))

    def read_at(
        self, loop: LoopRV, block: BlockLike, read_buffer_index: int, storage_scope: str
    ) -> BlockRV:
        attrs = (read_buffer_index, storage_scope)
        return cast(BlockRV, self._run("ReadAt", (loop, self.block(block)), attrs))

    def write_at(
        self, loop: LoopRV, block: BlockLike, write_buffer_index: int, storage_scope: str
    ) -> BlockRV:
        attrs = (write_buffer_index, storage_scope)
        return cast(BlockRV, self._run("WriteAt", (loop, self.block(block)), attrs))

    # --- where a block is computed --------------------------------------------------------------

    def compute_at(
        self, block: BlockLike, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        self._run("ComputeAt", (self.block(block), loop), (preserve_unit_loops, index))

    def reverse_compute_at(
        self, block: BlockLike, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        self._run("ReverseComputeAt", (self.block(block), loop), (preserve_unit_loops, index))

    def compute_inline(self, block: BlockLike) -> None:
        self._run("ComputeInline", (self.block(block),))

    def reverse_compute_inline(self, block: BlockLike) -> None:
        self._run("ReverseComputeInline", (self.block(block),))

    # --- reductions -----------------------------------------------------------------------------

    def decompose_reduction(self, block: BlockLike, loop: LoopRV) -> BlockRV:
        return cast(BlockRV, self._run("DecomposeReduction", (self.block(block), loop)))

    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        return cast(BlockRV, self._run("RFactor", (loop,), (factor_axis,)))

    # --- buffers --------------------------------------------------------------------------------

    def storage_align(
        self, block: BlockLike, buffer_index: int, axis: int, factor: int, offset: int
    ) -> None:
        self._run("StorageAlign", (self.block(block),), (buffer_index, axis, factor, offset))

    def set_scope(self, block: BlockLike, buffer_index: BufferLike, storage_scope: str) -> None:
        target = self.block(block)
        index = self.buffer_index(target, buffer_index, "write")
        self._run("SetScope", (target,), (index, storage_scope))

    def unsafe_set_dtype(self, block: BlockLike, buffer_index: int, dtype: str) -> None:
        self._run("UnsafeSetDType", (self.block(block),), (buffer_index, dtype))

    def rolling_buffer(self, block: BlockLike, write_buffer_index: int) -> None:
        self._run("RollingBuffer", (self.block(block),), (write_buffer_index,))

    def unsafe_hide_buffer_access(
        self, block: BlockLike, buf_type: str, buf_index_array: Sequence[int]
    ) -> None:
        inputs = (self.block(block), buf_type, list(buf_index_array))
        self._run("UnsafeHideBufferAccess", inputs)

    def annotate_buffer_access(
        self, block: BlockLike, buffer_index: int, buf_type: str, gen_new_ranges: IndexMapLike
    ) -> None:
        target = self.block(block)
        bounds = bounds_map(self.get_sref(target).block, gen_new_ranges)
        inputs = (target, buffer_index, side_number(buf_type), bounds)
        self._run("AnnotateBufferAccess", inputs)

    # --- blocks and tensor instructions ---------------------------------------------------------

    def blockize(
        self, target: LoopRV | Sequence[BlockRV], preserve_unit_iters: bool = True
    ) -> BlockRV:
        what = target if isinstance(target, LoopRV) else list(target)
        return cast(BlockRV, self._run("Blockize", (what,), (preserve_unit_iters,)))

    def tensorize(
        self,
        block_or_loop: BlockRV | LoopRV,
        tensor_intrin: str,
        preserve_unit_iters: bool = True,
    ) -> None:
        self._run("Tensorize", (block_or_loop,), (tensor_intrin, preserve_unit_iters))

    # --- annotations ----------------------------------------------------------------------------

    def annotate(self, block_or_loop: BlockRV | LoopRV, ann_key: str, ann_val: Any) -> None:
        if not isinstance(ann_key, str):
            raise WrongArgument(f"annotate: the key is a text, got {ann_key!r}")
        self._run("Annotate", (block_or_loop, ann_val), (ann_key,))

    def unannotate(self, block_or_loop: BlockRV | LoopRV, ann_key: str) -> None:
        self._run("Unannotate", (block_or_loop,), (ann_key,))

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
        attrs = (index, kind, padding, assume_injective_transform)
        self._run("TransformLayout", (target, layout), attrs)
        if separators:
            self._run("SetAxisSeparator", (target,), (index, kind, separators))

    def transform_block_layout(self, block: BlockLike, index_map: IndexMapLike) -> None:
        target = self.block(block)
        self._run("TransformBlockLayout", (target,), (self.block_index_map(target, index_map),))

    def set_axis_separator(
        self, block: BlockLike, buffer: BufferLike, axis_separators: Sequence[int]
    ) -> None:
        target = self.block(block)
        kind, index = self.buffer_side(target, buffer)
        self._run("SetAxisSeparator", (target,), (index, kind, list(axis_separators)))

    def decompose_padding(self, block: BlockLike, loop: LoopRV) -> BlockRV:
        return cast(BlockRV, self._run("DecomposePadding", (self.block(block), loop)))

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
        self._run("PadEinsum", (self.block(block),), (list(padding),))

    def shift_operand(self, block: BlockLike, read_buffer_index: int) -> list[BlockRV]:
        """Give one operand of a sum of products of integers the other sign.

        The blocks that make the shifted operand and the sums that results start from.
        """
        made = self._run("ShiftOperand", (self.block(block),), (read_buffer_index,))
        return cast(list[BlockRV], made)

    def widen_accumulator(self, block: BlockLike, dtype: str) -> BlockRV:
        """Let a reduction add up in a wider floating type; the block that rounds its results."""
        return cast(BlockRV, self._run("WidenAccumulator", (self.block(block),), (str(dtype),)))

    def enter_postproc(self) -> None:
        self._run("EnterPostproc", ())

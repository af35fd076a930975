"""`MultiLevelTilingTensorCore`: tile a block around the matrix instructions of NVIDIA GPUs.

What the instructions need beyond plain tiling: layouts in which the block is a matrix product
(`tensor_core_layout`), fragments of both inputs and the result in registers of a warp, and shared
memory whose rows are padded so that loads do not collide.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilewright.errors import TuneError
from tilewright.ir import annotation_keys as keys
from tilewright.ir.access import inputs_of
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.schedule import BlockRV, Schedule
from tilewright.schedule.analysis import AutoTensorizeMappingInfo, get_auto_tensorize_mapping_info
from tilewright.schedule.tensor.tiling import tile_with_tensor_intrin
from tilewright.space.base import NotApplied, schedule_rules
from tilewright.space.tvm import multi_level_tiling, tensor_core_layout
from tilewright.space.tvm.tensor_core_fragments import IntrinGroup

_WARP_AXIS = "threadIdx.y"
_FRAGMENTS = ((0, "matrix_a", "load_a"), (1, "matrix_b", "load_b"))
# Rows of inputs in shared memory start this far apart from a multiple of 32 elements.
_ROW_OFFSET = {"float16": 8, "int8": 16}
# Steps of a sum that `cp.async` brings to shared memory ahead, and the one that is computed.
_STAGES = (2, 3, 4)
_logger = logging.getLogger(__name__)


@dataclass
class TensorCoreState(multi_level_tiling.TilingState):
    """A block half-way to tensor cores."""

    group: IntrinGroup = field(kw_only=True)  # the instructions to use
    mapping: AutoTensorizeMappingInfo = field(kw_only=True)
    reindexed: tensor_core_layout.Reindexed | None = None

    @property
    def copies(self) -> tensor_core_layout.Reindexed:
        """The blocks that change layouts."""
        assert self.reindexed is not None
        return self.reindexed


@schedule_rules.register("MultiLevelTilingTensorCore")
class MultiLevelTilingTensorCore(multi_level_tiling.MultiLevelTiling):
    """Tiles blocks that are matrix products up to the order of their iterators.

    Of `intrin_groups` each that fits gives sketches of its own. `permuted_layout`: where fragments
    are loaded by `ldmatrix`, shared memory is free of bank conflicts without padding.
    """

    def __init__(
        self,
        intrin_groups: Sequence[Mapping[str, str]],
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: multi_level_tiling.ReuseLike = None,
        reuse_write: multi_level_tiling.ReuseLike = None,
        use_software_pipeline: bool = False,
        permuted_layout: bool = False,
    ) -> None:
        self.intrin_groups = [IntrinGroup.of(group) for group in intrin_groups]
        self.use_software_pipeline = use_software_pipeline
        self.permuted_layout = permuted_layout
        super().__init__(
            structure, tile_binds, max_innermost_factor, vector_load_lens, reuse_read, reuse_write
        )
        self._check_for_warps()

    def _check_for_warps(self) -> None:
        name = "MultiLevelTilingTensorCore"
        if "threadIdx.x" in self.tile_binds:
            raise TuneError(
                f"{name}: tile_binds has 'threadIdx.x', but these are the threads of a warp, which "
                "run an instruction together; bind 'threadIdx.y'"
            )
        if _WARP_AXIS not in self.tile_binds:
            raise TuneError(f"{name}: tile_binds must have {_WARP_AXIS!r}, the warps of a block")
        if len(self.r_indices) < 2:
            raise TuneError(
                f"{name}: the structure {self.structure!r} needs two R: fragments are loaded "
                "inside the loops that fill shared memory"
            )
        write = self.reuse_write
        if write.req != "must" or len(write.levels) != 1 or not write.scope.startswith("shared"):
            raise TuneError(
                f"{name}: reuse_write must be 'must' at one level in 'shared' or 'shared.dyn', "
                f"got {write.as_dict()}"
            )
        if self.reuse_read.req != "must" or not self.reuse_read.scope.startswith("shared"):
            raise TuneError(
                f"{name}: reuse_read must be 'must' in 'shared' or 'shared.dyn', "
                f"got {self.reuse_read.as_dict()}"
            )

    # --- the frame ------------------------------------------------------------------------------

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if reason := self.why_not(sch, block):
            return NotApplied(sch, reason)
        states = []
        # The last group first, as TVM does: the order decides which random numbers each one gets.
        for group, mapping in reversed(self._fitting(sch, block)):
            made = sch.copy()
            made.annotate(block, keys.TILING_STRUCTURE, self.structure)
            states.append(TensorCoreState(made, block, group=group, mapping=mapping))
        done = [after.sch for state in states for after in self.run(state)]
        return done or NotApplied(sch, "it does not compute what the tensor instructions do")

    def _fitting(
        self, sch: Schedule, block: BlockRV
    ) -> list[tuple[IntrinGroup, AutoTensorizeMappingInfo]]:
        """The groups whose instruction computes what the block does, and how."""
        stmt = sch.get_sref(block).block
        if len(inputs_of(stmt)) != 2 or len(stmt.writes) != 1:
            return []
        found = []
        for group in self.intrin_groups:
            intrin = TensorIntrin.get(group.tiles.compute)
            assert intrin is not None
            mapping = get_auto_tensorize_mapping_info(sch, block, intrin.desc)
            if mapping is not None:
                found.append((group, mapping))
        return found

    def sub_rules(self) -> Sequence[multi_level_tiling.SubRule]:
        return (
            self.transform_for_tensorization,
            self.tile_loop_nest,
            self.transform_output_layout,
            self.add_write_reuse,
            self.add_accumulator,
            self.add_read_reuse,
            self.add_fragments,
            self.add_software_pipeline,
        )

    # --- the block as a matrix product ----------------------------------------------------------

    def transform_for_tensorization(self, state: TensorCoreState) -> list[TensorCoreState]:
        """Bring buffers into the layouts of the instruction, and its loops into a block."""
        sch, block, names = state.sch, state.block, state.group
        reindexed = tensor_core_layout.transform_for_tensorization(sch, block, state.mapping)
        tile = tile_with_tensor_intrin(sch, block, names.tiles.compute, allow_padding=True)
        if tile is None:
            return []
        outer = sch.blockize(tile)
        sch.annotate(outer, keys.AUTO_TENSORIZE, names.compute)
        sch.annotate(outer, keys.AUTO_TENSORIZE_INIT, names.init)
        sch.annotate(outer, keys.WARP_EXECUTION, 1)
        return [replace(state, block=outer, reindexed=reindexed)]

    def transform_output_layout(self, state: TensorCoreState) -> list[TensorCoreState]:
        """Order the result by the warps that compute it."""
        sch, block = state.sch, state.block
        warps = self.tile_binds.index(_WARP_AXIS)
        inside = [slot for slot in self.s_indices if slot > warps]
        rows, columns = ([state.factors[slot][loop] for slot in inside] for loop in (-2, -1))
        ndim = sch.get_sref(block).block.writes[0].buffer.ndim
        layout = tensor_core_layout.accumulator_layout(ndim, state.group.tiles.init, rows, columns)
        sch.transform_layout(block, ("write", 0), layout, assume_injective_transform=True)
        return [state]

    # --- fragments ------------------------------------------------------------------------------

    def add_accumulator(self, state: TensorCoreState) -> list[TensorCoreState]:
        """Compute into fragments; each warp stores its own to shared memory, all copy that out."""
        sch = state.sch
        write_back = state.write_caches[self.reuse_write.levels[0]]
        group = state.group
        store = sch.cache_write(state.block, 0, group.scope("accumulator"))
        warp_row, warp_column, row, column = sch.get_loops(write_back)[-6:-2]
        sch.reorder(row, warp_row, warp_column, column)
        sch.compute_at(store, row, preserve_unit_loops=True)
        warps = sch.fuse(*sch.get_loops(store)[-6:-4])
        sch.bind(warps, _WARP_AXIS)
        sch.reverse_compute_inline(state.copies.write)
        group.spread(sch, store, "read", group.init)
        whole_store = sch.blockize(sch.get_loops(store)[-2])
        sch.annotate(whole_store, keys.AUTO_TENSORIZE, group.store)
        sch.fuse(*sch.get_loops(write_back)[-5:])
        self.annotate_cooperative_fetch(sch, write_back)
        return [state]

    def add_fragments(self, state: TensorCoreState) -> list[TensorCoreState]:
        """Load fragments of both inputs from shared memory."""
        sch = state.sch
        inner = state.tiles[self.r_indices[1]][-1]
        for index, fragment, key in _FRAGMENTS:
            load = sch.cache_read(state.block, index, state.group.scope(fragment))
            sch.compute_at(load, inner, preserve_unit_loops=True)
            tile = tile_with_tensor_intrin(sch, load, getattr(state.group.tiles, key))
            if tile is None:
                return []
            name: str = getattr(state.group, key)
            state.group.spread(sch, load, "write", name)
            sch.annotate(sch.blockize(tile), keys.AUTO_TENSORIZE, name)
        for copy in state.copies.reads:
            sch.compute_inline(copy)
        for cache in state.read_caches.values():
            if self.permuted_layout and state.group.is_mma:
                sch.annotate(cache, keys.PERMUTED_LAYOUT, 1)
            else:
                _pad_rows(sch, cache)
        return [state]

    # --- fetching while computing ---------------------------------------------------------------

    def add_software_pipeline(self, state: TensorCoreState) -> list[TensorCoreState]:
        """Fetch the next tile into shared memory, and the next fragments, while computing."""
        sch = state.sch
        factors = [factor for slot in self.r_indices for factor in state.factors[slot]]
        if not self.use_software_pipeline or math.prod(map(sch.int_of, factors)) <= 1:
            return [state]
        if state.group.is_mma and self.async_stages:
            return [self._copied_ahead(state, stages) for stages in _STAGES]
        for cache in state.read_caches.values():
            sch.annotate(cache, keys.MANIFEST_SHARED_MEMORY_LOCAL_STAGE, 1)
            sch.annotate(cache, keys.DOUBLE_BUFFER_SCOPE, 0)
        # Inside: load a, load b | compute.
        inner = state.tiles[self.r_indices[1]][-1]
        sch.annotate(inner, keys.SOFTWARE_PIPELINE_STAGE, [0, 0, 1])
        sch.annotate(inner, keys.SOFTWARE_PIPELINE_ORDER, [0, 1, 2])
        # Outside: both inputs to registers, from there to shared memory, then the three parts of
        # the inner pipeline (its beginning, its body, its end); only the last two wait.
        outer = state.tiles[self.r_indices[0]][-1]
        sch.annotate(outer, keys.SOFTWARE_PIPELINE_STAGE, [0, 0, 0, 0, 0, 1, 1])
        sch.annotate(outer, keys.SOFTWARE_PIPELINE_ORDER, [0, 3, 1, 4, 5, 2, 6])
        return [state]

    def _copied_ahead(self, state: TensorCoreState, stages: int) -> TensorCoreState:
        """Copies to shared memory run by themselves; those of `stages` steps are there at a time.

        A step is computed before later ones are asked for: then one barrier does, which says that
        all threads are done with the step before.
        """
        made = state.copy()
        loop = made.tiles[self.r_indices[0]][-1]
        made.sch.annotate(loop, keys.SOFTWARE_PIPELINE_STAGE, [0, 0, stages - 1])
        made.sch.annotate(loop, keys.SOFTWARE_PIPELINE_ORDER, [1, 2, 0])
        made.sch.annotate(loop, keys.SOFTWARE_PIPELINE_ASYNC_STAGES, [0])
        return made


def _pad_rows(sch: Schedule, cache: BlockRV) -> None:
    """Let rows in shared memory start in different banks."""
    buffer = sch.get_sref(cache).block.writes[0].buffer
    if (offset := _ROW_OFFSET.get(str(buffer.dtype))) is None:
        _logger.warning(
            "MultiLevelTilingTensorCore: no padding against bank conflicts is known for %s of "
            "type %s",
            buffer.name,
            buffer.dtype,
        )
        return
    sch.storage_align(cache, 0, -2, 32, offset)

"""`MultiLevelTilingWithIntrin`: tile a block around one tensor instruction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.ir import Block, annotation_keys as keys
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.schedule import BlockRV, Schedule
from tilewright.schedule.analysis.auto_tensorize import match_bodies
from tilewright.schedule.analysis.tensorize_info import description_block
from tilewright.schedule.tensor.tiling import tile_with_tensor_intrin
from tilewright.space.base import NotApplied, schedule_rules
from tilewright.space.conditions import why_not_free
from tilewright.space.tensor.fit import adapt_to_intrin, is_tensorizable
from tilewright.space.tvm import multi_level_tiling


@schedule_rules.register("MultiLevelTilingWithIntrin")
class MultiLevelTilingWithIntrin(multi_level_tiling.MultiLevelTiling):
    """Tiles blocks that compute what the instruction `intrin_name` does, and no others.

    With `adapt_operands`, extents that do not divide are padded where that pays, operands are
    packed in the order of the instruction, and the untouched schedule competes with what is made.
    """

    def __init__(
        self,
        intrin_name: str,
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: multi_level_tiling.ReuseLike = None,
        reuse_write: multi_level_tiling.ReuseLike = None,
        filter_fn: multi_level_tiling.FilterFn | None = None,
        *,
        adapt_operands: bool = False,
    ) -> None:
        tiles = structure, tile_binds, max_innermost_factor, vector_load_lens
        super().__init__(*tiles, reuse_read, reuse_write, filter_fn)
        TensorIntrin.get(intrin_name)  # raises if there is no such instruction
        self.intrin_name = intrin_name
        self.adapt_operands = adapt_operands

    @property
    def intrin(self) -> TensorIntrin:
        """The instruction."""
        found = TensorIntrin.get(self.intrin_name)
        assert found is not None
        return found

    def computes(self, block: Block) -> bool:
        """True when a block computes what the instruction does, whatever its loops and layouts."""
        return match_bodies(block, description_block(self.intrin.desc).block) is not None

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        sref = sch.get_sref(block)
        if not self.computes(sref.block):
            other = "it does not compute what the tensor instruction does"
            return NotApplied(sch, why_not_free(sref) or other)
        if self.adapt_operands and (reason := self.why_not(sch, block)):
            return NotApplied(sch, reason)
        made = super().apply(sch.copy(), block)
        if not made:
            return NotApplied(sch, "its loops do not fit the tensor instruction")
        return [*made, sch] if self.adapt_operands else made

    def sub_rules(self) -> Sequence[multi_level_tiling.SubRule]:
        return (self.tile_for_intrin, *super().sub_rules())

    def tile_for_intrin(
        self, state: multi_level_tiling.TilingState
    ) -> list[multi_level_tiling.TilingState]:
        """Make the loops of the instruction a block of their own, around which tiles are put."""
        sch = state.sch
        if self.adapt_operands and not adapt_to_intrin(sch, state.block, self.intrin):
            return []
        tile = tile_with_tensor_intrin(sch, state.block, self.intrin_name)
        if tile is None:
            return []
        outer = sch.blockize(tile)
        if self.adapt_operands and not is_tensorizable(sch, outer, self.intrin):
            return []
        sch.annotate(outer, keys.AUTO_TENSORIZE, self.intrin_name)
        return [replace(state, block=outer)]

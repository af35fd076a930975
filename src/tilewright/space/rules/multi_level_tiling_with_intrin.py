"""`MultiLevelTilingWithIntrin`: tile a block around one tensor instruction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.schedule import BlockRV, Schedule
from tilewright.schedule.analysis import is_auto_tensorize_applicable
from tilewright.schedule.tensor_tiling import tile_with_tensor_intrin
from tilewright.space.annotations import AUTO_TENSORIZE
from tilewright.space.base import schedule_rules
from tilewright.space.rules.multi_level_tiling import FilterFn, MultiLevelTiling, SubRule
from tilewright.space.rules.reuse import ReuseLike
from tilewright.space.rules.tiling_state import TilingState


@schedule_rules.register("MultiLevelTilingWithIntrin")
class MultiLevelTilingWithIntrin(MultiLevelTiling):
    """Tiles blocks that compute what the instruction `intrin_name` does, and no others."""

    def __init__(
        self,
        intrin_name: str,
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: ReuseLike = None,
        reuse_write: ReuseLike = None,
        filter_fn: FilterFn | None = None,
    ) -> None:
        super().__init__(
            structure,
            tile_binds,
            max_innermost_factor,
            vector_load_lens,
            reuse_read,
            reuse_write,
            filter_fn,
        )
        TensorIntrin.get(intrin_name)  # raises if there is no such instruction
        self.intrin_name = intrin_name

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        intrin = TensorIntrin.get(self.intrin_name)
        assert intrin is not None
        if not is_auto_tensorize_applicable(sch, block, intrin.desc):
            return [sch]
        return super().apply(sch.copy(), block) or [sch]

    def sub_rules(self) -> Sequence[SubRule]:
        return (self.tile_for_intrin, *super().sub_rules())

    def tile_for_intrin(self, state: TilingState) -> list[TilingState]:
        """Make the loops of the instruction a block of their own, around which tiles are put."""
        sch = state.sch
        tile = tile_with_tensor_intrin(sch, state.block, self.intrin_name)
        if tile is None:
            return []
        outer = sch.blockize(tile)
        sch.annotate(outer, AUTO_TENSORIZE, self.intrin_name)
        return [replace(state, block=outer)]

"""`MultiLevelTilingWideVector`: tiles whose innermost one is exactly a vector register."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import IntImm
from tilewright.schedule import BlockRV, LoopRV, Schedule
from tilewright.space.base import schedule_rules
from tilewright.space.tvm.multi_level_tiling import Factor, MultiLevelTiling, ReuseLike


@schedule_rules.register("MultiLevelTilingWideVector")
class MultiLevelTilingWideVector(MultiLevelTiling):
    """The loop over the last dimension of the result ends in a tile of the width of a vector."""

    def __init__(
        self,
        structure: str,
        vector_length_in_bits: int,
        max_innermost_factor: int | None = None,
        reuse_read: ReuseLike = None,
        reuse_write: ReuseLike = None,
    ) -> None:
        super().__init__(
            structure,
            max_innermost_factor=max_innermost_factor,
            reuse_read=reuse_read,
            reuse_write=reuse_write,
        )
        self.vector_length_in_bits = vector_length_in_bits

    def split_loop(
        self, sch: Schedule, block: BlockRV, loop: LoopRV, n_tiles: int
    ) -> tuple[Sequence[Factor], Sequence[LoopRV]]:
        if not _runs_over_last_dimension(sch, block, loop):
            return super().split_loop(sch, block, loop, n_tiles)
        buffer = sch.get_sref(block).block.writes[0].buffer
        lanes = self.vector_length_in_bits // buffer.dtype.bits
        extent = sch.get_sref(loop).loop.extent
        if not isinstance(extent, IntImm) or extent.value <= lanes:
            factors: list[Factor] = [1] * (n_tiles - 1)
            last = extent.value if isinstance(extent, IntImm) else extent
            return [*factors, last], sch.split(loop, [*factors, last])
        outer, inner = sch.split(loop, [None, lanes])
        sampled = sch.sample_perfect_tile(outer, n_tiles - 1, self.max_innermost_factor)
        return [*sampled, lanes], [*sch.split(outer, sampled), inner]


def _runs_over_last_dimension(sch: Schedule, block: BlockRV, loop: LoopRV) -> bool:
    """True for the loop bound to the iterator that stands where the last dimension does."""
    sref = sch.get_sref(block)
    position = sref.block.writes[0].buffer.ndim - 1
    values = sref.realize.iter_values
    loop_var = sch.get_sref(loop).loop.loop_var
    return 0 <= position < len(values) and values[position] is loop_var

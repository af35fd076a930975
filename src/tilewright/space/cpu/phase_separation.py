"""`SeparatePhases`: transposed convolutions compute the results of one phase after the other.

With a stride of two, every other row and column of the stretched input is zero: results with an
even and with an odd position read different weights. A register tile of neighbours therefore uses
each weight that it loads for a quarter of its rows. Here the positions of results are renumbered,
`h` as `(h % 2, h // 2)`, so that the tile of `RegisterTiling` holds results of one phase, all of
which read the same weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright import ir
from tilewright.nest.block_nest import BlockNest
from tilewright.schedule import BlockRV, Schedule, StmtSRef
from tilewright.schedule.analysis import has_trivial_binding
from tilewright.schedule.primitives.get_blocks import neighbours
from tilewright.space.base import schedule_rules
from tilewright.space.conditions import UNUSUAL_BINDING
from tilewright.space.cpu.contraction import Contraction
from tilewright.space.cpu.cpu_rule import OneSketchRule
from tilewright.space.cpu.register_tiling import is_elementwise


@schedule_rules.register("SeparatePhases")
class SeparatePhases(OneSketchRule):
    """Renumbers the iterators of a contraction whose terms are zero at a period."""

    def _refusal(self, sch: Schedule, block: StmtSRef) -> str:
        contraction = Contraction.of(block.block)
        if contraction is None or contraction.right is None:
            return "it is not a sum of products that runs along the last axis of its result"
        if not has_trivial_binding(block):
            return UNUSUAL_BINDING
        nest = BlockNest(block.block)
        if not nest.writes[0].ends_in([nest.iters[n] for n in nest.spatial]):
            return "its iterators are not the axes of its result"
        return (
            ""
            if _periods(contraction, contraction.rows)
            else "none of its terms are zero at a period"
        )

    def _schedule(self, sch: Schedule, block: BlockRV) -> None:
        stmt = sch.get_sref(block).block
        contraction = Contraction.of(stmt)
        assert contraction is not None
        spatial = BlockNest(stmt).spatial
        phases = _periods(contraction, contraction.rows)
        results = _renumbering({spatial.index(n): period for n, period in phases.items()})
        consumer = self._write_back(sch, block)
        sch.transform_layout(block, ("write", 0), results, assume_injective_transform=True)
        sch.transform_block_layout(consumer, results)
        depth = _periods(contraction, contraction.depth)
        sch.transform_block_layout(block, _renumbering({**phases, **depth}))

    def _write_back(self, sch: Schedule, block: BlockRV) -> BlockRV:
        """The only consumer, if it works on single elements; else a copy."""
        sref = sch.get_sref(block)
        consumers = neighbours(sch, sref, before=False)
        if len(consumers) == 1 and is_elementwise(consumers[0].block, sref.block):
            (consumer,) = sch.get_consumers(block)
            return consumer
        return sch.cache_write(block, 0, "global")


def _periods(contraction: Contraction, iterators: tuple[int, ...]) -> dict[int, int]:
    """The periods of some iterators, as far as they divide their extents and are not all of it."""
    return {
        n: contraction.periods[n]
        for n in iterators
        if n in contraction.periods
        and contraction.extents[n] > contraction.periods[n] > 1
        and contraction.extents[n] % contraction.periods[n] == 0
    }


def _renumbering(periods: Mapping[int, int]) -> Callable[..., tuple[ir.PrimExpr, ...]]:
    """Phases come first, as many as there are periods; then the other positions, in order."""

    def renumber(*indices: ir.PrimExpr) -> tuple[ir.PrimExpr, ...]:
        phases = [ir.floormod(indices[n], period) for n, period in periods.items()]
        within = [ir.floordiv(index, periods.get(n, 1)) for n, index in enumerate(indices)]
        return (*phases, *within)

    return renumber

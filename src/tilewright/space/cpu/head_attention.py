"""`HeadAttention`: a head, and a block of its queries, from scores to results in one cache.

`topi.nn.head_attention` says which stage of it a block is. Heads run in parallel, or blocks of
queries where there are too few heads. Keys and values of a head are packed once. For each block of
queries both products run in tiles of vector registers and what is between them by rows, in vectors.
"""

from __future__ import annotations

from tilewright.ir import annotation_keys as keys
from tilewright.nest.loops import known_extent
from tilewright.schedule import BlockRV, LoopRV, Schedule, StmtSRef
from tilewright.space.base import schedule_rules
from tilewright.space.cpu import elementwise_loops
from tilewright.space.cpu.cpu_rule import OneSketchRule
from tilewright.space.cpu.vector_reduction import reduce_in_vectors

STRUCTURE = "attention"
TILE_ROWS = 8
WIDTHS = (1, 2, 4)  # vectors of a tile of results
# Last first: each is moved to where the ones before it need it.
STAGES = ("sums", "total", "powers", "largest", "scores", "products")
PACKED = ("keys", "values")


@schedule_rules.register("HeadAttention")
class HeadAttention(OneSketchRule):
    """Schedules all stages at once, beginning with the last."""

    def _refusal(self, sch: Schedule, block: StmtSRef) -> str:
        is_last = block.block.annotations.get(keys.HEAD_ATTENTION) == "result"
        return "" if is_last else "it is not the result of an attention of several heads"

    def _schedule(self, sch: Schedule, block: BlockRV) -> None:
        stages = _stages_before(sch, block)
        rows = known_extent(sch.get_sref(stages["total"]).block.iter_vars[3]) or 1
        batch, query, head, feature = sch.get_loops(block)
        number, row = sch.split(query, [None, rows])
        sch.reorder(batch, head, number, row, feature)
        for name in STAGES:
            sch.compute_at(stages[name], number, preserve_unit_loops=True)
        heads = elementwise_loops.extent_of(sch, batch) * elementwise_loops.extent_of(sch, head)
        if heads % self._cores == 0 or heads >= 4 * self._cores:
            for name in PACKED:
                elementwise_loops.move_beside(sch, stages[name], head)
            sch.parallel(sch.fuse(batch, head))
        else:
            sch.parallel(sch.fuse(batch, head, number))
        self._products(sch, stages["products"], stages["scores"])
        self._products(sch, stages["sums"], None)
        self._by_rows(sch, block, stages)

    def _by_rows(self, sch: Schedule, block: BlockRV, stages: dict[str, BlockRV]) -> None:
        for name in ("largest", "total"):
            reduce_in_vectors(sch, stages[name], self._shape)
        for other in (stages["powers"], block):
            sch.annotate(other, keys.TILING_STRUCTURE, STRUCTURE)
            elementwise_loops.vectorize_last(sch, other, sch.get_loops(other)[-1])

    def _products(self, sch: Schedule, block: BlockRV, consumer: BlockRV | None) -> None:
        """A product in tiles of registers, which a consumer takes up or a copy writes back."""
        *_, row, column, depth = sch.get_loops(block)
        lanes = self._shape.lanes(sch.get_sref(block).block.writes[0].buffer.dtype.bits)
        widths = [
            n * lanes for n in WIDTHS if elementwise_loops.extent_of(sch, column) % (n * lanes) == 0
        ]
        width = elementwise_loops.choose(sch, widths or [lanes])
        limit = self._shape.tile_rows(sch.get_sref(block).block, max(widths or [lanes]), lanes)
        rows = _most_rows(limit, elementwise_loops.extent_of(sch, row))
        group, rest = sch.split(row, [None, rows])
        panel, lane = sch.split(column, [None, width])
        sch.reorder(group, panel, depth, rest, lane)
        self._write_back(sch, block, consumer, panel)
        sch.annotate(block, keys.TILING_STRUCTURE, STRUCTURE)
        elementwise_loops.write_out(sch, [rest], lane)
        sch.decompose_reduction(block, depth)

    def _write_back(
        self, sch: Schedule, block: BlockRV, consumer: BlockRV | None, panel: LoopRV
    ) -> None:
        if consumer is None:
            consumer = sch.cache_write(block, 0, "local")
        else:
            sch.set_scope(block, 0, "local")
        sch.reverse_compute_at(consumer, panel, preserve_unit_loops=True)
        sch.annotate(consumer, keys.TILING_STRUCTURE, STRUCTURE)
        *_, row, lane = sch.get_loops(consumer)
        elementwise_loops.write_out(sch, [row], lane)


def _stages_before(sch: Schedule, block: BlockRV) -> dict[str, BlockRV]:
    """All stages by name."""
    found: dict[str, BlockRV] = {}
    pending = [block]
    while pending:
        for producer in sch.get_producers(pending.pop()):
            name = str(sch.get_sref(producer).block.annotations.get(keys.HEAD_ATTENTION))
            if name not in found:
                found[name] = producer
                pending.append(producer)
    return found


def _most_rows(limit: int, extent: int) -> int:
    """The most rows of a tile that divide a block."""
    return max(n for n in range(1, TILE_ROWS + 1) if n <= limit and extent % n == 0)

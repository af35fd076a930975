"""`cache_write`: compute a block into a buffer of its own, and copy the result from there."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import Block, Buffer
from tilewright.schedule.caches.place import (
    CachePlace,
    RelaxedRegion,
    is_fixed_box,
    place_before,
    relaxed_region,
)
from tilewright.schedule.caches.stage import (
    accessed_region,
    check_matched_buffers,
    check_storage_scope,
    insert_cache,
    make_cache,
    mark_copy_block,
    only_writer,
    readers_after,
    reads_buffer,
)
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state import BlockRV, ScheduleState, StmtSRef
from tilewright.schedule.state.flags import forget_flow, reads_only_its_own
from tilewright.schedule.state.scope import lowest_common_ancestor
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive


class WriterReadsItsBuffer(PrimitiveError):
    reason = "block {block!r} reads buffer {buffer!r}, which it writes, before it is in the cache"
    remedy = "use cache_inplace, which also fills the cache"


class PartialWrite(PrimitiveError):
    reason = "block {block!r} may leave parts of {buffer!r} unwritten that would be copied back"
    remedy = "cache blocks that write all of a region"


def cache_write(
    state: ScheduleState,
    block: StmtSRef,
    index: int,
    storage_scope: str,
    consumers: Sequence[StmtSRef] = (),
) -> StmtSRef:
    """Give `block` a buffer of its own; only the listed consumers read from that one, too."""
    check_storage_scope(storage_scope)
    region = accessed_region(block, "writes", index)
    buffer = region.buffer
    top = block.scope_root
    scope = state.scope_of(top)
    only_writer(scope.buffer_writers[buffer], buffer)
    if reads_buffer(block.block, buffer) and not reads_only_its_own(state, block, buffer):
        raise WriterReadsItsBuffer(block=block, buffer=buffer.name)
    readers = readers_after(scope, block, buffer)
    chosen = [reader for reader in readers if reader in consumers]
    check_matched_buffers((block, *chosen), buffer, storage_scope)
    others = [reader for reader in readers if reader not in consumers]
    place = CachePlace(top, at_end=True)
    if others:
        place = place_before(lowest_common_ancestor((block, others[0])), block, others[0])
    relaxed = relaxed_region(state, block, region, place)
    check_no_gaps(block, buffer, relaxed, place, top.block)
    compact = is_fixed_box(place, relaxed.ranges)
    cache = make_cache(buffer, storage_scope, relaxed.ranges, compact=compact)
    copy = insert_cache(state, top, cache, (block, *chosen), place, into_cache=False)
    forget_flow(state, *readers)
    complete = relaxed.is_exact and place.location.is_block
    return mark_copy_block(state, copy, complete=complete)


def check_no_gaps(
    block: StmtSRef, buffer: Buffer, region: RelaxedRegion, place: CachePlace, scope: Block
) -> None:
    """Copying back must not overwrite what the block left alone, unless that means nothing."""
    if region.is_exact:
        return
    meaningless = any(known is buffer for known in scope.alloc_buffers)
    if not (meaningless and place.location.is_block):
        raise PartialWrite(block=block, buffer=buffer.name)


@register_primitive
class CacheWrite(Primitive[BlockRV]):
    moves_blocks = False
    block: BlockRV = given()
    write_buffer_index: int
    storage_scope: str
    consumer_blocks: list[BlockRV] = given(optional=True)

    def run(self, sch: ScheduleCore) -> BlockRV:
        block = sch.get_sref(self.block)
        consumers = [sch.get_sref(consumer) for consumer in self.consumer_blocks]
        index, scope = self.write_buffer_index, self.storage_scope
        return sch.block_rv(cache_write(sch.state, block, index, scope, consumers))

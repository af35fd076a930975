"""`cache_write`: compute a block into a buffer of its own, and copy the result from there."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import Block, Buffer
from tilewright.schedule.caches import place as places, stage
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
    stage.check_storage_scope(storage_scope)
    region = stage.accessed_region(block, "writes", index)
    buffer = region.buffer
    top = block.scope_root
    scope = state.scope_of(top)
    stage.only_writer(scope.buffer_writers[buffer], buffer)
    if stage.reads_buffer(block.block, buffer) and not reads_only_its_own(state, block, buffer):
        raise WriterReadsItsBuffer(block=block, buffer=buffer.name)
    readers = stage.readers_after(scope, block, buffer)
    chosen = [reader for reader in readers if reader in consumers]
    stage.check_matched_buffers((block, *chosen), buffer, storage_scope)
    others = [reader for reader in readers if reader not in consumers]
    place = places.CachePlace(top, at_end=True)
    if others:
        place = places.place_before(lowest_common_ancestor((block, others[0])), block, others[0])
    relaxed = places.relaxed_region(state, block, region, place)
    check_no_gaps(block, buffer, relaxed, place, top.block)
    cache = stage.make_cache(buffer, storage_scope, relaxed.ranges, place)
    users, exact = (block, *chosen), relaxed.is_exact
    copy = stage.insert_cache(state, cache, users, place, into_cache=False, is_exact=exact)
    forget_flow(state, *readers)
    return copy


def check_no_gaps(
    block: StmtSRef,
    buffer: Buffer,
    region: places.RelaxedRegion,
    place: places.CachePlace,
    scope: Block,
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

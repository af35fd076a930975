"""`cache_read`: copy a buffer into another one first, and let blocks read that one."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import Buffer, BufferRegion, Range, is_one
from tilewright.schedule.caches import place as places, stage
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state import BlockRV, StmtSRef
from tilewright.schedule.state.flags import region_cover
from tilewright.schedule.state.scope import BlockScope, loops_from, lowest_common_ancestor
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive


class NoReaderToCache(PrimitiveError):
    reason = "no block that reads {buffer!r} after it was written would read the cache"
    remedy = "give as block or consumer_blocks those of this scope that read it after that"


class ReadsMoreThanWritten(PrimitiveError):
    reason = "block {block!r} may read parts of {buffer!r} or of other buffers before their writers"
    remedy = "only what was written before is copied; put the blocks in the order of their data"


@register_primitive
class CacheRead(Primitive[BlockRV]):
    """Let the readers of a buffer, or only the listed ones, read a copy of it."""

    block: BlockRV = given()
    read_buffer_index: int
    storage_scope: str
    consumer_blocks: list[BlockRV] = given(optional=True)

    def run(self, sch: ScheduleCore) -> BlockRV:
        state, block, storage_scope = sch.state, sch.get_sref(self.block), self.storage_scope
        consumers = [sch.get_sref(consumer) for consumer in self.consumer_blocks]
        stage.check_storage_scope(storage_scope)
        buffer = stage.accessed_region(block, "reads", self.read_buffer_index).buffer
        top = block.scope_root
        scope = state.scope_of(top)
        writer = stage.only_writer(scope.buffer_writers.get(buffer, ()), buffer)
        early = [] if writer is None else _readers_before(scope, writer, buffer)
        if early and all(reader in early for reader in consumers or [block]):
            # What they read is there from the beginning.
            writer, consumers = None, consumers or early
        readers = _chosen_readers(scope, writer, buffer, block, consumers)
        stage.check_matched_buffers(readers, buffer, storage_scope)
        if writer is None:
            place = places.place_first(top, buffer)
            region = places.RelaxedRegion(_input_region(top, buffer), True)
        else:
            for reader in readers:  # what they see was written before the copy is made
                if state.enable_check and not region_cover(state, reader):
                    raise ReadsMoreThanWritten(block=reader, buffer=buffer.name)
            location = lowest_common_ancestor((writer, readers[0]))
            place = places.place_before(location, writer, readers[0])
            region = places.relaxed_region(
                state, writer, stage.written_region(writer, buffer), place
            )
        cache = stage.make_cache(buffer, storage_scope, region.ranges, place)
        exact = region.is_exact
        copy = stage.insert_cache(state, cache, readers, place, into_cache=True, is_exact=exact)
        return sch.block_rv(copy)


def _readers_before(scope: BlockScope, writer: StmtSRef, buffer: Buffer) -> list[StmtSRef]:
    """The blocks that read a buffer, none of them ever after a block that writes it."""
    before = scope.positions[writer]
    return [
        reader
        for reader in scope.buffer_readers.get(buffer, ())
        if scope.positions[reader] < before
        and all(
            is_one(loop.extent) for loop in loops_from(lowest_common_ancestor((reader, writer)))
        )
    ]


def _chosen_readers(
    scope: BlockScope,
    writer: StmtSRef | None,
    buffer: Buffer,
    block: StmtSRef,
    consumers: Sequence[StmtSRef],
) -> list[StmtSRef]:
    if writer is None:
        readers = [leaf for leaf in scope.blocks if stage.reads_buffer(leaf.block, buffer)]
    else:
        readers = stage.readers_after(scope, writer, buffer)
    if consumers:
        readers = [reader for reader in readers if reader in consumers]
    if not readers or (not consumers and block is not writer and block not in readers):
        raise NoReaderToCache(block, buffer=buffer.name)
    return readers


def _input_region(scope: StmtSRef, buffer: Buffer) -> tuple[Range, ...]:
    """What a scope declares to read of a buffer it does not write, or all of the buffer."""
    for region in scope.block.reads:
        if region.buffer is buffer:
            return places.inside_buffer(scope, buffer, region.region)
    return BufferRegion.full(buffer).region

"""`cache_inplace`: let a block that updates a buffer in place do so in a copy of it."""

from __future__ import annotations

from tilewright.ir import substitute
from tilewright.schedule.caches import stage
from tilewright.schedule.caches.place import CachePlace, hull, inside_buffer
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state import BlockRV
from tilewright.schedule.state.flags import forget_flow
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive


class NotUpdatedInPlace(PrimitiveError):
    reason = "block {block!r} does not both read and write buffer {buffer!r}"
    remedy = "use cache_read or cache_write"


@register_primitive
class CacheInplace(Primitive[list[BlockRV]]):
    """Copy the region before each run of the block, and what it wrote back afterwards."""

    block: BlockRV = given()
    read_buffer_index: int
    storage_scope: str

    def run(self, sch: ScheduleCore) -> list[BlockRV]:
        state, block, storage_scope = sch.state, sch.get_sref(self.block), self.storage_scope
        stage.check_storage_scope(storage_scope)
        read = stage.accessed_region(block, "reads", self.read_buffer_index)
        buffer = read.buffer
        if all(region.buffer is not buffer for region in block.block.writes):
            raise NotUpdatedInPlace(block=block, buffer=buffer.name)
        stage.check_matched_buffers((block,), buffer, storage_scope)
        top, realize = block.scope_root, block.realize
        read_here = substitute(read, realize.values)
        written_here = substitute(stage.written_region(block, buffer), realize.values)
        cache = stage.cache_buffer(buffer, storage_scope)
        guard = realize.predicate  # of the copies, too
        # Parts that the block leaves alone are stored back as well.
        needed = hull([read_here.region, written_here.region])
        filled = stage.Cache(buffer, cache, inside_buffer(block.around, buffer, needed, guard))
        written = inside_buffer(block.around, buffer, written_here.region, guard)
        stored = stage.Cache(buffer, cache, written)
        fill, fill_block = stage.copy_nest(filled, into_cache=True, predicate=guard)
        store, store_block = stage.copy_nest(stored, into_cache=False, predicate=guard)
        edit = stage.ScopeEdit(top, buffers=[cache])
        edit.use_cache((block,), filled)
        edit.insert(CachePlace(top, realize), fill)
        edit.insert(CachePlace(top, realize, at_end=True), store)
        edit.apply(state)
        made = state.srefs[fill_block], state.srefs[store_block]
        for sref in made:
            state.info(sref).stage_pipeline = False
        forget_flow(state, block, *stage.readers_after(state.scope_of(top), made[1], buffer))
        return [sch.block_rv(sref) for sref in made]

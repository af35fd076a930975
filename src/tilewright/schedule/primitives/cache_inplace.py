"""`cache_inplace`: let a block that updates a buffer in place do so in a copy of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.arith import eval_set, region_union, to_range
from tilewright.ir import Buffer, BufferRegion, Range, expr_deep_equal, substitute
from tilewright.schedule.caches.place import CachePlace, inside_buffer
from tilewright.schedule.caches.stage import (
    Cache,
    ScopeEdit,
    accessed_region,
    cache_buffer,
    check_matched_buffers,
    check_storage_scope,
    copy_nest,
    readers_after,
    written_region,
)
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state.flags import forget_flow
from tilewright.schedule.state.handles import BlockRV
from tilewright.schedule.state.scope import realize_of, scope_of, scope_root
from tilewright.schedule.state.sref import StmtSRef
from tilewright.schedule.state.state import ScheduleState
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive

if TYPE_CHECKING:
    from tilewright.schedule.schedule import Schedule


class NotUpdatedInPlace(PrimitiveError):
    reason = "block {block!r} does not both read and write buffer {buffer!r}"
    remedy = "use cache_read or cache_write"


def cache_inplace(
    state: ScheduleState, block: StmtSRef, index: int, storage_scope: str
) -> tuple[StmtSRef, StmtSRef]:
    """Copy the region before each run of the block, and what it wrote back afterwards."""
    check_storage_scope(storage_scope)
    read = accessed_region(block, "reads", index)
    buffer = read.buffer
    if all(region.buffer is not buffer for region in block.block.writes):
        raise NotUpdatedInPlace(block, block=block.name, buffer=buffer.name)
    check_matched_buffers((block,), buffer, storage_scope)
    top, realize = scope_root(block), realize_of(block)
    iterators = (iter_var.var for iter_var in block.block.iter_vars)
    values = dict(zip(iterators, realize.iter_values, strict=True))
    read_here = substitute(read, values)
    written_here = substitute(written_region(block, buffer), values)
    cache = cache_buffer(buffer, storage_scope)
    around = block.parent
    assert around is not None
    guard = realize.predicate  # of the copies, too
    hull = _hull(read_here, written_here)
    filled = Cache(buffer, cache, inside_buffer(around, buffer, hull, guard))
    stored = Cache(buffer, cache, inside_buffer(around, buffer, written_here.region, guard))
    fill, fill_block = copy_nest(filled, into_cache=True, predicate=guard)
    store, store_block = copy_nest(stored, into_cache=False, predicate=guard)
    edit = ScopeEdit(top, buffers=[cache])
    edit.use_cache((block,), filled)
    edit.insert(CachePlace(top, realize), fill)
    edit.insert(CachePlace(top, realize, at_end=True), store)
    edit.apply(state)
    made = state.srefs[fill_block], state.srefs[store_block]
    for sref in made:
        state.info(sref).stage_pipeline = False
    forget_flow(state, block, *_readers(state, top, made[1], buffer))
    return made


def _readers(
    state: ScheduleState, top: StmtSRef, writer: StmtSRef, buffer: Buffer
) -> list[StmtSRef]:
    return readers_after(scope_of(state, top), writer, buffer)


def _hull(read: BufferRegion, written: BufferRegion) -> tuple[Range, ...]:
    """What must be in the cache: parts that the block leaves alone are stored back as well."""
    if expr_deep_equal(read, written):
        return read.region
    boxes = [[eval_set(axis, {}) for axis in region.region] for region in (read, written)]
    return tuple(to_range(axis) for axis in region_union(boxes))


@register_primitive
class CacheInplace(Primitive[list[BlockRV]]):
    method = "cache_inplace"
    block: BlockRV = given()
    read_buffer_index: int
    storage_scope: str

    def run(self, sch: Schedule) -> list[BlockRV]:
        block = sch.get_sref(self.block)
        made = cache_inplace(sch.state, block, self.read_buffer_index, self.storage_scope)
        return [sch.block_rv(sref) for sref in made]

"""`read_at` and `write_at`: copy what the body of a loop reads or writes, in one block.

The block carries the annotation `auto_copy`, which asks the code generators of some targets for
their best way to move the data; its body is a plain copy that runs everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import arith, ir
from tilewright.ir.access import inputs_of
from tilewright.schedule.caches import stage
from tilewright.schedule.caches.place import CachePlace, RelaxedRegion, hull, relaxed_region
from tilewright.schedule.conditions.checks import all_loops_above
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.moves.compute_at import shares_memory
from tilewright.schedule.state import BlockRV, LoopRV, ScheduleState, StmtSRef
from tilewright.schedule.state.flags import forget_flow
from tilewright.schedule.state.scope import domains_of, holds_leaf, loops_from
from tilewright.schedule.state.splice import loop_nest
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive

ANNOTATION = "auto_copy"


class LoopNotAround(PrimitiveError):
    reason = "loop {loop!r} is not around block {block!r}"
    remedy = "use one of the loops that get_loops gives for it"


class WrittenAfterRead(PrimitiveError):
    reason = "under loop {loop!r} block {writer!r} writes {buffer!r} after its first read there"
    remedy = "the copy is made before the first read; use a loop further inside"


class ReadAfterWritten(PrimitiveError):
    reason = "under loop {loop!r} block {reader!r} reads {buffer!r} after its last write there"
    remedy = "the copy is made after the last write; use a loop further inside"


class ReadsOldValues(PrimitiveError):
    reason = (
        "under loop {loop!r} block {reader!r} may read values of {buffer!r} from before the loop's "
        "body, which are not in the cache"
    )
    remedy = "choose a loop whose body writes everything first"


class WritesWithGaps(PrimitiveError):
    reason = "the blocks under loop {loop!r} may leave parts of {buffer!r} unwritten"
    remedy = "the region that is copied back must be written completely in each iteration"


class _CopyAt(Primitive[BlockRV]):
    """A copy in the body of a loop."""

    loop: LoopRV = given()
    block: BlockRV = given()

    def checked(
        self, sch: ScheduleCore, side: str, index: int, storage_scope: str
    ) -> tuple[StmtSRef, ir.Buffer, list[StmtSRef]]:
        """The loop, the buffer and the blocks under the loop."""
        loop, block = sch.get_sref(self.loop), sch.get_sref(self.block)
        stage.check_storage_scope(storage_scope)
        buffer = stage.accessed_region(block, side, index).buffer
        if not loop.is_loop or not loop.holds(block) or loop.scope_root is not block.scope_root:
            raise LoopNotAround(loop=loop, block=block)
        return loop, buffer, sch.state.child_blocks(loop)


@register_primitive
class ReadAt(_CopyAt):
    """Copy what the blocks under `loop` read of a buffer, before the first of them.

    Threads that share the cache all copy what any of them reads, so that they may do it together.
    """

    read_buffer_index: int
    storage_scope: str

    def run(self, sch: ScheduleCore) -> BlockRV:
        state, storage_scope = sch.state, self.storage_scope
        loop, buffer, leaves = self.checked(sch, "reads", self.read_buffer_index, storage_scope)
        readers = [leaf for leaf in leaves if stage.reads_buffer(leaf.block, buffer)]
        stage.check_matched_buffers(readers, buffer, storage_scope)
        items = ir.statements_of(loop.loop.body)
        # A reduction that names its result reads only what it wrote itself.
        first = min((_position(items, reader) for reader in readers), default=0)
        for writer in leaves:
            if _writes(writer.block, buffer) and _position(items, writer) >= first:
                raise WrittenAfterRead(loop=loop, writer=writer, buffer=buffer.name)
        threads = [around for around in loops_from(loop) if shares_memory(around, storage_scope)]
        boxes = [
            relaxed_region(state, reader, region, CachePlace(loop), threads)
            for reader in readers
            for region in inputs_of(reader.block).values()
            if region.buffer is buffer
        ]
        cache = stage.Cache(
            buffer, stage.cache_buffer(buffer, storage_scope), hull([box.ranges for box in boxes])
        )
        place = CachePlace(loop, items[first])
        return sch.block_rv(_insert(state, loop, cache, readers, place, into_cache=True))


@register_primitive
class WriteAt(_CopyAt):
    """Let the blocks under `loop` write a buffer of their own, copied after the last of them.

    Each thread copies what it wrote itself: what others write may not be there yet.
    """

    write_buffer_index: int
    storage_scope: str

    def run(self, sch: ScheduleCore) -> BlockRV:
        state, storage_scope = sch.state, self.storage_scope
        loop, buffer, leaves = self.checked(sch, "writes", self.write_buffer_index, storage_scope)
        writers = [leaf for leaf in leaves if _writes(leaf.block, buffer)]
        readers = [leaf for leaf in leaves if stage.reads_buffer(leaf.block, buffer)]
        users = [leaf for leaf in leaves if leaf in writers or leaf in readers]
        stage.check_matched_buffers(users, buffer, storage_scope)
        items = ir.statements_of(loop.loop.body)
        last = max(_position(items, writer) for writer in writers)
        for reader in readers:
            if _position(items, reader) > last:
                raise ReadAfterWritten(loop=loop, reader=reader, buffer=buffer.name)
        boxes = [
            relaxed_region(state, writer, region, CachePlace(loop))
            for writer in writers
            for region in writer.block.writes
            if region.buffer is buffer
        ]
        ranges = hull([box.ranges for box in boxes])
        _check_written_first(state, loop, buffer, users, boxes[0])
        exact = any(box.is_exact and ir.written_alike(box.ranges, ranges) for box in boxes)
        # Loops around may decide how often it runs, which may be never.
        may_not_run = ir.uses_var(loop.loop.extent, all_loops_above(loop).__contains__)
        if not exact or may_not_run:
            raise WritesWithGaps(loop=loop, buffer=buffer.name)
        cache = stage.Cache(buffer, stage.cache_buffer(buffer, storage_scope), ranges)
        place = CachePlace(loop, items[last], at_end=True)
        return sch.block_rv(_insert(state, loop, cache, users, place, into_cache=False))


def _position(items: Sequence[ir.Stmt], block: StmtSRef) -> int:
    return next(n for n, item in enumerate(items) if holds_leaf(item, block.stmt))


def _writes(block: ir.Block, buffer: ir.Buffer) -> bool:
    return any(region.buffer is buffer for region in block.writes)


def _check_written_first(
    state: ScheduleState,
    loop: StmtSRef,
    buffer: ir.Buffer,
    users: Sequence[StmtSRef],
    first_written: RelaxedRegion,
) -> None:
    """Whatever is read under the loop was written before by the first block."""
    for position, user in enumerate(users):
        for region in inputs_of(user.block).values():
            if region.buffer is not buffer:
                continue
            read = relaxed_region(state, user, region, CachePlace(loop))
            if (
                position == 0
                or not first_written.is_exact
                or not arith.covers(first_written.ranges, read.ranges)
            ):
                raise ReadsOldValues(loop=loop, reader=user, buffer=buffer.name)


def _insert(
    state: ScheduleState,
    loop: StmtSRef,
    cache: stage.Cache,
    users: Sequence[StmtSRef],
    place: CachePlace,
    *,
    into_cache: bool,
) -> StmtSRef:
    realize = _copy_realize(loop, cache, into_cache)
    edit = stage.ScopeEdit(loop.scope_root, buffers=[cache.buffer])
    edit.use_cache(users, cache)
    edit.insert(place, realize)
    edit.apply(state)
    forget_flow(state, *state.child_blocks(loop.scope_root))
    made = state.srefs[realize.block]
    state.info(made).stage_pipeline = True
    return made


def _copy_realize(loop: StmtSRef, cache: stage.Cache, into_cache: bool) -> ir.BlockRealize:
    """The block that copies a region, bound to the loops that the region depends on."""
    domains = {**domains_of([loop.loop]), **all_loops_above(loop)}
    variables = (var for axis in cache.ranges for var in ir.free_vars(axis))
    used = [var for var in dict.fromkeys(variables) if var in domains]
    iterators = [
        ir.IterVar(domains[var], ir.Var(f"v{number}", var.dtype), ir.IterType.DATA_PAR)
        for number, var in enumerate(used)
    ]
    renamed = dict(zip(used, (iter_var.var for iter_var in iterators), strict=True))
    ranges = tuple(ir.substitute(axis, renamed) for axis in cache.ranges)
    loops = [(ir.Var(f"ax{d}", axis.extent.dtype), axis.extent) for d, axis in enumerate(ranges)]
    at = tuple(
        var if ir.is_zero(axis.min) else axis.min + var
        for axis, (var, _) in zip(ranges, loops, strict=True)
    )
    ends = (cache.original, cache.buffer)
    source, target = ends if into_cache else ends[::-1]
    block = ir.Block(
        tuple(iterators),
        (ir.BufferRegion(source, ranges),),
        (ir.BufferRegion(target, ranges),),
        cache.buffer.name,
        loop_nest(loops, ir.BufferStore(target, ir.BufferLoad(source, at), at)),
        annotations={ANNOTATION: 1},
    )
    return ir.BlockRealize(tuple(used), ir.TRUE, block)

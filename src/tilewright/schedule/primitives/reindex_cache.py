"""`reindex_cache_read` and `reindex_cache_write`: cache stages with a layout of the user's choice.

The cache is indexed by a function of the block's iterators; it serves this block alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright import arith, ir
from tilewright.errors import ArithError
from tilewright.schedule.caches import stage
from tilewright.schedule.caches.copy_block import make_copy_block
from tilewright.schedule.caches.place import CachePlace, is_reached_freely, place_before
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.moves.block_iterators import renamed_iterators, renamed_loops
from tilewright.schedule.moves.init_block import in_serial_copies
from tilewright.schedule.regions import buffer_access
from tilewright.schedule.state import BlockRV, Exprs, ScheduleState, StmtSRef, scope as scopes
from tilewright.schedule.state.flags import check_stage_pipeline, forget_flow
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive


class NotASinglePoint(PrimitiveError):
    reason = "block {block!r} accesses more than one element of {buffer!r} at a time"
    remedy = "only element-wise accesses can get a new layout; use the plain cache stage"


class WrongNumberOfIndices(PrimitiveError):
    reason = "the index map takes {given} indices, block {block!r} has {expected} iterators"


class OtherIterators(PrimitiveError):
    reason = "iterator {iterator!r} of block {block!r} occurs in {there} but not in {missing}"
    remedy = "the new indices must use the iterators that the old ones use"


class ElementsCollide(PrimitiveError):
    reason = "the index map to {indices} may put different elements of {buffer!r} in one place"
    remedy = "use a map that keeps the iterators apart"


class NegativeIndex(PrimitiveError):
    reason = "the new index {index} may be negative"


class ReadBeforeWritten(PrimitiveError):
    reason = "block {block!r} reads {buffer!r} before block {writer!r} writes it"


class UnderCondition(PrimitiveError):
    reason = "block {block!r} stands under a condition that the copy would not obey"
    remedy = "use the plain cache stage"


@dataclass(frozen=True)
class _NewAccess:
    """An access of a block to a buffer, before and after."""

    buffer: ir.Buffer
    old: tuple[ir.PrimExpr, ...]
    new: tuple[ir.PrimExpr, ...]
    iterators: tuple[ir.IterVar, ...]  # of the block, which both use


def _reindex_cache(
    sch: ScheduleCore, step: ReindexCacheRead | ReindexCacheWrite, index: int, side: int
) -> BlockRV:
    """Cache what a block reads (side 0) or writes (side 1) at indices of its own."""
    state, block, index_map = sch.state, sch.get_sref(step.block), sch.concrete_map(step.index_map)
    stage.check_storage_scope(step.storage_scope)
    region = stage.accessed_region(block, "writes" if side else "reads", index)
    top = block.scope_root
    check_stage_pipeline(state, top)
    access = _new_access(block, region, index_map, side)
    place = (_place_of_store if side else _place_of_fill)(state, block, access.buffer)
    if not is_reached_freely(place.surroundings, block.realize):
        raise UnderCondition(block=block)
    cache = stage.cache_buffer(access.buffer, step.storage_scope, _shape(block, index_map))
    changer = buffer_access.AccessChanger(access.buffer, cache, access.new)
    changer.visit(block.block)
    nest, copy = _copy(block, access, cache, place.location, into_cache=side == 0)
    edit = stage.ScopeEdit(top, reuse=changer.reuse, buffers=[cache])
    edit.insert(place, nest)
    edit.apply(state)
    made = stage.mark_copy_block(state, copy, complete=side == 1)
    forget_flow(state, block, *stage.readers_after(state.scope_of(top), made, access.buffer))
    return sch.block_rv(made)


def _new_access(
    block: StmtSRef, region: ir.BufferRegion, index_map: arith.IndexMap, side: int
) -> _NewAccess:
    buffer, stmt = region.buffer, block.block
    if not all(ir.is_one(axis.extent) for axis in region.region):
        raise NotASinglePoint(block=block, buffer=buffer.name)
    count = len(stmt.iter_vars)
    if len(index_map.initial_indices) != count:
        given = len(index_map.initial_indices)
        raise WrongNumberOfIndices(block=block, given=given, expected=count)
    found = buffer_access.single_access(block, buffer, side)
    buffer_access.check_always_inside(block, buffer, found)
    new = tuple(index_map.map_indices([iter_var.var for iter_var in stmt.iter_vars]))
    used = _iterators_in(stmt, found.indices)
    _check_same_iterators(block, found.indices, new)
    _check_apart(buffer, found.indices, new, used)
    return _NewAccess(buffer, found.indices, new, tuple(used))


def _check_same_iterators(block: StmtSRef, old: Exprs, new: Exprs) -> None:
    for present, absent in ((new, old), (old, new)):
        known = {iter_var.var for iter_var in _iterators_in(block.block, absent)}
        for iter_var in _iterators_in(block.block, present):
            if iter_var.var not in known:
                raise OtherIterators(
                    block=block,
                    iterator=iter_var.var.name,
                    there=_text(present),
                    missing=_text(absent),
                )


def _text(indices: Exprs) -> str:
    return f"({', '.join(map(str, indices))})"


def _iterators_in(block: ir.Block, indices: Exprs) -> list[ir.IterVar]:
    used = {var for index in indices for var in ir.free_vars(index)}
    return [iter_var for iter_var in block.iter_vars if iter_var.var in used]


def _check_apart(
    buffer: ir.Buffer, old: Exprs, new: Exprs, iterators: Sequence[ir.IterVar]
) -> None:
    """Different elements stay different: the old indices can be told from the new ones."""
    if all(any(ir.expr_deep_equal(index, other) for other in new) for index in old):
        return
    if not _is_invertible(new, iterators):
        raise ElementsCollide(indices=_text(new), buffer=buffer.name)


def _is_invertible(indices: Exprs, iterators: Sequence[ir.IterVar]) -> bool:
    """True when the values of the iterators follow from the indices."""
    domains = {iter_var.var: scopes.domain_of(iter_var) for iter_var in iterators}
    index_map = arith.IndexMap(tuple(domains), tuple(indices))
    try:
        inverse, _ = index_map.non_surjective_inverse(list(domains.values()))
    except ArithError:
        return False
    analyzer = arith.Analyzer(domains)
    return all(map(analyzer.can_prove_equal, inverse.map_indices(indices), domains))


def _shape(block: StmtSRef, index_map: arith.IndexMap) -> tuple[ir.PrimExpr, ...]:
    analyzer = arith.Analyzer()
    ranges = index_map.map_ranges(list(scopes.iterator_domains(block.block).values()), analyzer)
    for index, axis in zip(index_map.final_indices, ranges, strict=True):
        if not analyzer.can_prove(axis.min >= 0):
            raise NegativeIndex(block, index=index)
    return tuple(analyzer.simplify(axis.min + axis.extent) for axis in ranges)


def _place_of_fill(state: ScheduleState, block: StmtSRef, buffer: ir.Buffer) -> CachePlace:
    top = block.scope_root
    scope = state.scope_of(top)
    if (writer := stage.only_writer(scope.buffer_writers.get(buffer, ()), buffer)) is None:
        return CachePlace(top)
    if block not in stage.readers_after(scope, writer, buffer):
        raise ReadBeforeWritten(block=block, buffer=buffer.name, writer=writer.name)
    return place_before(scopes.lowest_common_ancestor((writer, block)), writer, block)


def _place_of_store(state: ScheduleState, block: StmtSRef, buffer: ir.Buffer) -> CachePlace:
    top = block.scope_root
    scope = state.scope_of(top)
    stage.only_writer(scope.buffer_writers[buffer], buffer)
    readers = stage.readers_after(scope, block, buffer)
    if not readers:
        return CachePlace(top, at_end=True)
    return place_before(scopes.lowest_common_ancestor((block, readers[0])), block, readers[0])


def _copy(
    block: StmtSRef, access: _NewAccess, cache: ir.Buffer, location: StmtSRef, *, into_cache: bool
) -> tuple[ir.Stmt, ir.Block]:
    """The copy, under copies of those loops below `location` that it needs."""
    realize = block.realize
    used = {iter_var.var for iter_var in access.iterators}
    bindings = [value for iter_var, value in realize.bindings if iter_var.var in used]
    loops = _needed_loops(block, location, [*bindings, realize.predicate])
    fresh = renamed_loops(loops)
    spatial = [ir.replace(iv, iter_type=ir.IterType.DATA_PAR) for iv in access.iterators]
    iterators, renamed = renamed_iterators(spatial)
    at_old = tuple(ir.substitute(index, renamed) for index in access.old)
    at_new = tuple(ir.substitute(index, renamed) for index in access.new)
    ends = ((access.buffer, at_old), (cache, at_new))
    source, target = ends if into_cache else ends[::-1]
    made = make_copy_block(cache.name, iterators, source, target)
    values = tuple(ir.substitute(value, fresh) for value in bindings)
    body = ir.BlockRealize(values, ir.substitute(realize.predicate, fresh), made)
    return in_serial_copies(loops, fresh, body), made


def _needed_loops(block: StmtSRef, location: StmtSRef, used_by: Exprs) -> list[ir.For]:
    """The loops between a block and a location whose variables are used, outermost first."""
    needed = {var for expr in used_by for var in ir.free_vars(expr)}
    loops: list[ir.For] = []
    for loop in reversed(scopes.loops_between(block, location)):
        if loop.loop_var in needed:
            loops.insert(0, loop)
            needed.update(ir.free_vars(loop.domain))
    return loops


@register_primitive
class ReindexCacheRead(Primitive[BlockRV]):
    block: BlockRV = given()
    read_buffer_index: int
    storage_scope: str
    index_map: arith.IndexMap = given()

    def run(self, sch: ScheduleCore) -> BlockRV:
        return _reindex_cache(sch, self, self.read_buffer_index, 0)


@register_primitive
class ReindexCacheWrite(Primitive[BlockRV]):
    block: BlockRV = given()
    write_buffer_index: int
    storage_scope: str
    index_map: arith.IndexMap = given()

    def run(self, sch: ScheduleCore) -> BlockRV:
        return _reindex_cache(sch, self, self.write_buffer_index, 1)

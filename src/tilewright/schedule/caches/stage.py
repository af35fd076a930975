"""Cache stages: the copy of a region, its place, and the blocks that use it afterwards.

A cache stage is a new buffer, a block that copies a region from or to it, and a place for that
block in the scope. Blocks that switch to the new buffer are rewritten, nothing else is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright import arith, ir
from tilewright.ir.access import inputs_of
from tilewright.schedule.caches import copy_block
from tilewright.schedule.caches.place import CachePlace, is_fixed_box
from tilewright.schedule.errors import NoSuchBuffer, PrimitiveError
from tilewright.schedule.layouts.allocated_buffer import AllocationChanger
from tilewright.schedule.state import ScheduleState, StmtSRef
from tilewright.schedule.state.scope import DEFINITIONS, BlockScope, DepKind, blocks_below

_SCOPES = (
    "global",
    "shared",
    "local",
    "warp",
    "texture",
    "wmma.matrix_a",
    "wmma.matrix_b",
    "wmma.accumulator",
    "m16n8k8.matrixA",
    "m16n8k8.matrixB",
    "m16n8k8.matrixC",
    "wgmma.accumulator",
    "amx.tmm",
    "metal.simdgroup",
)
# What follows tells memories of one kind apart: "shared.dyn", "texture:nhwc", "global2".
_SCOPE_PATTERN = re.compile(f"({'|'.join(map(re.escape, _SCOPES))})[\\w.:-]*")


class BadStorageScope(PrimitiveError):
    reason = "{scope!r} is not a storage scope"
    remedy = f"use one of {', '.join(_SCOPES)}, with a tag such as 'shared.dyn' where needed"


class BufferIndexOutOfRange(PrimitiveError, NoSuchBuffer):
    reason = "block {block!r} {side} {count} buffers, none has number {index}"
    remedy = "numbers start at 0, in the order of the block's {side}"


class SeveralWriters(PrimitiveError):
    reason = "buffer {buffer!r} is written by {count} blocks of this scope: {writers}"
    remedy = "cache it before its computation is split into several blocks"


class MatchedBufferScope(PrimitiveError):
    reason = (
        "block {block!r} matches buffer {matched!r} of scope {old!r} to a part of {buffer!r}, "
        "which would move to scope {new!r}"
    )
    remedy = "declare the matched buffer with the scope of the cache"


def check_storage_scope(scope: object) -> None:
    """A scope that some target knows."""
    if not isinstance(scope, str) or _SCOPE_PATTERN.fullmatch(scope) is None:
        raise BadStorageScope(scope=scope)


def accessed_region(block: StmtSRef, side: str, index: object) -> ir.BufferRegion:
    """The region that a block declares at a position of its reads or writes."""
    stmt = block.block
    regions = stmt.reads if side == "reads" else stmt.writes
    if not isinstance(index, int) or not 0 <= index < len(regions):
        raise BufferIndexOutOfRange(block=block, side=side, count=len(regions), index=index)
    return regions[index]


def only_writer(writers: Sequence[StmtSRef], buffer: ir.Buffer) -> StmtSRef | None:
    """The block of a scope that writes a buffer, None if there is none."""
    if len(writers) > 1:
        names = ", ".join(repr(writer.name) for writer in writers)
        raise SeveralWriters(*writers, buffer=buffer.name, count=len(writers), writers=names)
    return writers[0] if writers else None


def reads_buffer(block: ir.Block, buffer: ir.Buffer) -> bool:
    """True when a block declares that values of a buffer come into it."""
    return any(region.buffer is buffer for region in inputs_of(block).values())


# --- the new buffer and the copy ---------------------------------------------------------------


def cache_buffer(
    buffer: ir.Buffer, scope: str, shape: tuple[ir.PrimExpr, ...] | None = None
) -> ir.Buffer:
    """A compact buffer of the same kind in another scope, named after both."""
    name = f"{buffer.name}_{scope}"
    return ir.Buffer(
        ir.Var(name, ir.HANDLE, ir.PointerType(buffer.dtype, scope)),
        buffer.dtype,
        buffer.shape if shape is None else shape,
        name=name,
        data_alignment=buffer.data_alignment,
        axis_separators=buffer.axis_separators if shape is None else (),
    )


@dataclass(frozen=True)
class Cache:
    """A cache of part of a buffer; `offsets` are where that part begins, None for all of it."""

    original: ir.Buffer
    buffer: ir.Buffer
    ranges: tuple[ir.Range, ...]
    offsets: tuple[ir.PrimExpr, ...] | None = None


def make_cache(
    original: ir.Buffer, scope: str, ranges: tuple[ir.Range, ...], place: CachePlace
) -> Cache:
    """A cache for `ranges` at a place: of just that size, or as large as the whole buffer."""
    # Only a box of known size allows a smaller buffer.
    known = all(isinstance(axis.extent, ir.IntImm) for axis in ranges)
    if not known or not is_fixed_box(place, ranges) or _is_whole(original, ranges):
        return Cache(original, cache_buffer(original, scope), ranges)
    shape = tuple(axis.extent for axis in ranges)
    offsets = tuple(axis.min for axis in ranges)
    return Cache(original, cache_buffer(original, scope, shape), ranges, offsets)


def _is_whole(buffer: ir.Buffer, ranges: Sequence[ir.Range]) -> bool:
    return all(
        ir.is_zero(axis.min) and ir.expr_deep_equal(axis.extent, extent)
        for axis, extent in zip(ranges, buffer.shape, strict=True)
    )


def copy_nest(
    cache: Cache, *, into_cache: bool, predicate: ir.PrimExpr = ir.TRUE
) -> tuple[ir.Stmt, ir.Block]:
    """Loops with a block that copies the cached region into the cache or back from it."""
    loops: list[tuple[ir.Var, ir.PrimExpr]] = []
    iterators: list[ir.IterVar] = []
    bindings: list[ir.PrimExpr] = []
    compact = cache.offsets is not None
    for axis, (domain, extent) in enumerate(zip(cache.ranges, cache.original.shape, strict=True)):
        loop_var = ir.Var(f"ax{axis}", domain.extent.dtype)
        size = domain.extent if compact else extent
        if isinstance(size, ir.IntImm):
            size = ir.const(size.value, loop_var.dtype)
        iterators.append(copy_block.spatial_iterator(f"v{axis}", size))
        bindings.append(loop_var if compact or ir.is_zero(domain.min) else domain.min + loop_var)
        loops.append((loop_var, domain.extent))
    at_cache: tuple[ir.PrimExpr, ...] = tuple(iter_var.var for iter_var in iterators)
    at_original = at_cache
    if cache.offsets is not None:
        pairs = zip(cache.offsets, at_cache, strict=True)
        at_original = tuple(var if ir.is_zero(low) else low + var for low, var in pairs)
    ends = ((cache.original, at_original), (cache.buffer, at_cache))
    source, target = ends if into_cache else ends[::-1]
    block = copy_block.make_copy_block(cache.buffer.name, iterators, source, target)
    return copy_block.realize_in_loops(loops, bindings, block, predicate), block


# --- switching blocks to the cache ---------------------------------------------------------------


class CacheUser(AllocationChanger):
    """Makes blocks use the cache instead of the buffer."""

    def __init__(self, cache: Cache) -> None:
        super().__init__(cache.original, cache.buffer)
        self._cache = cache
        self._analyzer = arith.Analyzer()

    def with_buffer(self, node: Any) -> Any:
        offsets = self._cache.offsets
        if offsets is None or node.buffer is not self._cache.original:
            return super().with_buffer(node)
        if isinstance(node, ir.BufferRegion):
            region = tuple(
                ir.Range(self._shift(axis.min, low), axis.extent)
                for axis, low in zip(node.region, offsets, strict=True)
            )
            return ir.BufferRegion(self._cache.buffer, region)
        pairs = zip(node.indices, offsets, strict=True)
        indices = tuple(self._shift(index, low) for index, low in pairs)
        return ir.replace(node, buffer=self._cache.buffer, indices=indices)

    def _shift(self, index: ir.PrimExpr, low: ir.PrimExpr) -> ir.PrimExpr:
        return index if ir.is_zero(low) else self._analyzer.simplify(index - low)


def check_matched_buffers(blocks: Iterable[StmtSRef], buffer: ir.Buffer, scope: str) -> None:
    """No block, nor one inside it, matches a buffer of another scope to a part of `buffer`."""
    for block in blocks:
        for stmt in blocks_below(block.block):
            for match in stmt.match_buffers:
                if match.source.buffer is buffer and match.buffer.scope != scope:
                    raise MatchedBufferScope(
                        block,
                        block=stmt.name_hint,
                        matched=match.buffer.name,
                        old=match.buffer.scope,
                        buffer=buffer.name,
                        new=scope,
                    )


@dataclass
class ScopeEdit:
    """Changes to the blocks of a scope, new statements in it and new buffers, made at once."""

    scope: StmtSRef
    reuse: dict[ir.Block, ir.Block] = field(default_factory=dict)
    before: dict[ir.Stmt, ir.Stmt] = field(default_factory=dict)
    after: dict[ir.Stmt, ir.Stmt] = field(default_factory=dict)
    first: list[ir.Stmt] = field(default_factory=list)
    last: list[ir.Stmt] = field(default_factory=list)
    buffers: list[ir.Buffer] = field(default_factory=list)

    def insert(self, place: CachePlace, stmt: ir.Stmt) -> None:
        """Put a statement at a place."""
        if place.anchor is not None:
            beside = self.after if place.at_end else self.before
            beside[place.anchor] = ir.seq((beside.get(place.anchor), stmt))
        else:
            (self.last if place.at_end else self.first).append(stmt)

    def use_cache(self, blocks: Iterable[StmtSRef], cache: Cache) -> None:
        """Let some leaf blocks of the scope use the cache."""
        user = CacheUser(cache)
        for block in blocks:
            user.visit(block.block)
        self.reuse.update(user.reuse)

    def apply(self, state: ScheduleState) -> None:
        """Carry the changes out."""
        old = self.scope.block
        body = self._completed(self._rebuild(old.body))
        new = ir.replace(old, body=body, alloc_buffers=(*old.alloc_buffers, *self.buffers))
        state.replace(self.scope, new, self.reuse)

    def _completed(self, body: ir.Stmt) -> ir.Stmt:
        """The body with what comes first and last, inside of definitions that hold all of it."""
        if isinstance(body, DEFINITIONS):
            return ir.replace(body, body=self._completed(body.body))
        return ir.seq((*self.first, body, *self.last))

    def _rebuild(self, stmt: ir.Stmt) -> ir.Stmt:
        if isinstance(stmt, ir.BlockRealize):
            block = self.reuse.get(stmt.block)
            result: ir.Stmt = stmt if block is None else ir.replace(stmt, block=block)
        elif isinstance(stmt, ir.For):
            body = self._rebuild(stmt.body)
            result = stmt if body is stmt.body else ir.replace(stmt, body=body)
        elif isinstance(stmt, ir.SeqStmt):
            items = ir.map_tuple(stmt.seq, self._rebuild)
            result = stmt if items is stmt.seq else ir.seq(items)
        else:
            result = ir.map_statements(stmt, self._rebuild)
        if stmt in self.before or stmt in self.after:
            return ir.seq((self.before.get(stmt), result, self.after.get(stmt)))
        return result


def insert_cache(
    state: ScheduleState,
    cache: Cache,
    users: Sequence[StmtSRef],
    place: CachePlace,
    *,
    into_cache: bool,
    is_exact: bool,
) -> StmtSRef:
    """Put the copy of a cached region at a place and let blocks use the cache; the block.

    `is_exact`: all of the region is touched.
    """
    nest, copy = copy_nest(cache, into_cache=into_cache)
    edit = ScopeEdit(users[0].scope_root, buffers=[cache.buffer])
    edit.use_cache(users, cache)
    edit.insert(place, nest)
    edit.apply(state)
    return mark_copy_block(state, copy, complete=is_exact and place.location.is_block)


def mark_copy_block(state: ScheduleState, block: ir.Block, *, complete: bool) -> StmtSRef:
    """The reference to a new copy block; `complete` says that all it reads has been written."""
    sref = state.srefs[block]
    info = state.info(sref)
    info.region_cover = complete or None
    info.stage_pipeline = True
    return sref


def written_region(block: StmtSRef, buffer: ir.Buffer) -> ir.BufferRegion:
    """What a block writes of a buffer."""
    return next(region for region in block.block.writes if region.buffer is buffer)


def readers_after(scope: BlockScope, writer: StmtSRef, buffer: ir.Buffer) -> list[StmtSRef]:
    """The other blocks of a scope that read what `writer` wrote, in program order."""
    consumers = scope.consumers(writer, DepKind.RAW)
    return [reader for reader in consumers if reads_buffer(reader.block, buffer)]

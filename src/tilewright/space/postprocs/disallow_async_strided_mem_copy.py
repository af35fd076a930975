"""`DisallowAsyncStridedMemCopy`: copies that run by themselves must be of contiguous memory.

For machines whose copy engine knows no strides. Not part of any default list. The copies are those
that a software pipeline names as asynchronous; they are looked at before the pipeline is built.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.arith import IterMapLevel, detect_iter_map
from tilewright.errors import TilewrightError
from tilewright.ir import (
    TRUE,
    Allocate,
    AttrStmt,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    For,
    PrimExpr,
    PrimFunc,
    Range,
    SeqStmt,
    Stmt,
    children,
)
from tilewright.schedule import Schedule
from tilewright.space.annotations import (
    SOFTWARE_PIPELINE_ASYNC_STAGES,
    SOFTWARE_PIPELINE_STAGE,
)
from tilewright.space.base import Postproc, postprocs
from tilewright.space.lowered import flattened


@postprocs.register("DisallowAsyncStridedMemCopy")
class DisallowAsyncStridedMemCopy(Postproc):
    """Reject programs with asynchronous copies from or to memory with gaps."""

    def apply(self, sch: Schedule) -> bool:
        try:
            lowered = flattened(sch.mod)
        except TilewrightError:
            return False
        return all(_copies_are_contiguous(func) for func in lowered.functions.values())


def _copies_are_contiguous(func: PrimFunc) -> bool:
    return all(
        _is_contiguous(store.indices, loops) and _is_contiguous(store.value.indices, loops)
        for store, loops in _async_copies(func.body, ())
        if isinstance(store.value, BufferLoad)
    )


def _is_contiguous(indices: Sequence[PrimExpr], loops: Sequence[For]) -> bool:
    """True when the index takes all values between its smallest and its largest."""
    domains = {loop.loop_var: Range(loop.min, loop.extent) for loop in loops}
    found = detect_iter_map(
        list(indices), domains, TRUE, IterMapLevel.SURJECTIVE, simplify_trivial_iterators=False
    )
    return not found.errors


def _async_copies(
    stmt: Stmt, loops: tuple[For, ...]
) -> Iterator[tuple[BufferStore, tuple[For, ...]]]:
    """The copies in asynchronous stages of pipelines, with all loops around each."""
    inside = (*loops, stmt) if isinstance(stmt, For) else loops
    if isinstance(stmt, For):
        for part in _async_parts(stmt):
            yield from _copies(part, inside)
    for child in children(stmt):
        if isinstance(child, Stmt):
            yield from _async_copies(child, inside)


def _async_parts(loop: For) -> list[Stmt]:
    """The statements of a pipelined loop that run asynchronously."""
    stages = loop.annotations.get(SOFTWARE_PIPELINE_STAGE)
    wanted = loop.annotations.get(SOFTWARE_PIPELINE_ASYNC_STAGES)
    body: Stmt = loop.body
    while isinstance(body, Allocate | DeclBuffer | AttrStmt):
        body = body.body
    if not stages or not wanted or not isinstance(body, SeqStmt):
        return []
    chosen = {int(stage) for stage in wanted}
    return [part for part, stage in zip(body.seq, stages, strict=False) if int(stage) in chosen]


def _copies(stmt: Stmt, loops: tuple[For, ...]) -> Iterator[tuple[BufferStore, tuple[For, ...]]]:
    if isinstance(stmt, For):
        yield from _copies(stmt.body, (*loops, stmt))
    elif isinstance(stmt, BufferStore):
        yield stmt, loops
    else:
        for child in children(stmt):
            if isinstance(child, Stmt):
                yield from _copies(child, loops)

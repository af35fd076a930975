"""`DisallowAsyncStridedMemCopy`: copies that run by themselves must move memory without gaps.

For machines whose copy engine knows no gaps. Not part of any default list. The copies are those
that a software pipeline names as asynchronous. They are looked at before the pipeline is built, as
they are in its body: that runs less often than the loop by the number of stages it is ahead, and
each buffer that it fills exists twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
    IntImm,
    PrimExpr,
    PrimFunc,
    Range,
    SeqStmt,
    Stmt,
    Var,
    children,
    const,
)
from tilewright.ir.annotation_keys import (
    SOFTWARE_PIPELINE_ASYNC_STAGES,
    SOFTWARE_PIPELINE_STAGE,
)
from tilewright.schedule import Schedule
from tilewright.space.base import Postproc, postprocs
from tilewright.space.postprocs.partial_lowering import flattened


@postprocs.register("DisallowAsyncStridedMemCopy")
class DisallowAsyncStridedMemCopy(Postproc):
    """Reject programs with asynchronous copies from or to memory with gaps."""

    def apply(self, sch: Schedule) -> bool:
        try:
            lowered = flattened(sch.mod)
        except TilewrightError:
            return False
        return all(_copies_are_contiguous(func) for func in lowered.functions.values())


@dataclass(frozen=True)
class _Copy:
    """An asynchronous copy, all loops around it, and the buffers that belong to its pipeline."""

    store: BufferStore
    loops: tuple[For, ...]
    own: frozenset[Var]  # pointers


def _copies_are_contiguous(func: PrimFunc) -> bool:
    return all(
        _is_contiguous(access, copy)
        for copy in _async_copies(func.body, ())
        if isinstance(copy.store.value, BufferLoad)
        for access in (copy.store, copy.store.value)
    )


def _is_contiguous(access: BufferStore | BufferLoad, copy: _Copy) -> bool:
    """True when the loops count through memory in equal steps, without gaps between rows."""
    domains = {loop.loop_var: Range(loop.min, _rounds(loop)) for loop in copy.loops}
    indices = list(access.indices)
    if access.buffer.data in copy.own:
        version = Var("version", indices[0].dtype)
        domains[version] = Range(const(0, version.dtype), const(2, version.dtype))
        indices[0] = version * access.buffer.shape[0] + indices[0]
    found = detect_iter_map(
        indices, domains, TRUE, IterMapLevel.SURJECTIVE, simplify_trivial_iterators=False
    )
    return not found.errors


def _rounds(loop: For) -> PrimExpr:
    """How often the body of a loop runs, without the rounds that fill and empty its pipeline."""
    stages = [int(stage) for stage in loop.annotations.get(SOFTWARE_PIPELINE_STAGE, ())]
    ahead = max(stages, default=0) - min(stages, default=0)
    if not isinstance(loop.extent, IntImm) or loop.extent.value <= ahead:
        return loop.extent
    return const(loop.extent.value - ahead, loop.extent.dtype)


def _async_copies(stmt: Stmt, loops: tuple[For, ...]) -> Iterator[_Copy]:
    """The copies in asynchronous stages of pipelines."""
    inside = (*loops, stmt) if isinstance(stmt, For) else loops
    if isinstance(stmt, For):
        parts, own = _async_parts(stmt)
        for part in parts:
            copies = _copies(part, inside, own)
            yield from (copy for copy in copies if len(copy.loops) > len(inside))  # not one element
    for child in children(stmt):
        if isinstance(child, Stmt):
            yield from _async_copies(child, inside)


def _async_parts(loop: For) -> tuple[list[Stmt], frozenset[Var]]:
    """The statements of a pipelined loop that run asynchronously, and the buffers it allocates."""
    stages = loop.annotations.get(SOFTWARE_PIPELINE_STAGE)
    wanted = loop.annotations.get(SOFTWARE_PIPELINE_ASYNC_STAGES)
    body: Stmt = loop.body
    own: set[Var] = set()
    while isinstance(body, Allocate | DeclBuffer | AttrStmt):
        if isinstance(body, Allocate):
            own.add(body.buffer_var)
        body = body.body
    if not stages or not wanted or not isinstance(body, SeqStmt):
        return [], frozenset()
    chosen = {int(stage) for stage in wanted}
    parts = [part for part, stage in zip(body.seq, stages, strict=False) if int(stage) in chosen]
    return parts, frozenset(own)


def _copies(stmt: Stmt, loops: tuple[For, ...], own: frozenset[Var]) -> Iterator[_Copy]:
    if isinstance(stmt, For):
        yield from _copies(stmt.body, (*loops, stmt), own)
    elif isinstance(stmt, BufferStore):
        yield _Copy(stmt, loops, own)
    else:
        for child in children(stmt):
            if isinstance(child, Stmt):
                yield from _copies(child, loops, own)

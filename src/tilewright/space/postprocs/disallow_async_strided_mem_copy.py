"""`DisallowAsyncStridedMemCopy`: copies that run by themselves must move memory without gaps.

For machines whose copy engine knows no gaps. Not part of any default list. The copies are those
that a software pipeline names as asynchronous. They are looked at before the pipeline is built, as
they are in its body: that runs less often than the loop by the number of stages it is ahead, and
each buffer that it fills exists twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tilewright import ir
from tilewright.arith import IterMapLevel, detect_iter_map
from tilewright.errors import TilewrightError
from tilewright.ir import IRModule, annotation_keys as keys
from tilewright.lowering.base import get_pass
from tilewright.schedule import Schedule
from tilewright.space.base import Postproc, postprocs

# Up to flat buffers in their final size, still with loops and what is noted on them.
_PASSES = (
    "LowerInitBlock",
    "ConvertBlocksToOpaque",
    "PlanBufferAllocation",
    "CompactBufferAllocation",
    "LowerMatchBuffer",
    "LowerOpaqueBlock",
    "FlattenBuffer",
    "Simplify",
)


def holds_flat(mod: IRModule, check: Callable[[ir.PrimFunc], bool]) -> bool:
    """Whether all functions of a module, which must be lowered to flat buffers, pass a check."""
    try:
        for name in _PASSES:
            mod = get_pass(name)(mod)
    except TilewrightError:
        return False
    return all(map(check, mod.functions.values()))


@postprocs.register("DisallowAsyncStridedMemCopy")
class DisallowAsyncStridedMemCopy(Postproc):
    """Reject programs with asynchronous copies from or to memory with gaps."""

    def apply(self, sch: Schedule) -> bool:
        return holds_flat(sch.mod, _copies_are_contiguous)


@dataclass(frozen=True)
class _Copy:
    """An asynchronous copy, all loops around it, and the buffers that belong to its pipeline."""

    store: ir.BufferStore
    loops: tuple[ir.For, ...]
    own: frozenset[ir.Var]  # pointers


def _copies_are_contiguous(func: ir.PrimFunc) -> bool:
    return all(
        _is_contiguous(access, copy)
        for copy in _async_copies(func.body)
        if isinstance(copy.store.value, ir.BufferLoad)
        for access in (copy.store, copy.store.value)
    )


def _is_contiguous(access: ir.BufferStore | ir.BufferLoad, copy: _Copy) -> bool:
    """True when the loops count through memory in equal steps, without gaps between rows."""
    domains = {loop.loop_var: ir.Range(loop.min, _rounds(loop)) for loop in copy.loops}
    indices = list(access.indices)
    if access.buffer.data in copy.own:
        version = ir.Var("version", indices[0].dtype)
        domains[version] = ir.Range(ir.const(0, version.dtype), ir.const(2, version.dtype))
        indices[0] = version * access.buffer.shape[0] + indices[0]
    found = detect_iter_map(
        indices, domains, ir.TRUE, IterMapLevel.SURJECTIVE, simplify_trivial_iterators=False
    )
    return not found.errors


def _rounds(loop: ir.For) -> ir.PrimExpr:
    """How often the body of a loop runs, without the rounds that fill and empty its pipeline."""
    stages = [int(stage) for stage in loop.annotations.get(keys.SOFTWARE_PIPELINE_STAGE, ())]
    ahead = max(stages, default=0) - min(stages, default=0)
    if not isinstance(loop.extent, ir.IntImm) or loop.extent.value <= ahead:
        return loop.extent
    return ir.const(loop.extent.value - ahead, loop.extent.dtype)


def _async_copies(body: ir.Stmt) -> Iterator[_Copy]:
    """The copies in asynchronous stages of pipelines; of one element is none."""
    for loop, around in ir.with_loops(body):
        if not isinstance(loop, ir.For):
            continue
        parts, own = _async_parts(loop)
        for stmt, loops in (found for part in parts for found in ir.with_loops(part)):
            if isinstance(stmt, ir.BufferStore) and loops:
                yield _Copy(stmt, (*around, loop, *loops), own)


def _async_parts(loop: ir.For) -> tuple[list[ir.Stmt], frozenset[ir.Var]]:
    """The statements of a pipelined loop that run asynchronously, and the buffers it allocates."""
    stages = loop.annotations.get(keys.SOFTWARE_PIPELINE_STAGE)
    wanted = loop.annotations.get(keys.SOFTWARE_PIPELINE_ASYNC_STAGES)
    body: ir.Stmt = loop.body
    own: set[ir.Var] = set()
    while isinstance(body, ir.Allocate | ir.DeclBuffer | ir.AttrStmt):
        if isinstance(body, ir.Allocate):
            own.add(body.buffer_var)
        body = body.body
    if not stages or not wanted or not isinstance(body, ir.SeqStmt):
        return [], frozenset()
    chosen = {int(stage) for stage in wanted}
    parts = [part for part, stage in zip(body.seq, stages, strict=False) if int(stage) in chosen]
    return parts, frozenset(own)

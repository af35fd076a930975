"""Software pipelines: parts of a loop body run for later iterations than others.

`software_pipeline_stage` says for each part how many iterations late it runs, and
`software_pipeline_order` which comes first within an iteration of the new loop. The first
iterations, where late parts have nothing to do yet, stand before the loop, and the last ones behind
it. A buffer that one part fills while another still reads what was there exists several times, one
for each iteration that is under way.

Parts of the stages in `software_pipeline_async_stages` copy asynchronously: they are marked with
`async_scope` and end a group; whoever reads what they wrote waits until no more groups are pending
than were started after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.errors import LowerError
from tilewright.ir.annotation_keys import (
    DOUBLE_BUFFER_SCOPE,
    SOFTWARE_PIPELINE_ASYNC_STAGES,
    SOFTWARE_PIPELINE_ORDER,
    SOFTWARE_PIPELINE_STAGE,
)
from tilewright.ir.clone import Cloner
from tilewright.ir.intrinsics import call_intrin
from tilewright.lowering.base import function_pass
from tilewright.lowering.rewriters import FoldingSubstituter

ASYNC_SCOPE = "async_scope"
_NOTES = (SOFTWARE_PIPELINE_STAGE, SOFTWARE_PIPELINE_ORDER, SOFTWARE_PIPELINE_ASYNC_STAGES)


class _Uses(ir.Visitor):
    """The buffers that a statement reads and writes."""

    def __init__(self, stmt: ir.Stmt) -> None:
        self.reads: set[ir.Buffer] = set()
        self.writes: set[ir.Buffer] = set()
        self.doubled: set[ir.Buffer] = set()
        self.visit(stmt)

    def visit_buffer_load(self, node: ir.BufferLoad) -> None:
        self.reads.add(node.buffer)
        self.generic_visit(node)

    def visit_buffer_store(self, node: ir.BufferStore) -> None:
        self.writes.add(node.buffer)
        self.generic_visit(node)

    def visit_block(self, node: ir.Block) -> None:
        place = node.annotations.get(DOUBLE_BUFFER_SCOPE)
        if place is not None:
            self.doubled.add(node.writes[int(place)].buffer)
        if node.match_buffers:
            self.reads.update(region.buffer for region in node.reads)
            self.writes.update(region.buffer for region in node.writes)
        self.visit(node.body)


@dataclass(frozen=True)
class _PipelinedStmt:
    """A statement of a pipelined loop."""

    stmt: ir.Stmt
    stage: int
    order: int
    is_async: bool
    uses: _Uses = field(repr=False)


def _versioned(
    stmt: ir.Stmt, buffers: Mapping[ir.Buffer, tuple[ir.Buffer, int]], step: ir.PrimExpr
) -> ir.Stmt:
    """Accesses of buffers with several versions go to that of an iteration."""
    simplify = Analyzer().simplify

    def access(node: Any) -> Any:
        if node.buffer not in buffers:
            return node
        buffer, count = buffers[node.buffer]
        slot = simplify(ir.floormod(step, count))
        if isinstance(node, ir.BufferRegion):
            first = ir.Range(slot, ir.const(1, slot.dtype))
            return ir.BufferRegion(buffer, (first, *node.region))
        return ir.replace(node, buffer=buffer, indices=(slot, *node.indices))

    return ir.rewrite(stmt, {(ir.BufferLoad, ir.BufferStore, ir.BufferRegion): access})


class _Pipeline:
    """One loop to be pipelined."""

    def __init__(
        self, loop: ir.For, parts: Sequence[_PipelinedStmt], buffers: Iterable[ir.Buffer]
    ) -> None:
        self._loop = loop
        self._parts = sorted(parts, key=lambda part: part.order)
        self._depth = max(part.stage for part in parts)
        self.buffers: list[ir.Buffer] = []
        self._versioned: dict[ir.Buffer, tuple[ir.Buffer, int]] = {}
        for buffer in buffers:
            count = _version_count(buffer, parts)
            if isinstance(loop.extent, ir.IntImm):
                count = max(1, min(count, loop.extent.value))
            made = buffer if count == 1 else _with_versions(buffer, count)
            self.buffers.append(made)
            if count > 1:
                self._versioned[buffer] = made, count

    def emitted(self) -> list[ir.Stmt]:
        """What comes before the loop, the loop, and what comes after it."""
        loop, depth = self._loop, self._depth
        if not isinstance(loop.extent, ir.IntImm):
            return [ir.no_op(), self._guarded(), ir.no_op()]
        count = loop.extent.value
        before = [self._iteration(ir.const(i, loop.loop_var.dtype), i) for i in range(depth)]
        after = [
            self._iteration(ir.const(i, loop.loop_var.dtype), i)
            for i in range(max(depth, count), count + depth)
        ]
        return [ir.seq(before), self._steady(count - depth), ir.seq(after)]

    def _steady(self, count: int) -> ir.Stmt:
        if count <= 0:
            return ir.no_op()
        loop = self._loop
        var = ir.replace(loop.loop_var)
        body = self._iteration(var + self._depth, None)
        notes = {key: value for key, value in loop.annotations.items() if key not in _NOTES}
        zero, extent = ir.const(0, var.dtype), ir.const(count, var.dtype)
        return ir.For(var, zero, extent, loop.kind, body, None, notes)

    def _guarded(self) -> ir.Stmt:
        """All iterations of a loop whose length is not known, each part under a condition."""
        loop = self._loop
        var = ir.replace(loop.loop_var)
        body = self._iteration(var, None, guarded=True)
        notes = {key: value for key, value in loop.annotations.items() if key not in _NOTES}
        zero = ir.const(0, var.dtype)
        return ir.For(var, zero, loop.extent + self._depth, loop.kind, body, None, notes)

    def _iteration(
        self, step: ir.PrimExpr, number: int | None, *, guarded: bool = False
    ) -> ir.Stmt:
        """The parts that run in one iteration of the new loop; `number`: which, if it is known."""
        made: list[ir.Stmt] = []
        running = [part for part in self._parts if self._runs(part, number)]
        last_copy = max((part.order for part in running if part.is_async), default=-1)
        waited: int | None = None
        for part in running:
            pending = self._pending(part, number, last_copy)
            if pending is not None and (waited is None or pending < waited):
                made.append(_call("tir.ptx_wait_group", pending))
                waited = pending
            made.append(self._instance(part, step, guarded))
            if part.order == last_copy:
                made.append(_call("tir.ptx_commit_group"))
        return ir.seq(made)

    def _runs(self, part: _PipelinedStmt, number: int | None) -> bool:
        if number is None:
            return True
        assert isinstance(self._loop.extent, ir.IntImm)
        return 0 <= number - part.stage < self._loop.extent.value

    def _pending(self, reader: _PipelinedStmt, number: int | None, last_copy: int) -> int | None:
        """How many groups may be under way when `reader` runs; None: it reads nothing of them."""
        writers = [
            part
            for part in self._parts
            if part.is_async and part.uses.writes & reader.uses.reads and part is not reader
        ]
        if not writers:
            return None
        late = min(reader.stage - writer.stage for writer in writers)
        started = late if reader.order > max(writer.order for writer in writers) else late - 1
        if number is not None and last_copy < 0:  # no more copies: fewer groups come after it
            assert isinstance(self._loop.extent, ir.IntImm)
            writer_stage = max(writer.stage for writer in writers)
            done = number - writer_stage - (self._loop.extent.value - 1)
            started = late - done
        return max(started, 0)

    def _instance(self, part: _PipelinedStmt, step: ir.PrimExpr, guarded: bool) -> ir.Stmt:
        """A part for the iteration that it handles when the new loop is at `step`."""
        loop = self._loop
        own = Analyzer().simplify(step - part.stage)
        stmt = _versioned(part.stmt, self._versioned, own)
        value = {loop.loop_var: ir.add(loop.min, own)}
        stmt = Cloner().rewrite(FoldingSubstituter(value).rewrite(stmt))
        if part.is_async:
            stmt = ir.AttrStmt(ir.const(0), ASYNC_SCOPE, ir.const(1), stmt)
        if guarded:
            inside = ir.logical_and(own >= 0, own < loop.extent)
            stmt = ir.IfThenElse(inside, stmt)
        return stmt


def _call(name: str, *args: int) -> ir.Stmt:
    return ir.Evaluate(call_intrin("handle", name, *args))


def _version_count(buffer: ir.Buffer, parts: Sequence[_PipelinedStmt]) -> int:
    """How many iterations use a buffer at the same time."""
    writers = [part for part in parts if buffer in part.uses.writes]
    readers = [part for part in parts if buffer in part.uses.reads]
    if not writers or not readers:
        return 1
    doubled = any(buffer in part.uses.doubled for part in parts)
    late = max(part.stage for part in readers) - min(part.stage for part in writers)
    read_first = all(
        reader.stage == writer.stage or reader.order < writer.order
        for reader in readers
        for writer in writers
    )
    count = 1 if late == 1 and read_first and not doubled else max(late + 1, 1)
    return max(count, 2 if doubled else 1)


def _with_versions(buffer: ir.Buffer, count: int) -> ir.Buffer:
    shape = (ir.const(count, buffer.shape[0].dtype), *buffer.shape)
    if not buffer.strides:
        return ir.replace(buffer, shape=shape)
    rows = ir.multiply(buffer.strides[0], buffer.shape[0])
    return ir.replace(buffer, shape=shape, strides=(rows, *buffer.strides))


def _injected(node: ir.For) -> ir.Stmt | None:
    if SOFTWARE_PIPELINE_STAGE not in node.annotations:
        return None
    parts, buffers = _pipelined(node)
    block = ir.Block((), (), (), "", ir.seq(parts), alloc_buffers=tuple(buffers))
    return ir.root_realize(block) if buffers else block.body


def _pipelined(loop: ir.For) -> tuple[list[ir.Stmt], list[ir.Buffer]]:
    """The three statements that a loop becomes, and the buffers around them."""
    statements, buffers = _statements(loop.body)
    stages, orders = (loop.annotations.get(key) for key in _NOTES[:2])
    late = {int(stage) for stage in loop.annotations.get(SOFTWARE_PIPELINE_ASYNC_STAGES, ())}
    if ir.is_one(loop.extent) and len(statements) != len(stages or ()):
        # An initialisation moved in, which a loop of one iteration need not keep apart.
        once = FoldingSubstituter({loop.loop_var: loop.min}).rewrite(ir.seq(statements))
        return [ir.no_op(), once, ir.no_op()], buffers
    if orders is None or not len(statements) == len(stages or ()) == len(orders):
        raise LowerError(
            f"loop {loop.loop_var.name!r} has {len(statements)} statements, but "
            f"{SOFTWARE_PIPELINE_STAGE} names {len(stages or ())} and "
            f"{SOFTWARE_PIPELINE_ORDER} {len(orders or ())} of them"
        )
    if sorted(map(int, orders)) != list(range(len(orders))):
        raise LowerError(
            f"loop {loop.loop_var.name!r}: {SOFTWARE_PIPELINE_ORDER} {list(map(int, orders))} "
            "is not an order of its statements"
        )
    parts = [
        _PipelinedStmt(stmt, int(stage), int(order), int(stage) in late, _Uses(stmt))
        for stmt, stage, order in zip(statements, stages or (), orders, strict=True)
    ]
    _check_order(loop, parts)
    pipeline = _Pipeline(loop, parts, buffers)
    return pipeline.emitted(), pipeline.buffers


def _statements(body: ir.Stmt) -> tuple[list[ir.Stmt], list[ir.Buffer]]:
    """What the notes count: pipelines inside are three statements."""
    match body:
        case ir.BlockRealize(block=block) if _is_wrapper(body):
            statements, buffers = _statements(block.body)
            return statements, [*block.alloc_buffers, *buffers]
        case ir.SeqStmt():
            found = [_statements(each) for each in body.seq]
            return [each for stmts, _ in found for each in stmts], [
                buffer for _, buffers in found for buffer in buffers
            ]
        case ir.For() if SOFTWARE_PIPELINE_STAGE in body.annotations:
            return _pipelined(body)
    return [ir.rewrite(body, before={ir.For: _injected})], []


def _is_wrapper(realize: ir.BlockRealize) -> bool:
    """True for a block that only holds buffers and statements."""
    block = realize.block
    is_plain = ir.is_true(realize.predicate) and not realize.iter_values
    return is_plain and not (block.name_hint or block.annotations or block.match_buffers)


def _check_order(loop: ir.For, parts: Sequence[_PipelinedStmt]) -> None:
    """What a part reads is written in an earlier stage, or earlier in the same iteration."""
    for place, writer in enumerate(parts):
        for reader in parts[place + 1 :]:
            if not writer.uses.writes & reader.uses.reads:
                continue
            if writer.stage > reader.stage or (
                writer.stage == reader.stage and writer.order > reader.order
            ):
                names = ", ".join(b.name for b in writer.uses.writes & reader.uses.reads)
                raise LowerError(
                    f"loop {loop.loop_var.name!r}: its pipeline reads {names} before it is "
                    "written; give the statement that writes an earlier stage or place"
                )


@function_pass
def InjectSoftwarePipeline(func: ir.PrimFunc) -> ir.PrimFunc:
    """Let parts of loops run for later iterations than others."""
    return ir.rewrite(func, before={ir.For: _injected})

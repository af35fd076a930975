"""`compute_inline`: put what a block computes in place of every read of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.arith.block_access import block_access_regions
from tilewright.schedule.conditions.checks import why_not_complete
from tilewright.schedule.conditions.races import check_reads_stay_inside
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError, is_allowed
from tilewright.schedule.moves.compute_at import check_not_output
from tilewright.schedule.moves.relocate import check_removable, remove
from tilewright.schedule.state import BlockRV, ScheduleState, StmtSRef
from tilewright.schedule.state.flags import check_stage_pipeline, forget_flow
from tilewright.schedule.state.scope import BlockScope, DepKind, iterator_domains
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive


class HasInit(PrimitiveError):
    reason = "block {block!r} has an init statement"
    remedy = "reductions cannot be inlined; use compute_at or reverse_compute_at"


class NotComplete(PrimitiveError):
    reason = "block {block!r} is not a complete block: {why}"
    remedy = "only blocks that compute each element of their output once can be inlined"


class NotOneStore(PrimitiveError):
    reason = "block {block!r} is not a single store to one buffer"
    remedy = "only blocks of the form `B[i, j] = value` can be inlined"


class IndicesNotPlain(PrimitiveError):
    reason = "block {block!r} stores to `{index}`, which is not an iterator of its own"
    remedy = "each index must be another iterator of the block, or a constant"


class ValueUsesOtherIterator(PrimitiveError):
    reason = "the value of block {block!r} depends on iterator {iterator!r}, which is not an index"


class OpaqueAccess(PrimitiveError):
    reason = "block {block!r} does not read buffer {buffer!r} by plain loads only"
    remedy = "reads through pointers, match_buffer or vectors cannot be replaced"


@dataclass(frozen=True)
class InlinePlan:
    """A block that can be inlined."""

    block: StmtSRef
    removed: StmtSRef
    consumers: tuple[StmtSRef, ...]
    store: ir.BufferStore


def compute_inline(state: ScheduleState, block: StmtSRef) -> None:
    """Replace all reads of what `block` writes by the value it writes, and remove the block."""
    _carry_out(state, plan_compute_inline(state, block))


def can_compute_inline(state: ScheduleState, block: StmtSRef) -> bool:
    """Whether `compute_inline` would work; nothing changes."""
    return is_allowed(plan_compute_inline, state, block)


def plan_compute_inline(state: ScheduleState, block: StmtSRef) -> InlinePlan:
    """Check everything."""
    store, scope = inlinable(state, block, may_be_output=False)
    _check_store(block, store)
    consumers = tuple(scope.consumers(block, DepKind.RAW))
    for consumer in consumers:
        check_plain_loads(consumer, store.buffer)
    check_reads_stay_inside(scope, block, consumers)
    return InlinePlan(block, check_removable(block, consumers), consumers, store)


def inlinable(
    state: ScheduleState, block: StmtSRef, *, may_be_output: bool
) -> tuple[ir.BufferStore, BlockScope]:
    """The store of a block that computes each element once, and the scope around it."""
    root = block.scope_root
    if block.block.init is not None:
        raise HasInit(block=block)
    store = single_store(block)
    if not may_be_output:
        check_not_output(root, block)
    check_stage_pipeline(state, root)
    scope = state.scope_of(root)
    if why := why_not_complete(scope, block):
        raise NotComplete(block=block, why=why)
    return store, scope


def single_store(block: StmtSRef) -> ir.BufferStore:
    """The body of a block that consists of one store."""
    stmt = block.block
    body = stmt.body
    if (
        len(stmt.writes) != 1
        or not isinstance(body, ir.BufferStore)
        or body.buffer is not stmt.writes[0].buffer
        or body.predicate is not None
        or stmt.alloc_buffers
        or stmt.match_buffers
    ):
        raise NotOneStore(block=block)
    return body


def _check_store(block: StmtSRef, store: ir.BufferStore) -> None:
    iterators = {iter_var.var for iter_var in block.block.iter_vars}
    seen: set[ir.Var] = set()
    for index in store.indices:
        if isinstance(index, ir.IntImm):
            continue
        if not isinstance(index, ir.Var) or index not in iterators or index in seen:
            raise IndicesNotPlain(block=block, index=index)
        seen.add(index)
    for var, domain in iterator_domains(block.block).items():
        is_unit = ir.is_one(domain.extent)
        if var not in seen and not is_unit and ir.uses_var(store.value, var.same_as):
            raise ValueUsesOtherIterator(block=block, iterator=var.name)


def check_plain_loads(block: StmtSRef, buffer: ir.Buffer) -> None:
    """A block that touches a buffer by scalar loads only."""
    if any(_is_opaque(node, buffer) for node in ir.walk(block.block)):
        raise OpaqueAccess(block=block, buffer=buffer.name)


def _is_opaque(node: ir.Node, buffer: ir.Buffer) -> bool:
    if isinstance(node, ir.BufferLoad) and node.buffer is buffer:
        return node.predicate is not None or any(i.dtype.lanes != 1 for i in node.indices)
    is_view = isinstance(node, ir.MatchBufferRegion) and node.source.buffer is buffer
    return is_view or node is buffer.data


def _with_detected_reads(block: ir.Block, *, without: ir.Buffer) -> ir.Block:
    """`block` with reads as its body has them now; it no longer touches the buffer `without`.

    What a block does through pointers cannot be seen, so there the declared reads stay.
    """
    found = block_access_regions(block)
    reads = found.reads
    if found.opaque:
        declared = tuple(region for region in block.reads if region.buffer is not without)
        known = {region.buffer for region in declared}
        reads = declared + tuple(region for region in reads if region.buffer not in known)
    return ir.replace(block, reads=reads)


class _Inliner(ir.Rewriter):
    """Puts values in place of the loads from one buffer; blocks on the way get new reads."""

    def __init__(
        self, block: ir.Block, store: ir.BufferStore, consumers: Sequence[ir.Block]
    ) -> None:
        self._store = store
        self._consumers = set(consumers)
        self._units = {var: domain.min for var, domain in iterator_domains(block).items()}
        self.changed: dict[ir.Block, ir.Block] = {}

    def visit_block(self, node: ir.Block) -> ir.Block:
        if self._consumers and node not in self._consumers:
            return node
        consumers, self._consumers = self._consumers, set()  # what is below a consumer changes, too
        made: ir.Block = self.generic_visit(node)
        self._consumers = consumers
        buffer = self._store.buffer
        if made is not node or any(region.buffer is buffer for region in node.reads):
            made = self.changed[node] = _with_detected_reads(made, without=buffer)
        return made

    def visit_buffer_load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        load: ir.BufferLoad = self.generic_visit(node)
        if load.buffer is not self._store.buffer:
            return load
        values = dict(self._units)
        for index, value in zip(self._store.indices, load.indices, strict=True):
            if isinstance(index, ir.Var):
                values[index] = ir.cast(index.dtype, value)
        return ir.substitute(self._store.value, values)


def _carry_out(state: ScheduleState, plan: InlinePlan) -> None:
    inliner = _Inliner(
        plan.block.block, plan.store, [consumer.block for consumer in plan.consumers]
    )

    def change(root: ir.Block) -> ir.Block:
        buffers = tuple(b for b in root.alloc_buffers if b is not plan.store.buffer)
        return ir.replace(root, body=inliner.visit(root.body), alloc_buffers=buffers)

    forget_flow(state, *plan.consumers)
    remove(state, plan.removed, change, inliner.changed)


@register_primitive
class ComputeInline(Primitive[None]):
    block: BlockRV = given()

    def run(self, sch: ScheduleCore) -> None:
        compute_inline(sch.state, sch.get_sref(self.block))

"""`pad_einsum`: a contraction over longer axes, with zeros where there is no data."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.ir.intrinsics import if_then_else
from tilewright.schedule.conditions.checks import why_not_complete, why_not_reduction
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.state import BlockInfo, BlockRV, ScheduleState, StmtSRef
from tilewright.schedule.state.flags import check_stage_pipeline
from tilewright.schedule.state.scope import BlockScope, domain_of, iterator_domains
from tilewright.schedule.state.splice import BlockKeeper
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive


class WrongPadding(PrimitiveError):
    reason = "the padding {padding} does not fit the {count} iterators of block {block!r}"
    remedy = "give one number, zero or more, for each iterator"


class BindingNotTrivial(PrimitiveError):
    reason = "the iterators of block {block!r} are not bound to its loops one by one, in order"
    remedy = "pad before transforming the loops"


class NotAnEinsum(PrimitiveError):
    reason = "block {block!r} is not a contraction that can be padded: {why}"
    remedy = (
        "its update must be `O[...] = O[...] + A[...] * B[...]`, with padded iterators as indices"
    )


class BufferNotAllocated(PrimitiveError):
    reason = "buffer {buffer!r} of block {block!r} is not allocated in its scope"
    remedy = "use cache_read and cache_write to give the block buffers of its own"


class CannotPadProducer(PrimitiveError):
    reason = "block {block!r}, which makes {buffer!r}, cannot be padded: {why}"


@dataclass(frozen=True)
class Growth:
    """What a block and the buffer it writes become."""

    block: StmtSRef
    extra: dict[ir.Var, int]  # by how much each iterator grows
    guarded: bool  # elements beyond the old extents are stored as zero


@register_primitive
class PadEinsum(Primitive[None]):
    """Grow the iterators of a contraction by `padding`, and its inputs and output with them."""

    block: BlockRV = given()
    padding: list[int | ir.PrimExpr]

    def run(self, sch: ScheduleCore) -> None:
        padding = [sch.int_of(amount) for amount in self.padding]
        state, block = sch.state, sch.get_sref(self.block)
        root = block.scope_root
        if state.enable_check:
            check_stage_pipeline(state, root)
        scope = state.scope_of(root)
        extra = _checked_padding(block, padding)
        output, inputs = _operands(state, scope, block, extra)
        grown: dict[ir.Buffer, ir.Buffer] = {}
        accesses: list[ir.BufferStore | ir.BufferLoad] = [output, *inputs]
        for access in accesses:
            _grow_buffer(root, block, access, extra, grown)
        changes = [Growth(block, extra, guarded=False)]
        for load in {load.buffer: load for load in inputs}.values():
            if load.buffer in grown:
                changes.append(_grow_producer(scope, block, load, extra))
        _install(state, root, changes, grown)


# --- what must hold -----------------------------------------------------------------------------


def _checked_padding(block: StmtSRef, padding: Sequence[int]) -> dict[ir.Var, int]:
    iter_vars = block.block.iter_vars
    if len(padding) != len(iter_vars) or any(amount < 0 for amount in padding):
        raise WrongPadding(block=block, padding=list(padding), count=len(iter_vars))
    if not _is_trivially_bound(block):
        raise BindingNotTrivial(block=block)
    return {iv.var: amount for iv, amount in zip(iter_vars, padding, strict=True) if amount}


def _is_trivially_bound(block: StmtSRef) -> bool:
    realize, loops = block.realize, block.loops
    if len(loops) != len(realize.iter_values) or not ir.is_true(realize.predicate):
        return False
    pairs = zip(realize.iter_values, loops, strict=True)
    nested = all(outer.loop.body is inner.stmt for outer, inner in itertools.pairwise(loops))
    alone = bool(loops) and loops[-1].loop.body is realize
    return nested and alone and all(value is loop.loop.loop_var for value, loop in pairs)


def _operands(
    state: ScheduleState, scope: BlockScope, block: StmtSRef, extra: dict[ir.Var, int]
) -> tuple[ir.BufferStore, list[ir.BufferLoad]]:
    def fail(why: str) -> NotAnEinsum:
        return NotAnEinsum(block=block, why=why)

    if why := why_not_reduction(state, scope, block):
        raise fail(f"it is not a reduction: {why}")
    store = block.block.body
    if not isinstance(store, ir.BufferStore) or not isinstance(store.value, ir.Add):
        raise fail("its body is not one store of a sum")
    total, product = store.value.a, store.value.b
    if not _is_load_of(total, store) or not isinstance(product, ir.Mul):
        raise fail("it does not add a product to what it stores to")
    inputs = [_without_casts(product.a), _without_casts(product.b)]
    loads = [value for value in inputs if isinstance(value, ir.BufferLoad)]
    if len(loads) != len(inputs):
        raise fail("the factors are not elements of buffers")
    iterators = {iter_var.var for iter_var in block.block.iter_vars}
    accesses: list[ir.BufferStore | ir.BufferLoad] = [store, *loads]
    for access in accesses:
        for index in access.indices:  # what is not padded may be anything, such as a window
            if index not in iterators and ir.uses_var(index, extra.__contains__):
                raise fail(f"{access.buffer.name} is not indexed by plain iterators")
    used = {index for load in loads for index in load.indices}
    for iter_var in block.block.iter_vars:
        is_padded = iter_var.var in extra and iter_var.iter_type is ir.IterType.COMM_REDUCE
        if is_padded and iter_var.var not in used:
            raise fail(f"no factor depends on the padded iterator {iter_var.var.name!r}")
    return store, loads


def _is_load_of(value: ir.PrimExpr, store: ir.BufferStore) -> bool:
    return (
        isinstance(value, ir.BufferLoad)
        and value.buffer is store.buffer
        and all(a is b for a, b in zip(value.indices, store.indices, strict=True))
    )


def _without_casts(value: ir.PrimExpr) -> ir.PrimExpr:
    while isinstance(value, ir.Cast):
        value = value.value
    return value


# --- growing ------------------------------------------------------------------------------------


def _grow_buffer(
    root: StmtSRef,
    block: StmtSRef,
    access: ir.BufferStore | ir.BufferLoad,
    extra: dict[ir.Var, int],
    grown: dict[ir.Buffer, ir.Buffer],
) -> None:
    buffer = access.buffer
    amounts = [extra.get(index, 0) for index in access.indices]  # type: ignore[call-overload]
    if not any(amounts):
        return
    if not any(buffer is other for other in root.block.alloc_buffers):
        raise BufferNotAllocated(buffer=buffer.name, block=block)
    if not all(isinstance(extent, ir.IntImm) for extent in buffer.shape):
        raise NotAnEinsum(block=block, why=f"the shape of {buffer.name} is symbolic")
    shape = tuple(
        extent + amount if amount else extent
        for extent, amount in zip(buffer.shape, amounts, strict=True)
    )
    if (known := grown.get(buffer)) is None:
        grown[buffer] = ir.replace(buffer, shape=shape)
    elif not all(ir.expr_deep_equal(a, b) for a, b in zip(known.shape, shape, strict=True)):
        why = f"{buffer.name} is used twice and would be padded in two ways"
        raise NotAnEinsum(block=block, why=why)


def _grow_producer(
    scope: BlockScope, block: StmtSRef, access: ir.BufferLoad, extra: dict[ir.Var, int]
) -> Growth:
    buffer = access.buffer
    writers = scope.buffer_writers.get(buffer, [])

    def fail(producer: StmtSRef, why: str) -> CannotPadProducer:
        return CannotPadProducer(block=producer, buffer=buffer.name, why=why)

    if len(writers) != 1:
        raise fail(block, f"{len(writers)} blocks write the buffer, expected one")
    (producer,) = writers
    if why := why_not_complete(scope, producer):
        raise fail(producer, why)
    if not _is_trivially_bound(producer):
        raise fail(producer, "its iterators are not bound to its loops one by one, in order")
    store = producer.block.body
    iterators = {iter_var.var for iter_var in producer.block.iter_vars}
    if not isinstance(store, ir.BufferStore) or store.buffer is not buffer:
        raise fail(producer, "its body is not one store")
    distinct = len(set(store.indices)) == len(store.indices)
    if not distinct or not all(index in iterators for index in store.indices):
        raise fail(producer, "its store is not indexed by distinct iterators")
    amounts: dict[ir.Var, int] = {}
    for index, wanted in zip(store.indices, access.indices, strict=True):
        amount = extra.get(wanted)  # type: ignore[call-overload]
        if amount:
            amounts[index] = amount  # type: ignore[index]
    return Growth(producer, amounts, guarded=True)


class _Grower(BlockKeeper):
    """Exchanges the grown buffers and lengthens the loops and iterators of the grown blocks."""

    def __init__(self, grown: dict[ir.Buffer, ir.Buffer], changes: Sequence[Growth]) -> None:
        super().__init__()
        self._grown = grown
        self._changes = {change.block.block: change for change in changes}
        self._extra_of_loop: dict[ir.Var, int] = {}
        for change in changes:
            realize = change.block.realize
            for iter_var, loop_var in realize.bindings:
                if iter_var.var in change.extra:
                    assert isinstance(loop_var, ir.Var)
                    self._extra_of_loop[loop_var] = change.extra[iter_var.var]

    def visit_buffer(self, buffer: ir.Buffer) -> ir.Buffer:
        return self._grown.get(buffer, buffer)

    def visit_for(self, node: ir.For) -> ir.For:
        loop: ir.For = self.generic_visit(node)
        amount = self._extra_of_loop.get(node.loop_var)
        return loop if amount is None else ir.replace(loop, extent=loop.extent + amount)

    def visit_block(self, node: ir.Block) -> ir.Block:
        block: ir.Block = super().visit_block(node)
        if (change := self._changes.get(node)) is not None:
            block = self.reuse[node] = _grown_block(block, change)
        return block


def _grown_block(block: ir.Block, change: Growth) -> ir.Block:
    iter_vars = tuple(_grown_iterator(iv, change.extra.get(iv.var, 0)) for iv in block.iter_vars)
    body = block.body
    if change.guarded and change.extra:
        assert isinstance(body, ir.BufferStore)
        domains = {v: dom for v, dom in iterator_domains(block).items() if v in change.extra}
        inside = ir.logical_and(*(v < dom.min + dom.extent for v, dom in domains.items()))
        zero = ir.const(0, body.value.dtype)
        body = ir.replace(body, value=if_then_else(inside, body.value, zero))
    return ir.replace(block, iter_vars=iter_vars, body=body)


def _grown_iterator(iter_var: ir.IterVar, amount: int) -> ir.IterVar:
    if not amount:
        return iter_var
    old = domain_of(iter_var)
    return ir.replace(iter_var, dom=ir.Range(old.min, old.extent + amount))


def _install(
    state: ScheduleState,
    root: StmtSRef,
    changes: Sequence[Growth],
    grown: dict[ir.Buffer, ir.Buffer],
) -> None:
    grower = _Grower(grown, changes)
    changed = grower.visit_block(root.block)
    state.replace(root, changed, grower.reuse)
    for sref in state.scope_of(root).blocks:
        state.infos[sref] = BlockInfo()

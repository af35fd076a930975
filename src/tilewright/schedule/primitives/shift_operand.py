"""`shift_operand`: a product of signed numbers as one of unsigned ones, or the other way round.

Instructions that multiply bytes take one operand unsigned and one signed. An operand of the wrong
sign is moved by half its range, `a' = a + s`. Since `sum(a * b) = sum(a' * b) - s * sum(b)`, sums
then start from `-s * sum(b)` instead of from zero. That holds exactly in the arithmetic of the
result, wrapping included.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright import ir
from tilewright.ir.intrinsics import bitwise_xor
from tilewright.schedule.caches import copy_block
from tilewright.schedule.caches.place import CachePlace, domains_between, takes_all_values
from tilewright.schedule.caches.stage import ScopeEdit, accessed_region
from tilewright.schedule.conditions.checks import why_not_reduction
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.moves.block_iterators import renamed_iterators
from tilewright.schedule.state import BlockRV, ScheduleState, StmtSRef
from tilewright.schedule.state.scope import domain_of
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive

_OTHER_SIGN = {"int8": "uint8", "uint8": "int8", "int16": "uint16", "uint16": "int16"}


class NotASumOfProducts(PrimitiveError):
    reason = "block {block!r} is not a sum of products of integers: {why}"
    remedy = "its update must be `O[...] = O[...] + A[...] * B[...]` with one read of each operand"


class CannotShift(PrimitiveError):
    reason = "operand {buffer!r} of block {block!r} is of type {dtype}"
    remedy = "operands of type int8, uint8, int16 and uint16 can be shifted"


class OnlyAPart(PrimitiveError):
    reason = "the loops of block {block!r} do not run it for all values of its iterators"
    remedy = "shift the operand before the program is cut into parts"


class MadeUnderTheSameLoop(PrimitiveError):
    reason = "block {producer!r} makes an operand of block {block!r} under the same loop {loop!r}"
    remedy = "shift the operand first, and move its producer afterwards"


@dataclass(frozen=True)
class _Product:
    """The parts of `O[...] = O[...] + A[...] * B[...]`."""

    store: ir.BufferStore
    shifted: ir.BufferLoad
    other: ir.BufferLoad
    shifted_is_first: bool


@register_primitive
class ShiftOperand(Primitive[list[BlockRV]]):
    """Give one operand of a sum of products the other sign.

    The blocks that make the shifted operand and the sums to start from.
    """

    block: BlockRV = given()
    read_buffer_index: int

    def run(self, sch: ScheduleCore) -> list[BlockRV]:
        state, block, index = sch.state, sch.get_sref(self.block), self.read_buffer_index
        buffer = accessed_region(block, "reads", index).buffer
        root = block.scope_root
        if why := why_not_reduction(state, state.scope_of(root), block):
            raise NotASumOfProducts(block=block, why=why)
        product = _product(block, buffer)
        if (target := _OTHER_SIGN.get(str(buffer.dtype))) is None:
            raise CannotShift(buffer=buffer.name, block=block, dtype=buffer.dtype)
        if not takes_all_values(block.realize, domains_between(block, root)):
            raise OnlyAPart(block=block)
        _check_made_before(state, block)
        shifted = ir.decl_buffer(buffer.shape, target, f"{buffer.name}_shifted")
        start = _Start(block, product)
        edit = ScopeEdit(root, buffers=[shifted, start.buffer])
        make_shifted, nest = _shifting_nest(buffer, shifted)
        make_start, start_nest = start.nest(_half(buffer.dtype))
        loops = block.loops
        place = CachePlace(root, anchor=loops[0].loop if loops else block.realize)
        for stmt in (nest, start_nest):
            edit.insert(place, stmt)
        edit.reuse[block.block] = _with_shifted(block.block, product, shifted, start)
        edit.apply(state)
        state.infos[block].region_cover = True
        return [sch.block_rv(sref) for sref in (state.srefs[make_shifted], state.srefs[make_start])]


# --- what must hold -----------------------------------------------------------------------------


def _product(block: StmtSRef, buffer: ir.Buffer) -> _Product:
    def fail(why: str) -> NotASumOfProducts:
        return NotASumOfProducts(block=block, why=why)

    store = block.block.body
    if not isinstance(store, ir.BufferStore) or not isinstance(store.value, ir.Add):
        raise fail("its body is not one store of a sum")
    total, product = store.value.a, store.value.b
    if not isinstance(total, ir.BufferLoad) or total.buffer is not store.buffer:
        raise fail("it does not add to what it stores to")
    if not isinstance(product, ir.Mul) or store.buffer.dtype.code not in ("int", "uint"):
        raise fail("it does not add products of integers")
    loads = [_widened_load(factor, store.buffer.dtype) for factor in (product.a, product.b)]
    if loads[0] is None or loads[1] is None:
        raise fail("the factors are not elements of buffers, widened to the type of the result")
    if loads[0].buffer is loads[1].buffer:
        raise fail("both factors are elements of the same buffer")
    if buffer is loads[0].buffer:
        return _Product(store, loads[0], loads[1], True)
    if buffer is loads[1].buffer:
        return _Product(store, loads[1], loads[0], False)
    raise fail(f"{buffer.name} is not a factor of the product")


def _check_made_before(state: ScheduleState, block: StmtSRef) -> None:
    """The new blocks run before all loops of the block: whole operands must be there by then."""
    loops = block.loops
    for edge in state.scope_of(block.scope_root).to_block(block):
        if loops and loops[0].holds(edge.src):
            raise MadeUnderTheSameLoop(producer=edge.src, block=block, loop=loops[0].name)


def _widened_load(value: ir.PrimExpr, dtype: ir.DType) -> ir.BufferLoad | None:
    """The element that a value of a wider type is made of."""
    match value:
        case ir.Cast(value=ir.BufferLoad() as load) if value.dtype == dtype:
            return load
    return None


# --- the new blocks -----------------------------------------------------------------------------


def _half(dtype: ir.DType) -> int:
    """By how much a value grows when its sign bit is flipped and its type changes its sign."""
    half: int = 1 << (dtype.bits - 1)
    return half if dtype.is_int else -half


def _shifting_nest(source: ir.Buffer, target: ir.Buffer) -> tuple[ir.Block, ir.Stmt]:
    iterators = copy_block.iterators_over(source.shape)
    point = tuple(iterator.var for iterator in iterators)
    sign_bit = ir.const(-_half(source.dtype), source.dtype)
    load = ir.BufferLoad(source, point)
    value = ir.cast(target.dtype, bitwise_xor(load, sign_bit))
    block = copy_block.store_block(
        target.name, iterators, ir.BufferStore(target, value, point), load
    )
    return block, copy_block.realize_over(source.shape, block)


class _Start:
    """What the sums start from: for all results that share the other operand, one number."""

    def __init__(self, block: StmtSRef, product: _Product) -> None:
        stmt = block.block
        known = {var for index in product.other.indices for var in ir.free_vars(index)}
        self.iterators = [
            v for v in stmt.iter_vars if v.iter_type is ir.IterType.DATA_PAR and v.var in known
        ]
        self._reductions = [v for v in stmt.iter_vars if v.iter_type is ir.IterType.COMM_REDUCE]
        self._other = product.other
        shape = tuple(domain_of(iterator).extent for iterator in self.iterators) or (
            ir.const(1, "int32"),
        )
        self.buffer = ir.decl_buffer(shape, product.store.buffer.dtype, f"{stmt.name_hint}_start")

    def point(self) -> tuple[ir.PrimExpr, ...]:
        """Where a result finds its number."""
        return tuple(iterator.var for iterator in self.iterators) or (ir.const(0, "int32"),)

    def nest(self, half: int) -> tuple[ir.Block, ir.Stmt]:
        old = [*self.iterators, *self._reductions]
        new, renamed = renamed_iterators(old)
        point = tuple(ir.substitute(index, renamed) for index in self.point())
        source = tuple(ir.substitute(index, renamed) for index in self._other.indices)
        dtype = self.buffer.dtype
        load = ir.BufferLoad(self._other.buffer, source)
        term = ir.Mul(ir.cast(dtype, load), ir.const(-half, dtype))
        total = ir.Add(ir.BufferLoad(self.buffer, point), term)
        store = ir.BufferStore(self.buffer, total, point)
        block = copy_block.store_block(self.buffer.name, new, store, load)
        block = ir.replace(block, init=ir.replace(store, value=ir.const(0, dtype)))
        loops = [(ir.Var(f"ax{n}", v.var.dtype), domain_of(v).extent) for n, v in enumerate(new)]
        values = [var + domain_of(v).min for (var, _), v in zip(loops, new, strict=True)]
        return block, copy_block.realize_in_loops(loops, values, block)


def _with_shifted(
    block: ir.Block, product: _Product, shifted: ir.Buffer, start: _Start
) -> ir.Block:
    """The block with the shifted operand, starting from the compensation."""
    store = product.store
    load = ir.replace(product.shifted, buffer=shifted)
    factors = [ir.cast(store.buffer.dtype, load), ir.cast(store.buffer.dtype, product.other)]
    if not product.shifted_is_first:
        factors.reverse()
    assert isinstance(store.value, ir.Add)
    reads = tuple(
        ir.replace(region, buffer=shifted) if region.buffer is product.shifted.buffer else region
        for region in block.reads
    )
    init = block.init
    assert isinstance(init, ir.BufferStore)
    begin: ir.PrimExpr = ir.BufferLoad(start.buffer, start.point())
    if not ir.is_zero(init.value):
        begin = init.value + begin
    return ir.replace(
        block,
        reads=(*reads, ir.BufferRegion.from_point(start.buffer, start.point())),
        body=ir.replace(store, value=ir.Add(store.value.a, ir.Mul(*factors))),
        init=ir.replace(init, value=begin),
    )

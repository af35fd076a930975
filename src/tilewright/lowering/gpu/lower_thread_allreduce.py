"""`tvm_thread_allreduce` becomes shuffles within warps, and shared memory between them.

Threads that reduce together form a group. If the group is made of whole warps, or divides a warp,
lanes exchange values with `tvm_warp_shuffle_xor`, after which every lane has the result; several
warps then pass one value each through shared memory. All other groups halve an array in shared
memory. Barriers are left to `ThreadSync`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright import ir
from tilewright.errors import LowerError
from tilewright.ir.intrinsics import call_intrin, if_then_else
from tilewright.lowering.base import function_pass
from tilewright.lowering.gpu.lower_cross_thread_reduction import REDUCE_SCOPE
from tilewright.lowering.gpu.threads import is_thread_tag, launched_tag
from tilewright.lowering.rewriters import StmtRewriter, with_lets

WARP_SIZE = 32
_ALLREDUCE = ir.Op.get("tir.tvm_thread_allreduce")
_DIMENSIONS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_WHOLE_WARP = 0xFFFFFFFF
_FEW_WARPS = 8  # whose results each thread reads itself, which is faster than shuffles
_Bindings: TypeAlias = list[tuple[ir.Var, ir.PrimExpr]]


@dataclass(frozen=True)
class _Group:
    """The threads that reduce together: `number` of the group, `rank` of a thread in it."""

    size: int
    count: int
    number: ir.PrimExpr
    rank: ir.PrimExpr
    is_in_row: bool  # its threads follow one another in the order in which warps are made


@dataclass(frozen=True)
class _Reduction:
    reducer: ir.CommReducer
    values: tuple[ir.PrimExpr, ...]
    results: tuple[ir.BufferLoad, ...]
    threads: tuple[ir.Var, ...]

    def combined(
        self, left: Sequence[ir.PrimExpr], right: Sequence[ir.PrimExpr]
    ) -> tuple[ir.PrimExpr, ...]:
        mine = dict(zip(self.reducer.lhs, left, strict=True))
        theirs = dict(zip(self.reducer.rhs, right, strict=True))
        return tuple(ir.substitute(value, {**mine, **theirs}) for value in self.reducer.result)

    @property
    def identity(self) -> tuple[ir.PrimExpr, ...]:
        return self.reducer.identity_element


class _Lowerer(StmtRewriter):
    def __init__(self) -> None:
        self._extents: dict[str, tuple[ir.Var, ir.PrimExpr]] = {}
        self._conditions: list[ir.PrimExpr] = []

    def visit_attr_stmt(self, node: ir.AttrStmt) -> ir.Stmt:
        tag = launched_tag(node)
        if is_thread_tag(tag):
            self._extents[tag] = node.node.var, node.value
            result = self.generic_visit(node)
            del self._extents[tag]
            return result
        if node.attr_key != REDUCE_SCOPE:
            return self.generic_visit(node)
        return self._lowered(_reduction_of(node))

    def visit_if_then_else(self, node: ir.IfThenElse) -> ir.Stmt:
        self._conditions.append(node.condition)
        result = self.generic_visit(node)
        self._conditions.pop()
        return result

    def _lowered(self, reduction: _Reduction) -> ir.Stmt:
        group = self._group(reduction.threads)
        if group.size == 1:
            return ir.seq(_stores(reduction.results, reduction.values))
        size = group.size
        if group.is_in_row and (size % WARP_SIZE == 0 or WARP_SIZE % size == 0):
            return self._by_shuffles(reduction, group)
        return _in_shared_memory(reduction, group)

    def _group(self, threads: Sequence[ir.Var]) -> _Group:
        inside: list[tuple[ir.Var, int]] = []
        outside: list[tuple[ir.Var, int]] = []
        for tag in _DIMENSIONS:
            if tag in self._extents:
                var, extent = self._extents[tag]
                if not isinstance(extent, ir.IntImm):
                    raise LowerError(
                        f"threads reduce together, but the extent {extent} of {tag} is unknown; "
                        "bind loops of constant extents"
                    )
                chosen = any(var is thread for thread in threads)
                (inside if chosen else outside).append((var, extent.value))
        order = [*inside, *outside]
        known = [self._extents[tag][0] for tag in _DIMENSIONS if tag in self._extents]
        return _Group(
            math.prod(extent for _, extent in inside),
            math.prod(extent for _, extent in outside),
            _linear(outside),
            _linear(inside),
            all(var is other for (var, _), other in zip(order, known, strict=True)),
        )

    def _mask(self) -> ir.PrimExpr:
        """The lanes that take part: all, unless a condition keeps some threads out."""
        threads = {var for var, _ in self._extents.values()}
        if any(
            ir.has_load(each) or ir.uses_var(each, threads.__contains__)
            for each in self._conditions
        ):
            return call_intrin("uint32", "tir.tvm_warp_activemask")
        return ir.const(_WHOLE_WARP, "uint32")

    def _by_shuffles(self, reduction: _Reduction, group: _Group) -> ir.Stmt:
        mask = self._mask()
        if group.size <= WARP_SIZE:
            return _shuffled(reduction, reduction.values, group.size, mask, reduction.results)
        return _across_warps(reduction, group, mask)


def _reduction_of(node: ir.AttrStmt) -> _Reduction:
    reducer, stmt = node.node, node.body
    call = stmt.value if isinstance(stmt, ir.Evaluate) else None
    if not isinstance(reducer, ir.CommReducer) or not isinstance(call, ir.Call):
        raise LowerError("reduce_scope must be around a call of tvm_thread_allreduce")
    if call.op is not _ALLREDUCE:
        raise LowerError(f"reduce_scope is around {call.op}, expected tvm_thread_allreduce")
    count = len(reducer.lhs)
    values, condition = call.args[1 : 1 + count], call.args[1 + count]
    results = call.args[2 + count : 2 + 2 * count]
    if not ir.is_true(condition):
        pairs = zip(values, reducer.identity_element, strict=True)
        values = tuple(if_then_else(condition, value, zero) for value, zero in pairs)
    threads = tuple(arg for arg in call.args[2 + 2 * count :] if isinstance(arg, ir.Var))
    loads = tuple(each for each in results if isinstance(each, ir.BufferLoad))
    return _Reduction(reducer, values, loads, threads)


def _linear(threads: Sequence[tuple[ir.Var, int]]) -> ir.PrimExpr:
    """The number of a thread, the first dimension fastest."""
    number: ir.PrimExpr = ir.const(0)
    for var, extent in reversed(threads):
        number = number * extent + ir.cast(ir.INT32, var)
    return number


def _stores(places: Sequence[ir.BufferLoad], values: Sequence[ir.PrimExpr]) -> list[ir.Stmt]:
    return [
        ir.BufferStore(place.buffer, value, place.indices)
        for place, value in zip(places, values, strict=True)
    ]


def _shuffled(
    reduction: _Reduction,
    values: Sequence[ir.PrimExpr],
    size: int,
    mask: ir.PrimExpr,
    results: Sequence[ir.BufferLoad],
) -> ir.Stmt:
    """Lanes exchange values with ever nearer neighbours; in the end each of them has all."""
    bindings: _Bindings = []
    (mask,) = _named(bindings, "mask", [mask])
    current = _named(bindings, "value", values)
    distance = size // 2
    while distance:
        exchanged = [_exchanged(mask, value, distance) for value in current]
        theirs = _named(bindings, "other", exchanged)
        current = _named(bindings, "value", reduction.combined(current, theirs))
        distance //= 2
    return with_lets(bindings, ir.seq(_stores(results, current)))


def _named(bindings: _Bindings, name: str, exprs: Sequence[ir.PrimExpr]) -> list[ir.PrimExpr]:
    """Names for values, which are computed in the order in which they are named."""
    made = [(ir.Var(name, expr.dtype), expr) for expr in exprs]
    bindings.extend(made)
    return [var for var, _ in made]


def _exchanged(mask: ir.PrimExpr, value: ir.PrimExpr, distance: int) -> ir.PrimExpr:
    return call_intrin(
        value.dtype, "tir.tvm_warp_shuffle_xor", mask, value, distance, WARP_SIZE, WARP_SIZE
    )


def _shared(reduction: _Reduction, size: int) -> list[ir.Buffer]:
    return [
        ir.decl_buffer((size,), value.dtype, "red_buf", scope="shared")
        for value in reduction.values
    ]


def _allocated(buffers: Sequence[ir.Buffer], body: ir.Stmt) -> ir.Stmt:
    for buffer in reversed(buffers):
        body = ir.Allocate(buffer.data, buffer.dtype, buffer.shape, ir.TRUE, body)
    return body


def _across_warps(reduction: _Reduction, group: _Group, mask: ir.PrimExpr) -> ir.Stmt:
    """Each warp reduces its values, then every warp reduces the results of all warps."""
    warps = group.size // WARP_SIZE
    partial = [
        ir.decl_buffer((1,), value.dtype, "red_warp", scope="local") for value in reduction.values
    ]
    own = [_load(buffer, ir.const(0)) for buffer in partial]
    buffers = _shared(reduction, group.count * warps)
    lane, warp = group.rank % WARP_SIZE, group.rank // WARP_SIZE
    start = group.number * warps
    slots = [_load(buffer, start + warp) for buffer in buffers]
    if warps <= _FEW_WARPS:
        taken = [[_load(buffer, start + number) for buffer in buffers] for number in range(warps)]
        total = _in_pairs(reduction, taken)
    else:
        read = _slots_of_lanes(reduction, buffers, start, lane, warps)
        total = _shuffled(reduction, read, _power_of_two(warps), mask, reduction.results)
    body = ir.seq(
        (
            _shuffled(reduction, reduction.values, WARP_SIZE, mask, own),
            ir.IfThenElse(ir.equal(lane, 0), ir.seq(_stores(slots, own))),
            total,
        )
    )
    return _allocated([*partial, *buffers], body)


def _in_pairs(reduction: _Reduction, values: Sequence[Sequence[ir.PrimExpr]]) -> ir.Stmt:
    """Each thread reduces all values; half of them do not wait for the other half."""
    bindings: _Bindings = []
    left = [_named(bindings, "value", each) for each in values]
    while len(left) > 1:
        half = (len(left) + 1) // 2
        pairs = zip(left, left[half:], strict=False)
        sums = [_named(bindings, "value", reduction.combined(*pair)) for pair in pairs]
        left = [*sums, *left[len(sums) : half]]
    return with_lets(bindings, ir.seq(_stores(reduction.results, left[0])))


def _power_of_two(number: int) -> int:
    """The first one that is not less."""
    return 1 << (number - 1).bit_length()


def _slots_of_lanes(
    reduction: _Reduction,
    buffers: Sequence[ir.Buffer],
    start: ir.PrimExpr,
    lane: ir.PrimExpr,
    warps: int,
) -> list[ir.PrimExpr]:
    """The result of a warp for each lane, repeated as often as a warp has room."""
    width = _power_of_two(warps)
    if width == warps:
        return [_load(buffer, start + lane % warps) for buffer in buffers]
    slot = lane % width
    return [
        if_then_else(slot < warps, _load(buffer, start + slot), zero)
        for buffer, zero in zip(buffers, reduction.identity, strict=True)
    ]


def _load(buffer: ir.Buffer, index: ir.PrimExpr) -> ir.BufferLoad:
    return ir.BufferLoad(buffer, (index,))


def _in_shared_memory(reduction: _Reduction, group: _Group) -> ir.Stmt:
    """Half of the threads add what the other half has stored, until one value is left."""
    buffers = _shared(reduction, group.count * group.size)
    start = group.number * group.size
    own = [_load(buffer, start + group.rank) for buffer in buffers]
    steps: list[ir.Stmt] = [ir.seq(_stores(own, reduction.values))]
    left = group.size
    while left > 1:
        half = (left + 1) // 2
        theirs = [_load(buffer, start + group.rank + half) for buffer in buffers]
        steps.append(
            ir.IfThenElse(group.rank < left - half, _updated(own, reduction.combined(own, theirs)))
        )
        left = half
    first = [_load(buffer, start) for buffer in buffers]
    return _allocated(buffers, ir.seq((*steps, *_stores(reduction.results, first))))


def _updated(places: Sequence[ir.BufferLoad], values: Sequence[ir.PrimExpr]) -> ir.Stmt:
    """Stores of values that are all computed before."""
    if len(places) == 1:
        return ir.seq(_stores(places, values))
    names = [(ir.Var("value", value.dtype), value) for value in values]
    return with_lets(names, ir.seq(_stores(places, [var for var, _ in names])))


@function_pass
def LowerThreadAllreduce(func: ir.PrimFunc) -> ir.PrimFunc:
    """Exchange values between the threads that reduce together."""
    return func.with_body(_Lowerer().rewrite(func.body))

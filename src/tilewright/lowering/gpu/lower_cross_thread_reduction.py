"""Reductions over loops that are bound to threads become partial results and one exchange of them.

Each thread reduces its own share into a register, `tvm_thread_allreduce` combines the registers
of all threads, and the result is stored. Memory that the threads share is written by one of them.
A short innermost loop gets a register for each of its turns, so that they do not wait for each
other; these are combined in pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.arith.block_access import block_access_regions
from tilewright.errors import LowerError
from tilewright.ir.intrinsics import call_intrin
from tilewright.lowering.base import function_pass
from tilewright.lowering.gpu.threads import bound_tag, is_thread_tag
from tilewright.te.reduce import Values
from tilewright.te.reducers import CommutativeReducer, Reduction, recognize_reduction

REDUCE_SCOPE = "reduce_scope"
_MOST_LANES = 8


@dataclass(frozen=True)
class _ThreadReduction:
    """A reduction over threads: the loops of its steps within a thread, and its block."""

    loops: Sequence[ir.For]
    realize: ir.BlockRealize
    threads: Sequence[ir.Var]
    reduction: Reduction

    @property
    def lanes(self) -> int:
        """Turns of the innermost loop that have registers of their own."""
        loop = self.loops[-1] if self.loops else None
        if loop is None or loop.kind == ir.ForKind.VECTORIZED:
            return 1
        turns = loop.extent.value if isinstance(loop.extent, ir.IntImm) else 1
        return turns if 1 < turns <= _MOST_LANES else 1

    def substituted(self, node: ir.PrimExpr) -> ir.PrimExpr:
        """An expression of the block in terms of loops and threads."""
        return ir.substitute(node, self.realize.values)


def _nest(
    known: Iterable[ir.Var], stmt: ir.Stmt, loops: Sequence[ir.For] = ()
) -> _ThreadReduction | None:
    """The reduction over threads that a statement carries out, if it is nothing else."""
    if isinstance(stmt, ir.For) and not bound_tag(stmt):
        return _nest(known, stmt.body, [*loops, stmt])
    if not isinstance(stmt, ir.BlockRealize) or stmt.block.init is None:
        return None
    reducing = _vars_of(stmt, ir.IterType.COMM_REDUCE)
    threads = [var for var in known if var in reducing]
    if not threads:
        return None
    if not all(loop.loop_var in reducing for loop in loops):
        return None  # a loop further inside begins the reduction
    _check_spatial(stmt, [*threads, *(loop.loop_var for loop in loops)])
    return _ThreadReduction(loops, stmt, threads, _recognized(stmt.block))


def _vars_of(realize: ir.BlockRealize, kind: ir.IterType) -> set[ir.Var]:
    values = [value for each, value in realize.bindings if each.iter_type == kind]
    return {var for value in values for var in ir.free_vars(value)}


def _check_spatial(realize: ir.BlockRealize, reducing: Sequence[ir.Var]) -> None:
    shared = _vars_of(realize, ir.IterType.DATA_PAR).intersection(reducing)
    if shared:
        names = ", ".join(sorted(var.name for var in shared))
        raise LowerError(
            f"block {realize.block.name_hint!r} is reduced by threads, but {names} also decides "
            "where its result goes; bind a loop that only reduces"
        )


def _recognized(block: ir.Block) -> Reduction:
    reduction = recognize_reduction(block)
    if reduction is None:
        raise LowerError(
            f"block {block.name_hint!r} is reduced by threads, but its update is not a known "
            "commutative reduction; bind another loop, or write a sum, product, min, max or argmax"
        )
    return reduction


def _registers(name: str, dtype: ir.DType, count: int = 1) -> ir.Buffer:
    return ir.decl_buffer((count,), dtype, name, scope="local")


def _opaque(name: str, body: ir.Stmt, predicate: ir.PrimExpr = ir.TRUE) -> ir.Stmt:
    block = ir.Block((), (), (), name, body)
    regions = block_access_regions(block)
    block = ir.replace(block, reads=regions.reads, writes=regions.writes)
    return ir.BlockRealize((), predicate, block)


def _lowered(nest: _ThreadReduction) -> ir.Stmt:
    names = [store.buffer.name for store in nest.reduction.targets]
    dtypes = [store.buffer.dtype for store in nest.reduction.targets]
    pairs = list(zip(names, dtypes, strict=True))
    lanes = nest.lanes
    partial = [_registers(f"{name}_in_thread", dtype, lanes) for name, dtype in pairs]
    total = [_registers(f"{name}_cross_thread", dtype) for name, dtype in pairs]
    body = ir.seq(
        (
            *_within_thread(nest, partial),
            _exchange(nest, partial, total),
            _write_back(nest, total),
        )
    )
    name = nest.realize.block.name_hint
    block = ir.Block((), (), (), name, body, alloc_buffers=(*partial, *total))
    return ir.root_realize(block)


def _at(buffers: Sequence[ir.Buffer], index: ir.ExprLike = 0) -> list[ir.PrimExpr]:
    return [buffer[index] for buffer in buffers]


def _stores(
    buffers: Sequence[ir.Buffer], values: Sequence[ir.PrimExpr], place: ir.ExprLike = 0
) -> list[ir.Stmt]:
    """Stores of all values, each of which may use what is there before."""
    index = ir.convert(place)
    pairs = list(zip(buffers, values, strict=True))
    if len(pairs) == 1:
        return [ir.BufferStore(buffer, value, (index,)) for buffer, value in pairs]
    named = [ir.Var(f"{buffer.name}_next", buffer.dtype) for buffer in buffers]
    body: ir.Stmt = ir.seq(
        ir.BufferStore(buffer, var, (index,)) for buffer, var in zip(buffers, named, strict=True)
    )
    for var, value in reversed(list(zip(named, values, strict=True))):
        body = ir.LetStmt(var, value, body)
    return [body]


def _within_thread(nest: _ThreadReduction, partial: Sequence[ir.Buffer]) -> list[ir.Stmt]:
    """What each thread does for itself; the first register has the result."""
    reducer, name = nest.reduction.reducer, nest.realize.block.name_hint
    start = reducer.identity([buffer.dtype for buffer in partial])
    inputs = [nest.substituted(value) for value in nest.reduction.inputs]
    lane = nest.loops[-1].loop_var - nest.loops[-1].min if nest.lanes > 1 else ir.const(0)
    update: ir.Stmt = _opaque(
        f"{name}_in_thread",
        ir.seq(_stores(partial, reducer.combine(_at(partial, lane), inputs), lane)),
        nest.substituted(nest.realize.predicate),
    )
    for loop in reversed(nest.loops):
        update = ir.replace(loop, body=update)
    initial = _started(partial, start, nest.lanes)
    return [_opaque(f"{name}_in_thread_init", initial), update, *_in_pairs(nest, partial)]


def _started(partial: Sequence[ir.Buffer], values: Values, lanes: int) -> ir.Stmt:
    """Registers of all lanes with the neutral element in them."""
    lane: ir.PrimExpr = ir.const(0) if lanes == 1 else ir.Var("lane", ir.INT32)
    pairs = zip(partial, values, strict=True)
    stores = ir.seq(ir.BufferStore(buffer, value, (lane,)) for buffer, value in pairs)
    if not isinstance(lane, ir.Var):
        return stores
    return ir.For(lane, ir.const(0), ir.const(lanes), ir.ForKind.UNROLLED, stores)


def _in_pairs(nest: _ThreadReduction, partial: Sequence[ir.Buffer]) -> list[ir.Stmt]:
    """The registers of all lanes are combined; pairs do not wait for each other."""
    steps: list[ir.Stmt] = []
    left = nest.lanes
    while left > 1:
        half = (left + 1) // 2
        for number in range(left - half):
            both = _at(partial, number), _at(partial, number + half)
            values = nest.reduction.reducer.combine(*both)
            steps += _stores(partial, values, number)
        left = half
    name = f"{nest.realize.block.name_hint}_in_pairs"
    return [_opaque(name, ir.seq(steps))] if steps else []


def _comm_reducer(reducer: CommutativeReducer, dtypes: Sequence[ir.DType]) -> ir.CommReducer:
    left = tuple(ir.Var(f"x{number}", dtype) for number, dtype in enumerate(dtypes))
    right = tuple(ir.Var(f"y{number}", dtype) for number, dtype in enumerate(dtypes))
    return ir.CommReducer(left, right, reducer.combine(left, right), reducer.identity(dtypes))


def _exchange(
    nest: _ThreadReduction, partial: Sequence[ir.Buffer], total: Sequence[ir.Buffer]
) -> ir.Stmt:
    reducer = _comm_reducer(nest.reduction.reducer, [buffer.dtype for buffer in partial])
    call = call_intrin(
        "handle",
        "tir.tvm_thread_allreduce",
        ir.const(len(partial), "uint32"),
        *_at(partial),
        ir.TRUE,
        *_at(total),
        *nest.threads,
    )
    nothing = ir.intrinsics.reinterpret("handle", ir.const(0, "uint64"))
    body = ir.AttrStmt(reducer, REDUCE_SCOPE, nothing, ir.Evaluate(call))
    block = ir.Block(
        (),
        tuple(map(ir.BufferRegion.full, partial)),
        tuple(map(ir.BufferRegion.full, total)),
        f"{nest.realize.block.name_hint}_cross_thread",
        body,
    )
    return ir.root_realize(block)


def _write_back(nest: _ThreadReduction, total: Sequence[ir.Buffer]) -> ir.Stmt:
    """The result goes where the block would have written it."""
    steps = {*nest.threads, *(loop.loop_var for loop in nest.loops)}
    predicate = nest.substituted(nest.realize.predicate)
    tests = [test for test in ir.conjuncts(predicate) if not ir.uses_var(test, steps.__contains__)]
    targets = nest.reduction.targets
    if any(store.buffer.scope != "local" for store in targets):
        tests += [ir.equal(thread, ir.const(0, thread.dtype)) for thread in nest.threads]
    stores = ir.seq(
        ir.BufferStore(store.buffer, value, tuple(map(nest.substituted, store.indices)))
        for store, value in zip(targets, _at(total), strict=True)
    )
    name = f"{nest.realize.block.name_hint}_write_back"
    return _opaque(name, stores, ir.logical_and(*tests))


@function_pass
def LowerCrossThreadReduction(func: ir.PrimFunc) -> ir.PrimFunc:
    """Let threads exchange what each of them has reduced."""
    loops = ir.nodes_of(func.body, ir.For)
    threads = dict.fromkeys(loop.loop_var for loop in loops if is_thread_tag(bound_tag(loop)))

    def lowered(node: ir.Stmt) -> ir.Stmt | None:
        nest = _nest(threads, node)
        return None if nest is None else _lowered(nest)

    return ir.rewrite(func, before={(ir.For, ir.BlockRealize): lowered})

"""`decompose_padding`: a padded copy as a constant fill and a copy of what is in bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.arith import Analyzer
from tilewright.ir import (
    GE,
    GT,
    LE,
    LT,
    TRUE,
    Block,
    BlockRealize,
    BufferStore,
    Call,
    CallEffect,
    FloatImm,
    For,
    IntImm,
    IterVar,
    PrimExpr,
    Range,
    SeqStmt,
    Stmt,
    Var,
    conjuncts,
    const,
    free_vars,
    is_one,
    is_zero,
    less,
    less_equal,
    logical_and,
    nodes_of,
    substitute,
    uses_var,
)
from tilewright.ir.node import replace
from tilewright.schedule.conditions.checks import loops_divided_at, why_not_complete
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.moves.block_iterators import IteratorSubstitution
from tilewright.schedule.moves.init_block import in_serial_copies
from tilewright.schedule.state.handles import BlockRV, LoopRV
from tilewright.schedule.state.scope import (
    leaf_realizes,
    realize_of,
    scope_of,
    scope_root,
)
from tilewright.schedule.state.splice import copy_path, replace_in_parent
from tilewright.schedule.state.sref import StmtSRef
from tilewright.schedule.state.state import BlockInfo, ScheduleState
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive


class NotCompleteBlock(PrimitiveError):
    reason = "block {block!r} is not a complete block: {why}"


class NotAPadding(PrimitiveError):
    reason = "block {block!r} is not a padding: {why}"
    remedy = "its body must be `B[...] = T.if_then_else(in bounds, value, constant)`"


@dataclass(frozen=True)
class PaddedStore:
    """The body of a padding block taken apart."""

    store: BufferStore
    condition: PrimExpr
    value: PrimExpr
    fill: PrimExpr


def decompose_padding(state: ScheduleState, block: StmtSRef, loop: StmtSRef) -> StmtSRef:
    """Fill right before `loop`; the block copies only what is in bounds from then on."""
    outside, inside = loops_divided_at(block, loop)
    why = why_not_complete(scope_of(state, scope_root(block)), block)
    if why:
        raise NotCompleteBlock(block, block=block.name, why=why)
    realize = realize_of(block)
    padding = _padding_of(block)
    bounds = _inbound_domains(block, padding)
    realize = _simplified(realize, [sref.loop for sref in outside])
    fill, fill_nest = _fill(realize, padding, [sref.loop for sref in inside])
    shrinkable = _loops_of_one_iterator(realize, inside)
    copy, extents = _copy(
        realize, padding, bounds, shrinkable, [sref.loop for sref in (*outside, *inside)]
    )
    copy_nest = _with_extents(copy_path(loop, block, copy), extents)
    replace_in_parent(state, loop, (fill_nest, copy_nest), {block.block: copy.block})
    state.infos[block] = BlockInfo()
    state.info(scope_root(block)).stage_pipeline = None
    return state.srefs[fill]


# --- recognition --------------------------------------------------------------------------------


def _padding_of(block: StmtSRef) -> PaddedStore:
    body = block.block.body

    def fail(why: str) -> NotAPadding:
        return NotAPadding(block, block=block.name, why=why)

    if not isinstance(body, BufferStore) or body.predicate is not None:
        raise fail("its body is not one plain store")
    choice = body.value
    if not isinstance(choice, Call) or getattr(choice.op, "name", "") != "tir.if_then_else":
        raise fail("the stored value is not an if_then_else")
    condition, value, fill = choice.args
    if not isinstance(fill, (IntImm, FloatImm)):
        raise fail("the value out of bounds is not a constant")
    if not _is_pure(value):
        raise fail("the value in bounds has side effects")
    return PaddedStore(body, condition, value, fill)


def _is_pure(node: PrimExpr) -> bool:
    effects = (getattr(c.op, "effect", CallEffect.UPDATE_STATE) for c in nodes_of(node, Call))
    return all(effect <= CallEffect.READ_STATE for effect in effects)


def _inbound_domains(block: StmtSRef, padding: PaddedStore) -> dict[Var, tuple[int, int]]:
    """For each iterator the bounds `[low, high)` within which the condition holds."""
    domains: dict[Var, tuple[int, int]] = {}
    for iter_var in block.block.iter_vars:
        begin, extent = iter_var.dom.min, iter_var.dom.extent  # type: ignore[union-attr]
        if isinstance(begin, IntImm) and isinstance(extent, IntImm):
            domains[iter_var.var] = begin.value, begin.value + extent.value
    whole = dict(domains)
    for part in conjuncts(padding.condition):
        found = _bound_of(part, domains)
        if found is None:
            why = f"the condition `{part}` is not a bound of one iterator with constant domain"
            raise NotAPadding(block, block=block.name, why=why)
        variable, low, high = found
        old = domains[variable]
        domains[variable] = max(old[0], low), min(old[1], high)
    if domains == whole:
        raise NotAPadding(block, block=block.name, why="everything is in bounds")
    if any(low >= high for low, high in domains.values()):
        raise NotAPadding(block, block=block.name, why="nothing is in bounds")
    return domains


def _bound_of(
    condition: PrimExpr, domains: dict[Var, tuple[int, int]]
) -> tuple[Var, int, int] | None:
    """(iterator, low, high) of a comparison that is linear in one iterator."""
    variables = [var for var in free_vars(condition) if var.dtype.is_integral]
    if len(variables) != 1 or variables[0] not in domains:
        return None
    (variable,) = variables
    low, high = domains[variable]
    match condition:
        case GE(a=a, b=b) | LE(a=b, b=a):
            slack = a - b  # >= 0
        case GT(a=a, b=b) | LT(a=b, b=a):
            slack = a - b - 1
        case _:
            return None
    line = _line(slack, variable)
    if line is None:
        return None
    slope, start = line
    if slope > 0:
        return variable, -(start // slope), high
    if slope < 0:
        return variable, low, start // -slope + 1
    return None


def _line(expr: PrimExpr, variable: Var) -> tuple[int, int] | None:
    """(slope, value at zero) of a linear expression."""
    analyzer = Analyzer()
    start = analyzer.simplify(substitute(expr, {variable: const(0, variable.dtype)}))
    one = analyzer.simplify(substitute(expr, {variable: const(1, variable.dtype)}))
    if not isinstance(start, IntImm) or not isinstance(one, IntImm):
        return None
    slope = one.value - start.value
    if not analyzer.can_prove_equal(expr, variable * slope + start):
        return None
    return slope, start.value


# --- the two blocks -----------------------------------------------------------------------------


def _simplified(realize: BlockRealize, outside: Sequence[For]) -> BlockRealize:
    """Bindings with what is known of the loops that the two nests will share."""
    analyzer = Analyzer()
    for loop in outside:
        analyzer.bind(loop.loop_var, loop.domain)
    values = tuple(v if _is_wide(v, outside) else analyzer.simplify(v) for v in realize.iter_values)
    return replace(realize, iter_values=values)


def _is_wide(value: PrimExpr, outside: Sequence[For]) -> bool:
    """A plain loop variable with more than one value, which nothing can simplify."""
    return isinstance(value, Var) and not any(
        loop.loop_var is value and is_one(loop.extent) for loop in outside
    )


def _fill(realize: BlockRealize, padding: PaddedStore, loops: Sequence[For]) -> tuple[Block, Stmt]:
    """A block that stores the constant everywhere, under serial copies of the loops."""
    block = realize.block
    renamed: dict[Var, PrimExpr] = {}
    for loop in loops:
        renamed[loop.loop_var] = Var(loop.loop_var.name, loop.loop_var.dtype)
    fresh: dict[Var, PrimExpr] = {}
    iter_vars: list[IterVar] = []
    for iter_var in block.iter_vars:
        variable = Var(iter_var.var.name, iter_var.var.dtype)
        fresh[iter_var.var] = variable
        iter_vars.append(replace(iter_var, var=variable))
    indices = tuple(substitute(index, fresh) for index in padding.store.indices)
    fill = Block(
        tuple(iter_vars),
        (),
        tuple(substitute(region, fresh) for region in block.writes),
        f"{block.name_hint}_pad_const",
        BufferStore(padding.store.buffer, padding.fill, indices),
    )
    values = tuple(substitute(value, renamed) for value in realize.iter_values)
    nest = BlockRealize(values, substitute(realize.predicate, renamed), fill)
    return fill, in_serial_copies(loops, renamed, nest)


def _loops_of_one_iterator(realize: BlockRealize, inside: Sequence[StmtSRef]) -> set[Var]:
    """Loops that serve one iterator of this block and nothing else; they can be shortened."""
    found: set[Var] = set()
    for sref in inside:
        loop = sref.loop
        users = [v for v in realize.iter_values if uses_var(v, loop.loop_var.same_as)]
        is_alone = len(list(leaf_realizes(loop.body))) == 1
        guarded = uses_var(realize.predicate, loop.loop_var.same_as)
        starts_at_zero = is_zero(loop.min)
        if len(users) == 1 and is_alone and not guarded and starts_at_zero:
            found.add(loop.loop_var)
    return found


def _copy(
    realize: BlockRealize,
    padding: PaddedStore,
    bounds: dict[Var, tuple[int, int]],
    shrinkable: set[Var],
    loops: Sequence[For],
) -> tuple[BlockRealize, dict[Var, int]]:
    """The block over the part in bounds, and the new extents of loops."""
    analyzer = Analyzer()
    for loop in loops:
        analyzer.bind(loop.loop_var, loop.domain)
    block = realize.block
    values: list[PrimExpr] = []
    iter_vars: list[IterVar] = []
    shifted: dict[Var, PrimExpr] = {}
    extents: dict[Var, int] = {}
    condition: PrimExpr = TRUE
    for iter_var, value in zip(block.iter_vars, realize.iter_values, strict=True):
        variable, dtype = Var(iter_var.var.name, iter_var.var.dtype), iter_var.var.dtype
        shifted[iter_var.var] = variable
        if iter_var.var not in bounds:
            iter_vars.append(replace(iter_var, var=variable))
            values.append(value)
            continue
        low, high = bounds[iter_var.var]
        domain = Range(const(0, dtype), const(high - low, dtype))
        iter_vars.append(replace(iter_var, dom=domain, var=variable))
        if low:
            shifted[iter_var.var] = variable + low
        if isinstance(value, Var) and value in shrinkable:
            extents[value] = high - low
            values.append(value)
            continue
        values.append(analyzer.simplify(value - low) if low else value)
        for part in (less_equal(const(low, dtype), value), less(value, const(high, dtype))):
            condition = logical_and(condition, analyzer.simplify(part))
    substitution = IteratorSubstitution(shifted, iter_vars)
    bare = replace(block, body=replace(padding.store, value=padding.value), annotations={})
    copy = replace(substitution.block(bare), iter_vars=tuple(iter_vars))
    return BlockRealize(tuple(values), logical_and(condition, realize.predicate), copy), extents


def _with_extents(stmt: Stmt, extents: dict[Var, int]) -> Stmt:
    """A nest with some of its loops shortened; they hold one block each."""
    if isinstance(stmt, For):
        body = _with_extents(stmt.body, extents)
        extent = stmt.extent
        if stmt.loop_var in extents:
            extent = const(extents[stmt.loop_var], stmt.loop_var.dtype)
        return replace(stmt, body=body, extent=extent)
    if isinstance(stmt, SeqStmt):
        return SeqStmt(tuple(_with_extents(item, extents) for item in stmt.seq))
    return stmt


@register_primitive
class DecomposePadding(Primitive[BlockRV]):
    method = "decompose_padding"
    block: BlockRV = given()
    loop: LoopRV = given()

    def run(self, sch: ScheduleCore) -> BlockRV:
        block, loop = sch.get_sref(self.block), sch.get_sref(self.loop)
        return sch.block_rv(decompose_padding(sch.state, block, loop))

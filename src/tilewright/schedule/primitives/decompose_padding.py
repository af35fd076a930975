"""`decompose_padding`: a padded copy as a constant fill and a copy of what is in bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright import arith, ir
from tilewright.arith.affine import affine_of
from tilewright.arith.interning import has_side_effect
from tilewright.schedule.conditions.checks import loops_divided_at, why_not_complete
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.moves import block_iterators
from tilewright.schedule.moves.init_block import in_serial_copies
from tilewright.schedule.state import BlockInfo, BlockRV, LoopRV, StmtSRef, leaf_realizes
from tilewright.schedule.state.scope import domains_of, iterator_domains
from tilewright.schedule.state.splice import copy_path, replace_in_parent
from tilewright.schedule.trace.instruction import Primitive, given, register_primitive


class NotCompleteBlock(PrimitiveError):
    reason = "block {block!r} is not a complete block: {why}"


class NotAPadding(PrimitiveError):
    reason = "block {block!r} is not a padding: {why}"
    remedy = "its body must be `B[...] = T.if_then_else(in bounds, value, constant)`"


@dataclass(frozen=True)
class PaddedStore:
    """The body of a padding block taken apart."""

    store: ir.BufferStore
    condition: ir.PrimExpr
    value: ir.PrimExpr
    fill: ir.PrimExpr


@register_primitive
class DecomposePadding(Primitive[BlockRV]):
    """Fill right before `loop`; the block copies only what is in bounds from then on."""

    block: BlockRV = given()
    loop: LoopRV = given()

    def run(self, sch: ScheduleCore) -> BlockRV:
        state, block, loop = sch.state, sch.get_sref(self.block), sch.get_sref(self.loop)
        outside, inside = loops_divided_at(block, loop)
        if why := why_not_complete(state.scope_of(block.scope_root), block):
            raise NotCompleteBlock(block=block, why=why)
        realize = block.realize
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
        state.info(block.scope_root).stage_pipeline = None
        return sch.block_rv(state.srefs[fill])


# --- recognition --------------------------------------------------------------------------------


def _padding_of(block: StmtSRef) -> PaddedStore:
    body = block.block.body

    def fail(why: str) -> NotAPadding:
        return NotAPadding(block=block, why=why)

    if not isinstance(body, ir.BufferStore) or body.predicate is not None:
        raise fail("its body is not one plain store")
    choice = body.value
    if not isinstance(choice, ir.Call) or getattr(choice.op, "name", "") != "tir.if_then_else":
        raise fail("the stored value is not an if_then_else")
    condition, value, fill = choice.args
    if not isinstance(fill, (ir.IntImm, ir.FloatImm)):
        raise fail("the value out of bounds is not a constant")
    if has_side_effect(value):
        raise fail("the value in bounds has side effects")
    return PaddedStore(body, condition, value, fill)


def _inbound_domains(block: StmtSRef, padding: PaddedStore) -> dict[ir.Var, tuple[int, int]]:
    """For each iterator the bounds `[low, high)` within which the condition holds."""
    domains: dict[ir.Var, tuple[int, int]] = {}
    for var, domain in iterator_domains(block.block).items():
        if isinstance(domain.min, ir.IntImm) and isinstance(domain.extent, ir.IntImm):
            domains[var] = domain.min.value, domain.min.value + domain.extent.value
    whole = dict(domains)
    for part in ir.conjuncts(padding.condition):
        if (found := _bound_of(part, domains)) is None:
            why = f"the condition `{part}` is not a bound of one iterator with constant domain"
            raise NotAPadding(block=block, why=why)
        variable, low, high = found
        old = domains[variable]
        domains[variable] = max(old[0], low), min(old[1], high)
    if domains == whole:
        raise NotAPadding(block=block, why="everything is in bounds")
    if any(low >= high for low, high in domains.values()):
        raise NotAPadding(block=block, why="nothing is in bounds")
    return domains


def _bound_of(
    condition: ir.PrimExpr, domains: dict[ir.Var, tuple[int, int]]
) -> tuple[ir.Var, int, int] | None:
    """(iterator, low, high) of a comparison that is linear in one iterator."""
    variables = [var for var in ir.free_vars(condition) if var.dtype.is_integral]
    if len(variables) != 1 or variables[0] not in domains:
        return None
    (variable,) = variables
    low, high = domains[variable]
    match condition:
        case ir.GE(a=a, b=b) | ir.LE(a=b, b=a):
            slack = a - b  # >= 0
        case ir.GT(a=a, b=b) | ir.LT(a=b, b=a):
            slack = a - b - 1
        case _:
            return None
    form = affine_of(arith.Analyzer().simplify(slack))
    if len(form.terms) != 1 or variable not in form.terms:
        return None
    slope, start = form.terms[variable], form.base
    if slope > 0:
        return variable, -(start // slope), high
    return variable, low, start // -slope + 1


# --- the two blocks -----------------------------------------------------------------------------


def _simplified(realize: ir.BlockRealize, outside: Sequence[ir.For]) -> ir.BlockRealize:
    """Bindings with what is known of the loops that the two nests will share."""
    analyzer = arith.Analyzer(domains_of(outside))
    values = tuple(v if _is_wide(v, outside) else analyzer.simplify(v) for v in realize.iter_values)
    return ir.replace(realize, iter_values=values)


def _is_wide(value: ir.PrimExpr, outside: Sequence[ir.For]) -> bool:
    """A plain loop variable with more than one value, which nothing can simplify."""
    return isinstance(value, ir.Var) and not any(
        loop.loop_var is value and ir.is_one(loop.extent) for loop in outside
    )


def _fill(
    realize: ir.BlockRealize, padding: PaddedStore, loops: Sequence[ir.For]
) -> tuple[ir.Block, ir.Stmt]:
    """A block that stores the constant everywhere, under serial copies of the loops."""
    block = realize.block
    renamed = block_iterators.renamed_loops(loops)
    iter_vars, fresh = block_iterators.renamed_iterators(block.iter_vars)
    indices = tuple(ir.substitute(index, fresh) for index in padding.store.indices)
    fill = ir.Block(
        iter_vars,
        (),
        tuple(ir.substitute(region, fresh) for region in block.writes),
        f"{block.name_hint}_pad_const",
        ir.BufferStore(padding.store.buffer, padding.fill, indices),
    )
    values = tuple(ir.substitute(value, renamed) for value in realize.iter_values)
    nest = ir.BlockRealize(values, ir.substitute(realize.predicate, renamed), fill)
    return fill, in_serial_copies(loops, renamed, nest)


def _loops_of_one_iterator(realize: ir.BlockRealize, inside: Sequence[StmtSRef]) -> set[ir.Var]:
    """Loops that serve one iterator of this block and nothing else; they can be shortened."""
    found: set[ir.Var] = set()
    for sref in inside:
        loop = sref.loop
        users = [v for v in realize.iter_values if ir.uses_var(v, loop.loop_var.same_as)]
        is_alone = len(list(leaf_realizes(loop.body))) == 1
        guarded = ir.uses_var(realize.predicate, loop.loop_var.same_as)
        starts_at_zero = ir.is_zero(loop.min)
        if len(users) == 1 and is_alone and not guarded and starts_at_zero:
            found.add(loop.loop_var)
    return found


def _copy(
    realize: ir.BlockRealize,
    padding: PaddedStore,
    bounds: dict[ir.Var, tuple[int, int]],
    shrinkable: set[ir.Var],
    loops: Sequence[ir.For],
) -> tuple[ir.BlockRealize, dict[ir.Var, int]]:
    """The block over the part in bounds, and the new extents of loops."""
    analyzer = arith.Analyzer(domains_of(loops))
    block = realize.block
    values: list[ir.PrimExpr] = []
    iter_vars: list[ir.IterVar] = []
    shifted: dict[ir.Var, ir.PrimExpr] = {}
    extents: dict[ir.Var, int] = {}
    condition: ir.PrimExpr = ir.TRUE
    for iter_var, value in zip(block.iter_vars, realize.iter_values, strict=True):
        variable, dtype = ir.Var(iter_var.var.name, iter_var.var.dtype), iter_var.var.dtype
        shifted[iter_var.var] = variable
        if iter_var.var not in bounds:
            iter_vars.append(ir.replace(iter_var, var=variable))
            values.append(value)
            continue
        low, high = bounds[iter_var.var]
        domain = ir.Range(ir.const(0, dtype), ir.const(high - low, dtype))
        iter_vars.append(ir.replace(iter_var, dom=domain, var=variable))
        if low:
            shifted[iter_var.var] = variable + low
        if isinstance(value, ir.Var) and value in shrinkable:
            extents[value] = high - low
            values.append(value)
            continue
        values.append(analyzer.simplify(value - low) if low else value)
        for part in (
            ir.less_equal(ir.const(low, dtype), value),
            ir.less(value, ir.const(high, dtype)),
        ):
            condition = ir.logical_and(condition, analyzer.simplify(part))
    substitution = block_iterators.IteratorSubstitution(shifted, iter_vars)
    bare = ir.replace(block, body=ir.replace(padding.store, value=padding.value), annotations={})
    copy = ir.replace(substitution.block(bare), iter_vars=tuple(iter_vars))
    return ir.BlockRealize(
        tuple(values), ir.logical_and(condition, realize.predicate), copy
    ), extents


def _with_extents(stmt: ir.Stmt, extents: dict[ir.Var, int]) -> ir.Stmt:
    """A nest with some of its loops shortened; they hold one block each."""

    def shortened(loop: ir.For) -> ir.For:
        if loop.loop_var not in extents:
            return loop
        return ir.replace(loop, extent=ir.const(extents[loop.loop_var], loop.loop_var.dtype))

    return ir.rewrite(stmt, {ir.For: shortened})

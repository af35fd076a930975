"""`transform_block_layout`: the iterators of a block replaced by others that cover the same."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import arith, ir
from tilewright.errors import ArithError
from tilewright.schedule.conditions.checks import check_names_no_loops, check_starts_at_zero
from tilewright.schedule.core import ScheduleCore
from tilewright.schedule.errors import PrimitiveError
from tilewright.schedule.layouts.layout import axes_of
from tilewright.schedule.moves.block_iterators import IteratorSubstitution
from tilewright.schedule.state import BlockRV, Exprs, StmtSRef, leaf_realizes
from tilewright.schedule.state.scope import domain_of
from tilewright.schedule.state.splice import loop_nest
from tilewright.schedule.trace.instruction import Primitive, constant, given, register_primitive
from tilewright.schedule.trace.text import index_map_from_json, index_map_to_json

_FREE_KINDS = (ir.IterType.DATA_PAR, ir.IterType.COMM_REDUCE)


class NoLoops(PrimitiveError):
    reason = "block {block!r} has no loops around it"


class NotAlone(PrimitiveError):
    reason = "loop {loop!r} holds more than block {block!r}"
    remedy = "the loops of the block are made anew, so nothing else may be in them"


class BindingsNotPlain(PrimitiveError):
    reason = "the iterators of block {block!r} are not its loops, one each and without a condition"
    remedy = "change the block's iterators before splitting and fusing its loops"


class LoopRunsOverPart(PrimitiveError):
    reason = "loop {loop!r} runs over {extent} of the {whole} values of iterator {iterator!r}"
    remedy = "the new loops would run over all of them"


class WrongArity(PrimitiveError):
    reason = "block {block!r} has {count} iterators, the index map takes {given}"


class MixedIterator(PrimitiveError):
    reason = "the new iterator `{value}` of block {block!r} mixes iterators of different kinds"
    remedy = "each new iterator must come from spatial ones only, or from reductions only"


class IteratorsHaveOrder(PrimitiveError):
    reason = "block {block!r} has iterators that are neither spatial nor reductions"
    remedy = "only those may run in another order"


class NotBijective(PrimitiveError):
    reason = (
        "the index map {index_map} is not a bijection on the iterators of block {block!r}: {why}"
    )


@register_primitive
class TransformBlockLayout(Primitive[None]):
    """Run a block over the iterators that `index_map` makes of its own."""

    block: BlockRV = given()
    index_map: arith.IndexMap = constant(to_json=index_map_to_json, from_json=index_map_from_json)

    def run(self, sch: ScheduleCore) -> None:
        state, block, index_map = sch.state, sch.get_sref(self.block), self.index_map
        realize, top = _check_nest(block)
        stmt = block.block
        if any(iter_var.iter_type not in _FREE_KINDS for iter_var in stmt.iter_vars):
            raise IteratorsHaveOrder(block=block)
        if len(index_map.initial_indices) != len(stmt.iter_vars):
            raise WrongArity(
                block=block, count=len(stmt.iter_vars), given=len(index_map.initial_indices)
            )
        index_map = index_map.with_dtype(stmt.iter_vars[0].var.dtype)
        kinds = [_kind_of(block, index_map, value) for value in index_map.final_indices]
        extents, inverse = _inverted(block, index_map)
        variables = axes_of(extents, "v")
        iters = [
            ir.IterVar(ir.Range(ir.const(0, var.dtype), extent), var, kind)
            for var, extent, kind in zip(variables, extents, kinds, strict=True)
        ]
        values = inverse.map_indices(variables)
        replaced = dict(zip((iv.var for iv in stmt.iter_vars), values, strict=True))
        changed = IteratorSubstitution(replaced, iters).block(stmt)
        changed = ir.replace(changed, iter_vars=tuple(iters))
        state.replace(top, _nest(extents, changed), {realize.block: changed})
        state.info(block).affine_binding = None


def _check_nest(block: StmtSRef) -> tuple[ir.BlockRealize, StmtSRef]:
    """How the block runs and the outermost of its loops, which hold nothing else."""
    loops = block.loops
    if not loops:
        raise NoLoops(block=block)
    top = loops[0]
    if len(list(leaf_realizes(top.loop.body))) != 1:
        raise NotAlone(loop=top, block=block)
    for loop in loops:
        check_starts_at_zero(loop)
    check_names_no_loops(block)
    realize = block.realize
    variables = {loop.loop.loop_var for loop in loops}
    used = {value for value in realize.iter_values if isinstance(value, ir.Var)}
    plain = used == variables and len(realize.iter_values) == len(loops)
    if not plain or not isinstance(realize.predicate, ir.IntImm):
        raise BindingsNotPlain(block=block)
    _check_whole(realize, loops)
    return realize, top


def _check_whole(realize: ir.BlockRealize, loops: Sequence[StmtSRef]) -> None:
    by_variable = {loop.loop.loop_var: loop for loop in loops}
    for iter_var, value in realize.bindings:
        assert isinstance(value, ir.Var)
        loop, whole = by_variable[value], domain_of(iter_var).extent
        if not arith.Analyzer().can_prove_equal(loop.loop.extent, whole):
            raise LoopRunsOverPart(
                loop=loop, extent=loop.loop.extent, whole=whole, iterator=iter_var.var.name
            )


def _kind_of(block: StmtSRef, index_map: arith.IndexMap, value: ir.PrimExpr) -> ir.IterType:
    kind_of = {
        var: iter_var.iter_type
        for var, iter_var in zip(index_map.initial_indices, block.block.iter_vars, strict=True)
    }
    kinds = {kind_of[var] for var in ir.free_vars(value) if var in kind_of}
    if len(kinds) > 1:
        raise MixedIterator(block=block, value=value)
    return kinds.pop() if kinds else ir.IterType.DATA_PAR


def _inverted(
    block: StmtSRef, index_map: arith.IndexMap
) -> tuple[list[ir.PrimExpr], arith.IndexMap]:
    """The extents of the new iterators, and the map back."""
    old = [domain_of(iter_var).extent for iter_var in block.block.iter_vars]
    try:
        return index_map.map_shape(old), index_map.inverse(old)
    except ArithError as error:
        raise NotBijective(index_map=index_map, block=block, why=str(error)) from None


def _nest(extents: Exprs, block: ir.Block) -> ir.For:
    loops = axes_of(extents, "ax")
    body = loop_nest(
        list(zip(loops, extents, strict=True)), ir.BlockRealize(tuple(loops), ir.TRUE, block)
    )
    assert isinstance(body, ir.For)
    return body

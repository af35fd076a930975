"""`init` of a reduction block becomes an `if` on its reduction iterators before the body.

A reduction that may have no step at all is initialized before its outermost loop instead: the sum
of nothing is 0, not what was there before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright import ir
from tilewright.arith.block_access import block_access_regions
from tilewright.ir.clone import Cloner
from tilewright.lowering.base import function_pass
from tilewright.lowering.rewriters import StmtRewriter


def first_reduction_step(block: ir.Block) -> ir.PrimExpr:
    """The condition that every reduction iterator of a block stands at its first value."""
    reducers = [it for it in block.iter_vars if it.iter_type == ir.IterType.COMM_REDUCE]
    return ir.logical_and(*(ir.equal(it.var, it.dom.min) for it in reducers if it.dom is not None))


class _InitLowerer(StmtRewriter):
    def __init__(self) -> None:
        self._initialized: set[ir.Block] = set()

    def visit_for(self, loop: ir.For) -> ir.Stmt:
        before = []
        for loops, realize in _realizes_under([loop], loop.body):
            if realize.block not in self._initialized and _may_have_no_step(loops, realize):
                self._initialized.add(realize.block)
                before.append(_initialization(loops, realize))
        made: ir.Stmt = self.generic_visit(loop)
        return ir.seq((*before, made)) if before else made

    def visit_block(self, block: ir.Block) -> ir.Stmt:
        made: ir.Block = self.generic_visit(block)
        if made.init is None:
            return made
        if block in self._initialized:
            read = {region.buffer for region in made.reads}
            written = [region for region in made.writes if region.buffer not in read]
            return ir.replace(made, init=None, reads=(*written, *made.reads))
        condition = first_reduction_step(made)
        guarded = made.init if ir.is_true(condition) else ir.IfThenElse(condition, made.init)
        return ir.replace(made, init=None, body=ir.seq((guarded, made.body)))


Nest = tuple[list[ir.For], ir.BlockRealize]


def _realizes_under(loops: list[ir.For], stmt: ir.Stmt) -> Iterator[Nest]:
    """The blocks in a statement, each with the loops around it, as far as there are only loops."""
    match stmt:
        case ir.For():
            yield from _realizes_under([*loops, stmt], stmt.body)
        case ir.SeqStmt():
            for each in stmt.seq:
                yield from _realizes_under(loops, each)
        case ir.BlockRealize():
            yield loops, stmt


def _may_have_no_step(loops: Sequence[ir.For], realize: ir.BlockRealize) -> bool:
    """The first loop is the outermost one of a reduction, of which one may not run at all."""
    reducing = _vars_of(realize, ir.IterType.COMM_REDUCE)
    own = [loop for loop in loops if loop.loop_var in reducing]
    if realize.block.init is None or not own or own[0] is not loops[0]:
        return False
    extents = [loop.extent for loop in own]
    return not all(isinstance(extent, ir.IntImm) and extent.value > 0 for extent in extents)


def _vars_of(realize: ir.BlockRealize, kind: ir.IterType) -> set[ir.Var]:
    """The variables that iterators of some kind are bound to."""
    iterators = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    return {v for each, value in iterators if each.iter_type == kind for v in ir.free_vars(value)}


def _initialization(loops: Sequence[ir.For], realize: ir.BlockRealize) -> ir.Stmt:
    """The init of a block for all values of its other iterators, under loops of its own."""
    block, spatial = realize.block, _vars_of(realize, ir.IterType.DATA_PAR)
    kept = [loop for loop in loops if loop.loop_var in spatial]
    gone = {loop.loop_var: loop.min for loop in loops if loop.loop_var not in spatial}
    others = [
        (each, value)
        for each, value in zip(block.iter_vars, realize.iter_values, strict=True)
        if each.iter_type == ir.IterType.DATA_PAR
    ]
    assert block.init is not None
    own = ir.Block(
        tuple(each for each, _ in others), (), block.writes, f"{block.name_hint}_init", block.init
    )
    own = ir.replace(own, reads=block_access_regions(own).reads)
    parts = [
        part for part in ir.conjuncts(realize.predicate) if not ir.uses_var(part, gone.__contains__)
    ]
    nest: ir.Stmt = ir.BlockRealize(
        tuple(value for _, value in others), ir.logical_and(*parts), own
    )
    for loop in reversed(kept):
        nest = ir.replace(loop, body=nest)
    return Cloner().rewrite(ir.substitute(nest, gone))


@function_pass
def LowerInitBlock(func: ir.PrimFunc) -> ir.PrimFunc:
    """Run the init of each reduction block in its first reduction step, or before all of them."""
    return func.with_body(_InitLowerer().rewrite(func.body))

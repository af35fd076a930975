"""Reductions without a step: they give the value that they start from.

The `init` of a block runs in the first step of its reduction. Where there may be no step, it runs
before the outermost loop of the reduction, under a copy of the nest in which every loop of the
reduction runs once and the block does nothing else.
"""

from __future__ import annotations

from typing import Any

from tilewright import ir


class EarlyStarts(ir.Rewriter):
    """Puts the start of reductions that may have no step before their loops."""

    def __init__(self) -> None:
        self._started: set[ir.Block] = set()

    def visit_prim_expr(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return node

    def visit_for(self, node: ir.For) -> ir.Stmt:
        starts = []
        for realize in _realizes_in(node.body):
            own = _reduction_vars(realize)
            if realize.block in self._started or node.loop_var not in own:
                continue
            if realize.block.init is not None and _has_doubtful_loop(node, own):
                self._started.add(realize.block)
                starts.append(_OnlyStart(realize, own).rewrite(node))
        loop: ir.For = self.generic_visit(node)
        return ir.SeqStmt((*starts, loop)) if starts else loop

    def visit_block(self, node: ir.Block) -> ir.Block:
        block: ir.Block = self.generic_visit(node)
        return ir.replace(block, init=None) if node in self._started else block


class _OnlyStart(ir.Rewriter):
    """The nest of one block, which only does its `init`."""

    def __init__(self, target: ir.BlockRealize, reducing: set[ir.Var]) -> None:
        self._target = target
        self._reducing = reducing

    def visit_for(self, node: ir.For) -> ir.For:
        loop: ir.For = self.generic_visit(node)
        if node.loop_var not in self._reducing:
            return loop
        return ir.replace(loop, extent=ir.const(1, node.extent.dtype))

    def visit_block_realize(self, node: ir.BlockRealize) -> ir.Stmt:
        if node is not self._target or node.block.init is None:
            return ir.no_op()
        kept = [i for i, each in enumerate(node.block.iter_vars) if _is_spatial(each)]
        block = ir.replace(
            node.block,
            iter_vars=tuple(node.block.iter_vars[i] for i in kept),
            init=None,
            body=node.block.init,
        )
        values = tuple(node.iter_values[i] for i in kept)
        return ir.BlockRealize(values, self._without_steps(node.predicate), block)

    def _without_steps(self, predicate: ir.PrimExpr) -> ir.PrimExpr:
        """What a predicate says of other loops."""
        if isinstance(predicate, ir.And):
            return ir.logical_and(
                self._without_steps(predicate.a), self._without_steps(predicate.b)
            )
        return ir.const(True) if ir.uses_var(predicate, self._reducing.__contains__) else predicate


def _is_spatial(iter_var: Any) -> bool:
    return bool(iter_var.iter_type == ir.IterType.DATA_PAR)


def _realizes_in(stmt: ir.Stmt) -> list[ir.BlockRealize]:
    """The blocks under loops and sequences alone."""
    if isinstance(stmt, ir.BlockRealize):
        return [stmt]
    if isinstance(stmt, ir.For | ir.SeqStmt):
        return [
            found
            for each in ir.children(stmt)
            if isinstance(each, ir.Stmt)
            for found in _realizes_in(each)
        ]
    return []


def _reduction_vars(realize: ir.BlockRealize) -> set[ir.Var]:
    found: set[ir.Var] = set()

    def collect(node: ir.Node) -> None:
        if isinstance(node, ir.Var):
            found.add(node)

    for iter_var, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if iter_var.iter_type == ir.IterType.COMM_REDUCE:
            ir.post_order_visit(value, collect)
    return found


def _has_doubtful_loop(loop: ir.Stmt, own: set[ir.Var]) -> bool:
    """Some loop of a reduction may have no iteration."""
    if isinstance(loop, ir.For) and loop.loop_var in own:
        extent = loop.extent
        if not isinstance(extent, ir.IntImm) or extent.value < 1:
            return True
    if not isinstance(loop, ir.For | ir.SeqStmt):
        return False
    return any(
        _has_doubtful_loop(each, own) for each in ir.children(loop) if isinstance(each, ir.Stmt)
    )

"""A schedule before its first decision as a tree of loops."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright import ir
from tilewright.algebra.loop_tree import (
    Digit,
    LoopNode,
    LoopTree,
    Node,
    NotInterpreted,
    Predicate,
    StageNode,
    Terms,
    adopt,
)
from tilewright.arith import Analyzer
from tilewright.arith.affine import affine_of
from tilewright.nest.quotients import Quotient


def lift(func: ir.PrimFunc) -> tuple[LoopTree, dict[ir.Node, Node]]:
    """The tree of a function, and which of its nodes stands for which loop or block."""
    root = func.body
    if not isinstance(root, ir.BlockRealize):
        raise NotInterpreted("the function has no root block")
    lifted = _Lifting()
    tree = LoopTree(annotations=dict(root.block.annotations))
    for stmt in ir.statements_of(root.block.body):
        tree.body.append(lifted.visit(stmt, None))
    return tree, lifted.nodes


class _Lifting:
    def __init__(self) -> None:
        self.nodes: dict[ir.Node, Node] = {}
        self._digits: dict[ir.PrimExpr, Digit] = {}
        self._parts_of_loops: dict[tuple[frozenset[tuple[Digit, int]], int, int], Digit] = {}
        self._predicates: list[Predicate] = []  # of the block that is looked at
        self._analyzer = Analyzer()

    def visit(self, stmt: ir.Stmt, parent: LoopNode | None) -> Node:
        if isinstance(stmt, ir.For):
            return self._loop(stmt, parent)
        if isinstance(stmt, ir.BlockRealize):
            return self._stage(stmt, parent)
        raise NotInterpreted(f"there is a {type(stmt).__name__} between loops and blocks")

    def _loop(self, stmt: ir.For, parent: LoopNode | None) -> LoopNode:
        extent = stmt.extent
        if not isinstance(extent, ir.IntImm) or not isinstance(stmt.min, ir.IntImm):
            raise NotInterpreted(f"the extent of loop {stmt.loop_var.name!r} is not a number")
        if stmt.min.value:
            raise NotInterpreted(f"loop {stmt.loop_var.name!r} does not start at zero")
        digit = self._digits[stmt.loop_var] = Digit(extent.value)
        self._analyzer.bind(stmt.loop_var, ir.Range.from_min_extent(stmt.min, extent))
        tag = "" if stmt.thread_binding is None else stmt.thread_binding.thread_tag
        notes = dict(stmt.annotations)
        loop = LoopNode([digit], [], parent, stmt.kind, tag, notes)
        self.nodes[stmt] = loop
        loop.body = [self.visit(each, loop) for each in ir.statements_of(stmt.body)]
        return loop

    def _stage(self, realize: ir.BlockRealize, parent: LoopNode | None) -> StageNode:
        block = realize.block
        predicates = [
            self._predicate(block, part)
            for part in ir.conjuncts(realize.predicate)
            if not isinstance(part, ir.IntImm)
        ]
        self._predicates = predicates
        bindings = [self._binding(block, value) for value in realize.iter_values]
        stage = StageNode(block.name_hint, block, bindings, predicates, parent)
        stage.annotations = dict(block.annotations)
        self.nodes[block] = stage
        if not block.match_buffers:
            adopt(stage, self._parts(block.body), self._parts(block.init))
        return stage

    def _parts(self, body: ir.Stmt | None) -> list[Node]:
        """What is inside of a block that has blocks in it."""
        if body is None or isinstance(body, ir.BufferStore) or not _has_blocks(body):
            return []
        return [self.visit(stmt, None) for stmt in ir.statements_of(body)]

    def _predicate(self, block: ir.Block, condition: ir.PrimExpr) -> Predicate:
        match condition:
            case ir.LT(a=value, b=ir.IntImm(value=limit)):
                # Iterators are simplified: the same sum has to be the same digits.
                return Predicate(self._binding(block, self._analyzer.simplify(value)), limit)
        raise NotInterpreted(f"block {block.name_hint!r} runs only where `{condition}`")

    def _binding(self, block: ir.Block, value: ir.PrimExpr) -> Terms:
        form = affine_of(value)
        found: Terms = {}
        for term, scale in form.terms.items():
            digit = self._digits.get(term) or self._part(term)
            if digit is None or form.base:
                raise NotInterpreted(
                    f"block {block.name_hint!r} binds `{value}`, which is no sum of loops"
                )
            found[digit] = scale
        return found

    def _part(self, term: ir.PrimExpr) -> Digit | None:
        """`loops // below % extent`: what was a loop before it was fused with others."""
        parts = Quotient.of(term)
        form = None if parts is None else affine_of(parts.x)
        if parts is None or form is None or form.base:
            return None
        if any(each not in self._digits for each in form.terms):
            return None
        source = {self._digits[each]: scale for each, scale in form.terms.items()}
        below, extent = parts.below, parts.extent
        total = self._total(source)
        size = min(extent, -(-total // below))
        if below == 1 and list(source.values()) == [1] and size == total:
            return next(iter(source))  # it is the loop itself
        made = Digit(size, source, below, total, is_covered=True)
        key = (frozenset(source.items()), below, size)
        return self._parts_of_loops.setdefault(key, made)

    def _total(self, source: Mapping[Digit, int]) -> int:
        """The number of values of a sum of loops, held back by a predicate on the same sum."""
        total = 1
        for digit, scale in source.items():
            assert isinstance(digit.extent, int)
            total += scale * (digit.extent - 1)
        limits = [each.limit for each in self._predicates if dict(each.terms) == source]
        return min([total, *[limit for limit in limits if isinstance(limit, int)]])


def _has_blocks(body: ir.Stmt) -> bool:
    return any(True for _ in ir.nodes_of(body, ir.BlockRealize))

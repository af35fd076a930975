"""Reductions taken apart: the initialisation as a stage of its own."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.algebra.expr import Value
from tilewright.algebra.loop_tree import (
    Digit,
    LoopNode,
    LoopTree,
    Predicate,
    StageNode,
    Terms,
    adopt,
    is_spatial,
    loops_of,
    nest_of,
    roots_of,
)


def decompose_reduction(tree: LoopTree, stage: StageNode, loop: LoopNode) -> StageNode:
    """Initialise right before a loop; the stage only updates from then on."""
    loops = loops_of(stage)
    inside = loops[loops.index(loop) :]
    spatial = [
        terms if is_spatial(each) else {}
        for each, terms in zip(stage.block.iter_vars, stage.bindings, strict=True)
    ]
    used = {digit for terms in spatial for digit in roots_of(terms)}
    kept = [each for each in inside if not used.isdisjoint(each.digits)]
    dropped = {d for each in inside if each not in kept for d in each.digits}
    fresh = _Copies({digit: Digit(digit.extent) for each in kept for digit in each.digits})
    init = StageNode(
        f"{stage.name}_init", stage.block, [fresh.terms(t) for t in spatial], does="init"
    )
    init.annotations = dict(stage.annotations)
    init.predicates = [
        Predicate(fresh.terms(each.terms), each.limit)
        for each in stage.predicates
        if dropped.isdisjoint(roots_of(each.terms))
    ]
    copies = [
        LoopNode([fresh.of(d) for d in each.digits], [], None, each.kind, each.tag) for each in kept
    ]
    for copy, each in zip(copies, kept, strict=True):
        copy.annotations = dict(each.annotations)
        copy.in_parallel, copy.in_vector = each.in_parallel, each.in_vector
    adopt(init, (), stage.init_parts)
    adopt(stage, stage.parts)
    stage.name, stage.does = f"{stage.name}_update", "update"
    position = tree.siblings(loop).index(loop)
    tree.insert(nest_of(copies, init), loop.parent, position)
    return init


class _Copies:
    """Digits of copied loops, and what was made of the old ones, made of these."""

    def __init__(self, known: dict[Digit, Digit]) -> None:
        self._known = known

    def of(self, digit: Digit) -> Digit:
        if digit not in self._known:
            copied = digit
            if digit.source is not None:
                source = self.terms(digit.source)
                copied = Digit(digit.extent, source, digit.below, digit.total, digit.is_covered)
            self._known[digit] = copied
        return self._known[digit]

    def terms(self, terms: Mapping[Digit, Value]) -> Terms:
        return {self.of(digit): stride for digit, stride in terms.items()}

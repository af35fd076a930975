"""Schedule primitives on trees of loops: one function each, found by the primitive."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright import ir
from tilewright.algebra.blocks import blockize, child_stages, tensorize
from tilewright.algebra.expr import Value, ceil_divide, multiply, product_of
from tilewright.algebra.loop_tree import (
    Digit,
    LoopNode,
    LoopTree,
    Node,
    NotInterpreted,
    Predicate,
    StageNode,
    Terms,
    loops_of,
    roots_of,
)
from tilewright.algebra.moving import compute_at, reverse_compute_at
from tilewright.algebra.reductions import decompose_reduction
from tilewright.errors import ScheduleError
from tilewright.ir.annotation_keys import COOPERATIVE_FETCH, WARP_EXECUTION
from tilewright.schedule.trace.instruction import Primitive

Inputs = Sequence[Any]
Transfer = Callable[[LoopTree, Any, Mapping[str, Any]], list[Any]]
_transfers: dict[str, Transfer] = {}


def transfer_of(kind: type[Primitive[object]]) -> Transfer | None:
    """What a primitive does to a tree, if it is known."""
    return _transfers.get(kind.kind)


def transfer(kind: str) -> Callable[[Transfer], Transfer]:
    """Say what a primitive does, by its name in traces.

    The function takes the tree, the step and its arguments by name, handles exchanged for nodes and
    values. It returns what the step gives.
    """

    def register(function: Transfer) -> Transfer:
        _transfers[kind] = function
        return function

    return register


# --- loops --------------------------------------------------------------------------------------


@transfer("GetLoops")
def _get_loops(tree: LoopTree, step: Any, given: Mapping[str, Any]) -> list[Any]:
    return list(loops_of(given["block"]))


@transfer("Split")
def _split(tree: LoopTree, step: Any, given: Mapping[str, Any]) -> list[Any]:
    return list(split(tree, given["loop"], given["factors"]))


def split(tree: LoopTree, loop: LoopNode, factors: Sequence[Value | None]) -> list[LoopNode]:
    """Loops with these extents in the place of one; one of them may be inferred."""
    total = loop.extent
    known = product_of([factor for factor in factors if factor is not None])
    extents = [ceil_divide(total, known) if factor is None else factor for factor in factors]
    digits = [Digit(extent) for extent in extents]
    strides = [product_of(extents[position + 1 :]) for position in range(len(extents))]
    value = dict(zip(digits, strides, strict=True))
    stages = tree.stages_below(loop)
    covered = product_of(extents)
    if covered != total:
        for stage in stages:
            stage.predicates.append(Predicate(value, total))
    if len(loop.digits) == 1:
        for stage in stages:
            _substitute(stage, loop.digits[0], value)
    else:
        _derive(loop.digits, value, total)
    made = [LoopNode([digit]) for digit in digits]
    _replace_loop(tree, loop, made)
    return made


def _derive(digits: Sequence[Digit], source: Terms, total: Value) -> None:
    """Digits that were loops are quotients and remainders of what runs in their place."""
    for position, digit in enumerate(digits):
        digit.source = source
        digit.below = product_of([each.extent for each in digits[position + 1 :]])
        digit.total = total
        digit.is_covered = True


def _substitute(stage: StageNode, old: Digit, value: Terms) -> None:
    stage.bindings = [substituted(terms, old, value) for terms in stage.bindings]
    stage.predicates = [
        Predicate(substituted(each.terms, old, value), each.limit) for each in stage.predicates
    ]
    for digit in _derived(stage):
        if digit.source is not None and old in digit.source:
            digit.source = substituted(digit.source, old, value)


def _derived(stage: StageNode) -> list[Digit]:
    """All digits of a stage that are made of others."""
    waiting = [digit for terms in stage.bindings for digit in terms]
    found: list[Digit] = []
    while waiting:
        digit = waiting.pop()
        if digit.source is not None and digit not in found:
            found.append(digit)
            waiting += digit.source
    return found


def substituted(terms: Mapping[Digit, Value], old: Digit, value: Terms) -> Terms:
    """A sum with a digit exchanged for a sum of others."""
    if old not in terms:
        return dict(terms)
    scale = terms[old]
    rest = {digit: stride for digit, stride in terms.items() if digit is not old}
    return {**rest, **{digit: multiply(scale, stride) for digit, stride in value.items()}}


def _replace_loop(tree: LoopTree, loop: LoopNode, made: list[LoopNode]) -> None:
    for outer, inner in itertools.pairwise(made):
        outer.body, inner.parent = [inner], outer
    made[-1].body = loop.body
    for child in loop.body:
        child.parent = made[-1]
    tree.replace(loop, [made[0]])


@transfer("Fuse")
def _fuse(tree: LoopTree, step: Any, given: Mapping[str, Any]) -> list[Any]:
    return [fuse(tree, given["loops"])]


def fuse(tree: LoopTree, loops: Sequence[LoopNode]) -> LoopNode:
    """One loop in the place of nested ones."""
    made = LoopNode([digit for loop in loops for digit in loop.digits], is_fused=True)
    made.body = loops[-1].body
    for child in made.body:
        child.parent = made
    tree.replace(loops[0], [made])
    return made


@transfer("Reorder")
def _reorder(tree: LoopTree, step: Any, given: Mapping[str, Any]) -> list[Any]:
    wanted: Sequence[LoopNode] = given["ordered_loops"]
    if len(wanted) < 2:
        return []
    innermost = max(wanted, key=lambda loop: len(loops_of(loop)))
    chain = [*loops_of(innermost), innermost]
    chain = chain[min(chain.index(loop) for loop in wanted) :]
    order = iter(wanted)
    ordered = [next(order) if loop in wanted else loop for loop in chain]
    body = chain[-1].body
    tree.replace(chain[0], [place := LoopNode([])])
    for outer, inner in itertools.pairwise(ordered):
        outer.body, inner.parent = [inner], outer
    ordered[-1].body = body
    for child in body:
        child.parent = ordered[-1]
    tree.replace(place, [ordered[0]])
    return []


def _kind(kind: ir.ForKind) -> Transfer:
    def mark(tree: LoopTree, step: Any, given: Mapping[str, Any]) -> list[Any]:
        given["loop"].kind = kind
        given["loop"].tag = given.get("thread_axis", "")
        return []

    return mark


_transfers["Parallel"] = _kind(ir.ForKind.PARALLEL)
_transfers["Vectorize"] = _kind(ir.ForKind.VECTORIZED)
_transfers["Unroll"] = _kind(ir.ForKind.UNROLLED)


@transfer("Bind")
def _bind(tree: LoopTree, step: Any, given: Mapping[str, Any]) -> list[Any]:
    tree.thread_axes[given["thread_axis"]] = given["loop"]
    return _kind(ir.ForKind.THREAD_BINDING)(tree, step, given)


@transfer("Annotate")
def _annotate(tree: LoopTree, step: Any, given: Mapping[str, Any]) -> list[Any]:
    node, key = given["block_or_loop"], given["ann_key"]
    node.annotations[key] = given["ann_val"]
    if key == WARP_EXECUTION:
        tree.thread_axes["threadIdx.x"] = None
    elif key == COOPERATIVE_FETCH:
        node.fetched_by = dict(tree.thread_axes)
    return []


@transfer("Unannotate")
def _unannotate(tree: LoopTree, step: Any, given: Mapping[str, Any]) -> list[Any]:
    given["block_or_loop"].annotations.pop(given["ann_key"], None)
    return []


# --- blocks -------------------------------------------------------------------------------------


@transfer("ComputeAt")
def _compute_at(tree: LoopTree, step: Any, given: Mapping[str, Any]) -> list[Any]:
    compute_at(tree, given["block"], _place(given["loop"]), given["index"])
    return []


@transfer("ReverseComputeAt")
def _reverse_compute_at(tree: LoopTree, step: Any, given: Mapping[str, Any]) -> list[Any]:
    reverse_compute_at(tree, given["block"], _place(given["loop"]), given["index"])
    return []


def _place(loop: LoopNode | str) -> LoopNode | None:
    """The loop to move to; None where a block stays in front of all loops."""
    return loop if isinstance(loop, LoopNode) else None


@transfer("DecomposeReduction")
def _decompose_reduction(tree: LoopTree, step: Any, given: Mapping[str, Any]) -> list[Any]:
    return [decompose_reduction(tree, given["block"], given["loop"])]


@transfer("Blockize")
def _blockize(tree: LoopTree, step: Any, given: Mapping[str, Any]) -> list[Any]:
    if not isinstance(given["target"], LoopNode):
        raise NotInterpreted("several blocks become one")
    return [blockize(tree, given["target"], preserve_unit_iters=step.preserve_unit_iters)]


@transfer("Tensorize")
def _tensorize(tree: LoopTree, step: Any, given: Mapping[str, Any]) -> list[Any]:
    try:
        tensorize(
            tree, given["block_or_loop"], step.tensor_intrin, preserve=step.preserve_unit_iters
        )
    except ScheduleError as error:
        raise NotInterpreted(f"no candidate is possible: {error}") from error
    return []


@transfer("GetChildBlocks")
def _get_child_blocks(tree: LoopTree, step: Any, given: Mapping[str, Any]) -> list[Any]:
    if not isinstance(given["block_or_loop"], StageNode):
        raise NotInterpreted("the blocks under a loop are asked for")
    return list(child_stages(given["block_or_loop"]))


__all__ = ["Node", "fuse", "roots_of", "split", "transfer", "transfer_of"]

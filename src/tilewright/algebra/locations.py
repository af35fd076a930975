"""Compute locations: the places of a stage, and the one it takes for what was decided."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.algebra.expr import (
    Value,
    both,
    either,
    equal,
    is_more_than_one,
    less_equal,
    negate,
    where,
)
from tilewright.algebra.loop_tree import LoopNode, LoopTree, StageNode, loops_of, types_of
from tilewright.algebra.moving import readers_of
from tilewright.ir import IterType
from tilewright.schedule.primitives.sample_compute_location import INLINE, ROOT


def candidate_loops(tree: LoopTree, stage: StageNode) -> list[LoopNode]:
    """The loops around all consumers of a stage, outermost first."""
    consumers = list(readers_of(tree, stage))
    if not consumers:
        return []
    paths = [loops_of(consumer) for consumer in consumers]
    shared = [loop for loop in paths[0] if all(loop in path for path in paths)]
    return [loop for loop in shared if stage not in tree.stages_below(loop)]


def effective_location(
    tree: LoopTree, stage: StageNode, loops: Sequence[LoopNode], decided: Value, can_inline: bool
) -> Value:
    """The place that is taken when `decided` is asked for."""
    at: Value = ROOT
    if can_inline and _stands_alone(tree, stage):
        at = where(equal(decided, INLINE), INLINE, ROOT)
    for position, fits in enumerate(_admitted(tree, loops)):
        at = where(both(fits, less_equal(position, decided)), position, at)
    return at


def _stands_alone(tree: LoopTree, stage: StageNode) -> bool:
    loops = loops_of(stage)
    return not loops or len(tree.stages_below(loops[0])) == 1


def _admitted(tree: LoopTree, loops: Sequence[LoopNode]) -> list[Value]:
    """1 for spatial loops, and for reduction loops after them while spatial ones follow inside.

    Loops of one iteration are no places of their own.
    """
    stages = tree.stages_below(loops[0]) if loops else []
    spatial = [types_of(loop, stages) <= {IterType.DATA_PAR} for loop in loops]
    found: list[Value] = []
    alive: Value = 1
    seen_other: Value = 0
    for position, loop in enumerate(loops):
        runs = is_more_than_one(loop.extent)
        if spatial[position]:
            alive = both(alive, negate(both(seen_other, runs)))
            found.append(both(alive, runs))
        else:
            followed = any(spatial[position + 1 :])
            found.append(both(alive, runs) if followed else 0)
            seen_other = either(seen_other, runs)
    return found

"""Views of a buffer, made by `match_buffer`, when the layout of the buffer changes.

A view follows if its elements still lie in a box, in the same order: a point does in any layout, a
tile does when the layout is made of such tiles.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.arith import Analyzer, IndexMap
from tilewright.ir import (
    Block,
    Buffer,
    MatchBufferRegion,
    PrimExpr,
    Range,
    Var,
    add,
    const,
    is_one,
    is_zero,
    subtract,
    uses_var,
)


def moved_view(
    match: MatchBufferRegion, index_map: IndexMap, analyzer: Analyzer
) -> tuple[Range, ...] | None:
    """Where the elements of a view lie in the new layout; None if they are no such box there."""
    view, old = match.buffer, match.source.region
    if not all(isinstance(stride, Var) for stride in view.strides):
        return None
    steps = {Var(f"v{axis}", r.min.dtype): r.extent for axis, r in enumerate(old)}
    for step, extent in steps.items():
        analyzer.bind(step, Range(const(0, step.dtype), extent))
    first = index_map.map_indices([axis.min for axis in old], analyzer)
    inside = index_map.map_indices(
        [
            axis.min if is_one(axis.extent) else add(axis.min, step)
            for axis, step in zip(old, steps, strict=True)
        ],
        analyzer,
    )
    moved = [analyzer.simplify(subtract(b, a)) for a, b in zip(first, inside, strict=True)]
    if not _keep_their_order(moved, steps):
        return None
    one = const(1, first[0].dtype) if first else const(1)
    found = tuple(
        Range(start, steps[move] if isinstance(move, Var) else one)
        for start, move in zip(first, moved, strict=True)
    )
    return found if _fits(found, view) else None


def _keep_their_order(moved: Sequence[PrimExpr], steps: dict[Var, PrimExpr]) -> bool:
    """Each step along the view is one step along one new axis, in the order of the view."""
    wanted = [step for step, extent in steps.items() if not is_one(extent)]
    used = [move for move in moved if not is_zero(move)]
    return len(used) == len(wanted) and all(a is b for a, b in zip(used, wanted, strict=True))


def _fits(region: Sequence[Range], view: Buffer) -> bool:
    leading = len(region) - view.ndim
    return (
        leading >= 0
        and all(is_one(axis.extent) for axis in region[:leading])
        and all(
            Analyzer().can_prove_equal(axis.extent, extent)
            for axis, extent in zip(region[leading:], view.shape, strict=True)
        )
    )


def has_fixed_rows(block: Block, view: Buffer) -> bool:
    """True when code that knows the view by its pointer counts on rows that follow each other."""
    several_rows = not all(map(is_one, view.shape[:-1]))
    return several_rows and not view.strides and uses_var(block.body, view.data.same_as)

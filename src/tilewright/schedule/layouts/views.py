"""Views of a buffer, made by `match_buffer`, when the layout of the buffer changes.

A view follows if its elements still lie in a box, in the same order: a point does in any layout, a
tile does when the layout is made of such tiles.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import arith, ir


def moved_view(
    match: ir.MatchBufferRegion, index_map: arith.IndexMap, analyzer: arith.Analyzer
) -> tuple[ir.Range, ...] | None:
    """Where the elements of a view lie in the new layout; None if they are no such box there."""
    view, old = match.buffer, match.source.region
    if not all(isinstance(stride, ir.Var) for stride in view.strides):
        return None
    steps = {ir.Var(f"v{axis}", r.min.dtype): r.extent for axis, r in enumerate(old)}
    for step, extent in steps.items():
        analyzer.bind(step, ir.Range(ir.const(0, step.dtype), extent))
    first = index_map.map_indices([axis.min for axis in old], analyzer)
    inside = index_map.map_indices(
        [
            axis.min if ir.is_one(axis.extent) else ir.add(axis.min, step)
            for axis, step in zip(old, steps, strict=True)
        ],
        analyzer,
    )
    moved = [analyzer.simplify(ir.subtract(b, a)) for a, b in zip(first, inside, strict=True)]
    if not _keep_their_order(moved, steps):
        return None
    one = ir.const(1, first[0].dtype) if first else ir.const(1)
    found = tuple(
        ir.Range(start, steps[move] if isinstance(move, ir.Var) else one)
        for start, move in zip(first, moved, strict=True)
    )
    return found if _fits(found, view) else None


def _keep_their_order(moved: Sequence[ir.PrimExpr], steps: dict[ir.Var, ir.PrimExpr]) -> bool:
    """Each step along the view is one step along one new axis, in the order of the view."""
    wanted = [step for step, extent in steps.items() if not ir.is_one(extent)]
    used = [move for move in moved if not ir.is_zero(move)]
    return len(used) == len(wanted) and all(a is b for a, b in zip(used, wanted, strict=True))


def _fits(region: Sequence[ir.Range], view: ir.Buffer) -> bool:
    leading = len(region) - view.ndim
    return (
        leading >= 0
        and all(ir.is_one(axis.extent) for axis in region[:leading])
        and all(
            arith.Analyzer().can_prove_equal(axis.extent, extent)
            for axis, extent in zip(region[leading:], view.shape, strict=True)
        )
    )


def has_fixed_rows(block: ir.Block, view: ir.Buffer) -> bool:
    """True when code that knows the view by its pointer counts on rows that follow each other."""
    several_rows = not all(map(ir.is_one, view.shape[:-1]))
    return several_rows and not view.strides and ir.uses_var(block.body, view.data.same_as)

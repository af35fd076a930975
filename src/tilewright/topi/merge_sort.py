"""Statements that sort keys in a workspace: stable, bottom-up, in O(n log n) steps.

Short runs are put in order by counting, for each key, how many come before it. Then runs are merged
in pairs, back and forth between the two halves of the workspace. Neither branches on the data: a
branch that is guessed wrong costs more than all other work on a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.ir.builder import BufferVar, IRBuilder
from tilewright.ir.intrinsics import shift_left

_RUN = 16  # keys that are put in order by counting
_MOST_LEVELS = 27  # of merges: as many as 2**31 keys need


@dataclass(frozen=True)
class Workspace:
    """Columns of memory that are sorted together by the first one; each has two halves."""

    ib: IRBuilder
    columns: Sequence[BufferVar]

    def less(self, half: ir.ExprLike, i: ir.ExprLike, j: ir.ExprLike) -> ir.PrimExpr:
        keys = self.columns[0]
        return keys[half, i] < keys[half, j]

    def move(
        self, source: tuple[ir.ExprLike, ir.ExprLike], target: tuple[ir.ExprLike, ir.ExprLike]
    ) -> None:
        """Copy an entry from one (half, position) to another."""
        for column in self.columns:
            column[target] = column[source]

    def put(self, entry: Sequence[ir.PrimExpr], place: ir.ExprLike) -> None:
        """Write an entry to a position of half 0."""
        for column, part in zip(self.columns, entry, strict=True):
            column[0, place] = part


def emit_sort(work: Workspace, count: ir.ExprLike) -> ir.PrimExpr:
    """Sort the first `count` entries of half 0; gives the half in which they end up."""
    total = ir.convert(count)
    whole = total // _RUN  # runs of half 0 are sorted into half 1
    with work.ib.for_range(0, whole, "run") as run:
        _emit_run(work, run * _RUN, ir.const(_RUN))
    _emit_run(work, whole * _RUN, total - whole * _RUN)
    levels = _merge_levels(total)
    with work.ib.for_range(0, levels, "level") as level:
        width = work.ib.let("width", shift_left(ir.const(_RUN), level))
        _emit_merges(work, (level + 1) % 2, width, total)
    return (levels + 1) % 2


def _merge_levels(count: ir.PrimExpr) -> ir.PrimExpr:
    """How often runs must be merged in pairs until one is left."""
    if isinstance(count, ir.IntImm):
        return ir.const(max(0, (-(-count.value // _RUN) - 1).bit_length()))
    levels: ir.PrimExpr = ir.const(0)
    for level in range(_MOST_LEVELS):
        levels = levels + (count > (_RUN << level)).astype("int32")
    return levels


def _emit_run(work: Workspace, first: ir.PrimExpr, length: ir.PrimExpr) -> None:
    ib = work.ib
    rank = ib.allocate("int32", (1,), "rank", scope="local")
    with ib.for_range(0, length, "i") as i:
        rank[0] = 0
        # Equal keys keep their order: earlier ones count, later ones do not.
        with ib.for_range(0, i, "j") as j:
            ahead = ir.logical_not(work.less(0, first + i, first + j))
            rank[0] = rank[0] + ahead.astype("int32")
        with ib.for_range(i + 1, length, "j") as j:
            rank[0] = rank[0] + work.less(0, first + j, first + i).astype("int32")
        work.move((0, first + i), (1, first + rank[0]))


def _emit_merges(work: Workspace, source: ir.PrimExpr, width: ir.Var, count: ir.PrimExpr) -> None:
    """Merge neighbouring runs of `width` entries from one half into the other."""
    ib = work.ib
    with ib.for_range(0, (count + width * 2 - 1) // (width * 2), "pair") as pair:
        first = ib.let("first", pair * width * 2)
        middle = ib.let("middle", ir.minimum(first + width, count))
        end = ib.let("end", ir.minimum(middle + width, count))
        right = ib.allocate("int32", (1,), "right", scope="local")
        right[0] = middle
        with ib.for_range(first, end, "place") as place:
            from_right = ib.let("from_right", right[0])
            from_left = ib.let("from_left", place + middle - from_right)
            # What is read past the end of a run is not chosen, but it must be memory.
            left_at, right_at = ir.minimum(from_left, middle - 1), ir.minimum(from_right, end - 1)
            smaller = ir.logical_or(from_left >= middle, work.less(source, right_at, left_at))
            takes = ib.let("takes_right", ir.logical_and(from_right < end, smaller))
            work.move((source, ir.Select(takes, right_at, left_at)), (1 - source, place))
            right[0] = from_right + takes.astype("int32")

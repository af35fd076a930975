"""Statements that sort keys in a workspace: stable, bottom-up, in O(n log n) steps.

Short runs are put in order by counting, for each key, how many come before it. Then runs are merged
in pairs, back and forth between the two halves of the workspace. Neither branches on the data: a
branch that is guessed wrong costs more than all other work on a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.ir import intrinsics as math
from tilewright.ir.builder import BufferVar, IRBuilder

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
        width = work.ib.let("width", math.shift_left(ir.const(_RUN), level))
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


# --- keys: integers that compare as the elements they stand for, in the order that is wanted ------


_POSITION_BITS = 32


class Keys:
    """Entries of a workspace for sorting: a key and the position that it belongs to.

    Elements of up to 32 bits share one 64-bit integer with their position, so that no two entries
    are equal; wider ones keep positions in a column of their own.
    """

    def __init__(self, dtype: ir.DType, ascending: bool) -> None:
        self._dtype = dtype
        self._ascending = ascending
        self._packed = dtype.bits <= _POSITION_BITS

    def columns(self, ib: IRBuilder, capacity: ir.ExprLike) -> list[BufferVar]:
        """Memory for two halves of entries."""
        keys = ib.allocate("int64", (2, capacity), "keys")
        return [keys] if self._packed else [keys, ib.allocate("int32", (2, capacity), "positions")]

    def entry(self, element: ir.PrimExpr, position: ir.PrimExpr) -> list[ir.PrimExpr]:
        """What to store for an element, column by column."""
        key = self._key(element)
        if not self._packed:
            return [key, position]
        high = math.shift_left(key, ir.const(_POSITION_BITS, ir.INT64))
        return [math.bitwise_or(high, position.astype(ir.INT64))]

    def position(
        self, columns: Sequence[BufferVar], half: ir.ExprLike, place: ir.ExprLike
    ) -> ir.PrimExpr:
        """The position of the entry at a place."""
        if not self._packed:
            return columns[1][half, place]
        low = ir.const((1 << _POSITION_BITS) - 1, ir.INT64)
        return math.bitwise_and(columns[0][half, place], low).astype("int32")

    def _key(self, element: ir.PrimExpr) -> ir.PrimExpr:
        if self._dtype.is_float:
            key = _float_key(element if self._dtype.bits == 64 else element.astype("float32"))
        elif self._dtype.is_uint:
            key = _unsigned_key(element)
        else:
            key = element.astype(ir.INT64)
        return key if self._ascending else math.bitwise_not(key)


def _float_key(element: ir.PrimExpr) -> ir.PrimExpr:
    """The bits as an integer; those of negative numbers grow with the magnitude, so they turn."""
    kind = ir.DType(f"int{element.dtype.bits}")
    bits = math.reinterpret(kind, element)
    top = ir.const(ir.max_value_of(kind), kind)
    ordered = ir.Select(bits < 0, math.bitwise_xor(bits, top), bits)
    number = ir.Select(element.equal(0), ir.const(0, kind), ordered)
    return ir.Select(math.isnan(element), top, number).astype(ir.INT64)


def _unsigned_key(element: ir.PrimExpr) -> ir.PrimExpr:
    """Shifted by half of the range, so that the smallest value is the smallest signed integer."""
    if element.dtype.bits < 32:
        return element.astype(ir.INT64)
    signed = ir.DType(f"int{element.dtype.bits}")
    moved = math.bitwise_xor(
        math.reinterpret(signed, element), ir.const(ir.min_value_of(signed), signed)
    )
    return moved.astype(ir.INT64)

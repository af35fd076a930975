"""Integers that compare as the elements they stand for, in the order that is wanted."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import INT64, DType, ExprLike, PrimExpr, Select, const, intrinsics as math
from tilewright.ir.builder import BufferVar, IRBuilder
from tilewright.ir.dtype import max_value_of, min_value_of

_POSITION_BITS = 32


class Keys:
    """Entries of a workspace for sorting: a key and the position that it belongs to.

    Elements of up to 32 bits share one 64-bit integer with their position, so that no two entries
    are equal; wider ones keep positions in a column of their own.
    """

    def __init__(self, dtype: DType, ascending: bool) -> None:
        self._dtype = dtype
        self._ascending = ascending
        self._packed = dtype.bits <= _POSITION_BITS

    def columns(self, ib: IRBuilder, capacity: ExprLike) -> list[BufferVar]:
        """Memory for two halves of entries."""
        keys = ib.allocate("int64", (2, capacity), "keys")
        return [keys] if self._packed else [keys, ib.allocate("int32", (2, capacity), "positions")]

    def entry(self, element: PrimExpr, position: PrimExpr) -> list[PrimExpr]:
        """What to store for an element, column by column."""
        key = self._key(element)
        if not self._packed:
            return [key, position]
        high = math.shift_left(key, const(_POSITION_BITS, INT64))
        return [math.bitwise_or(high, position.astype(INT64))]

    def position(self, columns: Sequence[BufferVar], half: ExprLike, place: ExprLike) -> PrimExpr:
        """The position of the entry at a place."""
        if not self._packed:
            return columns[1][half, place]
        low = const((1 << _POSITION_BITS) - 1, INT64)
        return math.bitwise_and(columns[0][half, place], low).astype("int32")

    def _key(self, element: PrimExpr) -> PrimExpr:
        if self._dtype.is_float:
            key = _float_key(element if self._dtype.bits == 64 else element.astype("float32"))
        elif self._dtype.is_uint:
            key = _unsigned_key(element)
        else:
            key = element.astype(INT64)
        return key if self._ascending else math.bitwise_not(key)


def _float_key(element: PrimExpr) -> PrimExpr:
    """The bits as an integer; those of negative numbers grow with the magnitude, so they turn."""
    kind = DType(f"int{element.dtype.bits}")
    bits = math.reinterpret(kind, element)
    top = const(max_value_of(kind), kind)
    ordered = Select(bits < 0, math.bitwise_xor(bits, top), bits)
    number = Select(element.equal(0), const(0, kind), ordered)
    return Select(math.isnan(element), top, number).astype(INT64)


def _unsigned_key(element: PrimExpr) -> PrimExpr:
    """Shifted by half of the range, so that the smallest value is the smallest signed integer."""
    if element.dtype.bits < 32:
        return element.astype(INT64)
    signed = DType(f"int{element.dtype.bits}")
    moved = math.bitwise_xor(math.reinterpret(signed, element), const(min_value_of(signed), signed))
    return moved.astype(INT64)

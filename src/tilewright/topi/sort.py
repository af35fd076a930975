"""Operators that put elements in order: sort, argsort, topk.

Elements are compared through integer keys in which NaN is the largest value and -0.0 equals 0.0.
The order is stable both ways: equal elements stay in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tilewright import ir, te
from tilewright.errors import TensorExpressionError
from tilewright.ir.builder import IRBuilder
from tilewright.te import Tensor
from tilewright.topi import axes as ax
from tilewright.topi.merge_sort import Keys, Workspace, emit_sort
from tilewright.topi.statements import loop_kind, row_indices

Row: TypeAlias = Sequence[ir.PrimExpr]

_SPARE_CANDIDATES = 64  # room beside the best k, so that they are not sorted for every newcomer
_EXACT_INTEGERS = {"float16": 2**11, "bfloat16": 2**8, "float32": 2**24, "float64": 2**53}


def sort(data: Tensor, axis: int = -1, is_ascend: bool | int = True) -> Tensor:
    """The elements along `axis` in ascending (or descending) order.

    NaN counts as the largest value: it is last in ascending order, first in descending order.
    """
    order = _Order("sort", data, axis, bool(is_ascend))
    return order.tensors(order.extent, [None])[0]


def argsort(
    data: Tensor,
    valid_count: Tensor | None = None,
    axis: int = -1,
    is_ascend: bool | int = True,
    dtype: str = "int64",
) -> Tensor:
    """The positions that put the elements along `axis` in order: `sort(x)[i] = x[argsort(x)[i]]`.

    `valid_count` has the shape of `data` without `axis` and says how many leading elements take
    part; the others stay where they are. NaN is as in `sort`.
    """
    order = _Order("argsort", data, axis, bool(is_ascend), valid_count)
    return order.tensors(order.extent, [order.position_dtype(dtype)])[0]


def topk(
    data: Tensor,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool | int = False,
    dtype: str = "int64",
) -> Any:
    """The `k` largest (or smallest, if ascending) elements along `axis`, in order.

    `ret_type` is "both" for the elements and their positions, "values" or "indices"; `k` below 1
    means all elements. NaN counts as the largest value, and of equal elements the first ones win.
    """
    order = _Order("topk", data, axis, bool(is_ascend))
    positions = order.position_dtype(dtype)
    returned: dict[str, list[ir.DType | None]] = {
        "both": [None, positions],
        "values": [None],
        "indices": [positions],
    }
    ax.check_one_of(ret_type, returned, "ret_type", "topk")
    results = order.tensors(order.first(k), returned[ret_type])
    return list(results) if ret_type == "both" else results[0]


class _Order:
    """The elements along one axis of a tensor, put in order row by row."""

    def __init__(
        self, what: str, data: Tensor, axis: int, ascending: bool, valid_count: Tensor | None = None
    ) -> None:
        self._what = what
        self._data = data
        self.axis = ax.normalize_axis(axis, data.ndim, what)
        self.others = [extent for d, extent in enumerate(data.shape) if d != self.axis]
        self.keys = Keys(data.dtype, ascending)
        self._valid_count = valid_count
        self.extent = data.shape[self.axis]
        if valid_count is not None:
            self._check_valid_count(valid_count)

    def _check_valid_count(self, counts: Tensor) -> None:
        fits = counts.ndim == len(self.others) and all(
            map(ax.same_extent, counts.shape, self.others)
        )
        if not fits or not counts.dtype.is_integral:
            raise TensorExpressionError(
                f"{self._what}: valid_count must be integers of shape "
                f"{ax.shape_text(self.others)}, one for each row of {self._data.name}; "
                f"got {counts.dtype!s} of shape {ax.shape_text(counts.shape)}"
            )

    def position_dtype(self, dtype: str) -> ir.DType:
        """The type of positions, which must hold all of them exactly."""
        kind = ir.DType(dtype)
        if not (kind.is_integral or kind.is_float):
            raise TensorExpressionError(f"{self._what}: dtype {dtype!r} cannot hold positions")
        most = _EXACT_INTEGERS.get(kind) or ir.max_value_of(kind)
        if isinstance(self.extent, ir.IntImm) and self.extent.value - 1 > most:
            raise TensorExpressionError(
                f"{self._what}: dtype {dtype!r} cannot hold the positions of "
                f"{self.extent.value} elements; pass dtype='int64'"
            )
        return kind

    def first(self, k: int) -> ir.PrimExpr:
        """How many elements `k` stands for."""
        if k < 1:
            return self.extent
        extent = ax.constant_extent(self.extent, self._what)
        if k > extent:
            raise TensorExpressionError(
                f"{self._what}: k={k} is more than the {extent} elements "
                f"of {self._data.name} along axis {self.axis}"
            )
        return ir.const(k)

    def tensors(self, count: ir.PrimExpr, kinds: Sequence[ir.DType | None]) -> tuple[Tensor, ...]:
        """The first `count` elements in order: themselves (None) or positions of a type."""
        shape = [*self._data.shape]
        shape[self.axis] = count
        inputs = [self._data] if self._valid_count is None else [self._data, self._valid_count]

        def body(ins: list[ir.Buffer], outs: list[ir.Buffer]) -> ir.Stmt:
            return _OrderBody(self, ins, outs, kinds).emit(count.astype("int32"))

        outputs: tuple[Tensor, ...] = te.extern(
            [shape] * len(kinds),
            inputs,
            body,
            f"T_{self._what}",
            [str(kind or self._data.dtype) for kind in kinds],
        )
        return outputs


class _OrderBody:
    """The statements that put rows in order."""

    def __init__(
        self,
        order: _Order,
        ins: Sequence[ir.Buffer],
        outs: Sequence[ir.Buffer],
        kinds: Sequence[ir.DType | None],
    ) -> None:
        self._ib = IRBuilder()
        self._order = order
        self._data, *counts = [self._ib.buffer_ptr(buffer) for buffer in ins]
        self._counts = counts[0] if counts else None
        self._outs = [self._ib.buffer_ptr(buffer) for buffer in outs]
        self._kinds = kinds
        self._extent = order.extent.astype("int32")

    def emit(self, first: ir.PrimExpr) -> ir.Stmt:
        """The first elements of every row, in order."""
        others = self._order.others
        rows = ax.extent_product(others)
        kind = loop_kind(rows, self._data.buffer.shape)
        with self._ib.for_range(0, rows, "row", kind=kind) as row:
            self._emit_row(row_indices(row, others), first)
        return self._ib.get()

    def _emit_row(self, row: Row, first: ir.PrimExpr) -> None:
        room = self._extent
        if isinstance(first, ir.IntImm) and isinstance(room, ir.IntImm):
            wanted = first.value + max(first.value, _SPARE_CANDIDATES)
            room = ir.const(min(room.value, wanted))
        work = Workspace(self._ib, self._order.keys.columns(self._ib, ir.maximum(room, 1)))
        if ax.same_extent(room, self._extent):
            self._sort_all(work, row, first)
        else:
            self._keep_best(work, row, room, first)

    def _sort_all(self, work: Workspace, row: Row, first: ir.PrimExpr) -> None:
        count = self._count(row)
        with self._ib.for_range(0, count, "t") as t:
            work.put(self._entry(row, t), t)
        half = emit_sort(work, count)
        taking_part = count if self._counts is not None else first
        with self._ib.for_range(0, taking_part, "place") as place:
            self._put(row, place, self._order.keys.position(work.columns, half, place))
        if self._counts is not None:
            with self._ib.for_range(count, self._extent, "place") as place:
                self._put(row, place, place)

    def _count(self, row: Row) -> ir.PrimExpr:
        if self._counts is None:
            return self._extent
        given = self._counts[tuple(row)].astype(ir.INT64)
        inside = ir.minimum(ir.maximum(given, ir.const(0, ir.INT64)), self._extent.astype(ir.INT64))
        return self._ib.let("count", inside.astype("int32"))

    def _keep_best(self, work: Workspace, row: Row, room: ir.PrimExpr, first: ir.PrimExpr) -> None:
        """Collect what beats the last of the best so far; sort when the room is full."""
        ib, keys = self._ib, work.columns[0]
        used = ib.allocate("int32", (1,), "used", scope="local")
        worst = ib.allocate("int64", (1,), "worst", scope="local")
        used[0] = 0
        worst[0] = ir.const(ir.max_value_of(ir.INT64), ir.INT64)
        with ib.for_range(0, self._extent, "t") as t:
            entry = self._entry(row, t)
            with ib.if_scope(ir.logical_or(entry[0] < worst[0], used[0] < first)):
                work.put(entry, used[0])
                used[0] = used[0] + 1
            with ib.if_scope(ir.logical_or(used[0].equal(room), t.equal(self._extent - 1))):
                half = ib.let("half", emit_sort(work, ib.let("count", used[0])))
                with ib.for_range(0, first, "place") as place:
                    work.move((half, place), (0, place))
                worst[0] = keys[0, first - 1]
                used[0] = first
        with ib.for_range(0, first, "place") as place:
            self._put(row, place, self._order.keys.position(work.columns, 0, place))

    def _entry(self, row: Row, t: ir.Var) -> list[ir.PrimExpr]:
        element = self._ib.let("element", self._data[self._at(row, t)])
        return [self._ib.let("entry", part) for part in self._order.keys.entry(element, t)]

    def _put(self, row: Row, place: ir.Var, position: ir.PrimExpr) -> None:
        """Write the element at `position` of the row, or the position, as the one at `place`."""
        position = self._ib.let("position", position)
        for out, kind in zip(self._outs, self._kinds, strict=True):
            value = self._data[self._at(row, position)] if kind is None else position.astype(kind)
            out[self._at(row, place)] = value

    def _at(self, row: Row, position: ir.PrimExpr) -> tuple[ir.PrimExpr, ...]:
        axis = self._order.axis
        return (*row[:axis], position, *row[axis:])

"""Running totals along an axis: cumsum, cumprod."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright import te
from tilewright.errors import TensorExpressionError
from tilewright.ir import Buffer, ExprLike, IntImm, PrimExpr, Stmt, const
from tilewright.ir.annotation_keys import RUNNING_TOTALS
from tilewright.ir.builder import BufferVar, IRBuilder
from tilewright.te import Tensor
from tilewright.topi.accumulate import sum_types
from tilewright.topi.axes import extent_product, normalize_axis
from tilewright.topi.statements import loop_kind, nested_loops, row_indices
from tilewright.topi.transform import flatten_index

Combine: TypeAlias = Callable[[PrimExpr, PrimExpr], PrimExpr]

# How many totals advance together: neighbours in memory fill vectors; where totals run along
# memory, a few rows side by side hide the latency of an addition.
_NEIGHBOURS = (64, 8)
_ROWS = (4,)


@dataclass(frozen=True)
class _Running:
    """An operation that is applied along the way, and what it starts from."""

    name: str
    combine: Combine
    start: int


_SUM = _Running("cumsum", operator.add, 0)
_PRODUCT = _Running("cumprod", operator.mul, 1)


def cumsum(
    data: Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None
) -> Tensor:
    """`out[i] = data[0] + ... + data[i]` along `axis` (of the flattened tensor if None).

    With `exclusive`, `data[i]` itself is left out, and `out[0]` is 0. Totals of 16-bit floats are
    kept in float32 and rounded when stored. Totals of bool and of 8- and 16-bit integers are
    32-bit integers, unless `dtype` says otherwise.
    """
    return _scan(data, axis, dtype, bool(exclusive), _SUM)


def cumprod(
    data: Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None
) -> Tensor:
    """`out[i] = data[0] * ... * data[i]` along `axis` (of the flattened tensor if None).

    With `exclusive`, `data[i]` itself is left out, and `out[0]` is 1. Types are as in `cumsum`.
    """
    return _scan(data, axis, dtype, bool(exclusive), _PRODUCT)


def _scan(
    data: Tensor, axis: int | None, dtype: str | None, exclusive: bool, running: _Running
) -> Tensor:
    result = sum_types(dtype, data).result
    if not (result.is_float or result.is_integral):
        raise TensorExpressionError(
            f"{running.name}: dtype {dtype!r} cannot hold totals of {data.name}"
        )
    scanned, shape = list(range(data.ndim)), data.shape
    if axis is None:
        shape = (extent_product(data.shape),)
    else:
        scanned = [normalize_axis(axis, data.ndim, running.name)]
    body = _ScanBody(data.shape, scanned, running, exclusive)
    note = [running.start, -1 if axis is None else scanned[0], int(exclusive)]
    tensor: Tensor = te.extern(
        shape,
        [data],
        body.emit,
        f"T_{running.name}",
        str(result),
        tag="scan",
        attrs={RUNNING_TOTALS: note},
    )
    return tensor


class _ScanBody:
    """The statements of a scan over some axes of a shape, taken in row-major order."""

    def __init__(
        self, shape: Sequence[PrimExpr], scanned: list[int], running: _Running, exclusive: bool
    ) -> None:
        self._shape = shape
        self._scanned = scanned
        self._kept = [d for d in range(len(shape)) if d not in scanned]
        self._running = running
        self._exclusive = exclusive
        self._vectors = bool(self._kept) and self._kept[-1] == len(shape) - 1

    def emit(self, ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        """Groups of totals that advance together; groups are independent of each other."""
        ib = IRBuilder()
        data, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        lane_extent = self._shape[self._kept[-1]] if self._kept else const(1)
        for first, groups, lanes in self._groups(lane_extent):
            count = extent_product([self._shape[d] for d in self._kept[:-1]]) * groups
            with ib.for_range(0, count, "group", kind=loop_kind(count, self._shape)) as group:
                lane = group % groups * lanes + first
                self._emit_group(ib, data, out, (group // groups, lane, lanes))
        return ib.get()

    def _groups(self, extent: PrimExpr) -> list[tuple[int, int | PrimExpr, int]]:
        """The last kept axis in groups of lanes: (first lane, number of groups, lanes of each)."""
        if not isinstance(extent, IntImm):
            return [(0, extent, 1)]
        found, first = [], 0
        for lanes in _NEIGHBOURS if self._vectors else _ROWS:
            groups = (extent.value - first) // lanes
            found.append((first, groups, lanes))
            first += groups * lanes
        found.append((first, 1, extent.value - first))
        return [(start, groups, lanes) for start, groups, lanes in found if groups and lanes]

    def _emit_group(
        self, ib: IRBuilder, data: BufferVar, out: BufferVar, place: tuple[PrimExpr, PrimExpr, int]
    ) -> None:
        row, first, lanes = place
        kind = out.dtype.accumulator
        totals = ib.allocate(kind, (lanes,), "totals", scope="local")
        with ib.for_range(0, lanes, "lane") as lane:
            totals[lane] = const(self._running.start, kind)
        with nested_loops(ib, [self._shape[d] for d in self._scanned], "t") as step:
            whole = self._vectors and lanes in _NEIGHBOURS
            with ib.for_range(0, lanes, "lane", kind="vectorize" if whole else "unroll") as lane:
                where = self._position(row, first + lane, step)
                flat = len(out.buffer.shape) != len(where)
                target = (flatten_index(step, self._shape),) if flat else where
                following = self._running.combine(totals[lane], data[where].astype(kind))
                if self._exclusive:
                    out[target] = totals[lane].astype(out.dtype)
                    totals[lane] = following
                else:
                    totals[lane] = following
                    out[target] = totals[lane].astype(out.dtype)

    def _position(
        self, row: PrimExpr, lane: PrimExpr, step: Sequence[ExprLike]
    ) -> tuple[ExprLike, ...]:
        """The indices of one element, from the row, the lane in it and the step of the scan."""
        rows = row_indices(row, [self._shape[d] for d in self._kept[:-1]])
        by_axis: dict[int, ExprLike] = dict(zip(self._kept, [*rows, lane], strict=False))
        by_axis.update(zip(self._scanned, step, strict=True))
        return tuple(by_axis[d] for d in range(len(self._shape)))

"""How many of the innermost loops around a block walk its buffers as one loop would.

Loops can be fused into one vector only if the elements they touch lie one after the other in every
buffer of the block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.arith import Analyzer
from tilewright.ir import (
    Add,
    BlockRealize,
    Buffer,
    BufferRegion,
    IntImm,
    Mul,
    PrimExpr,
    Range,
    Sub,
    Var,
    substitute,
)
from tilewright.space.loop_nest import NestLoop

Coefficients = dict[Var, int]


class _NotASum(Exception):
    """An index that is no sum of variables with constant factors."""


def contiguous_loops(realize: BlockRealize, nest: Sequence[NestLoop]) -> int:
    """The number of innermost loops along which every access of a block is contiguous."""
    block = realize.block
    accesses = _Accesses(realize, nest)
    count = len(nest)
    for region in (*block.reads, *block.writes):
        count = min(count, accesses.contiguous(region, count))
    return count


class _Accesses:
    """Strides of loops in the regions of one block."""

    def __init__(self, realize: BlockRealize, nest: Sequence[NestLoop]) -> None:
        self.nest = nest
        self.values: dict[Var, PrimExpr] = {
            iter_var.var: value
            for iter_var, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        }
        self.sums: dict[Var, Coefficients | None] = {}

    def contiguous(self, region: BufferRegion, limit: int) -> int:
        """How many of the innermost loops (at most `limit`) are contiguous in a region."""
        rows = [self._coefficients(axis) for axis in region.region]
        count, expected = 0, 0
        for loop in reversed(self.nest):
            if count == limit:
                break
            stride = _stride(loop.stmt.loop_var, rows, region.buffer)
            if stride:
                if stride != expected if expected else stride != 1 and count:
                    break
                if loop.extent is None:
                    break
                expected = stride * loop.extent
            count += 1
        return count

    def _coefficients(self, axis: Range) -> Coefficients:
        try:
            return self._linear(axis.min)
        except _NotASum:
            # Nothing is said about the extents of loops: unit loops must not vanish here.
            return _by_shape(Analyzer().simplify(substitute(axis.min, self.values)))

    def _linear(self, expr: PrimExpr) -> Coefficients:
        kind = type(expr)
        if kind is Var:
            return self._of_var(expr)  # type: ignore[arg-type]
        if kind is IntImm:
            return {}
        match expr:
            case Add(a=a, b=b):
                return _plus(self._linear(a), self._linear(b), 1)
            case Sub(a=a, b=b):
                return _plus(self._linear(a), self._linear(b), -1)
            case Mul(a=a, b=IntImm(value=factor)) | Mul(a=IntImm(value=factor), b=a):
                return {var: value * factor for var, value in self._linear(a).items()}
        raise _NotASum

    def _of_var(self, var: Var) -> Coefficients:
        if var not in self.values:
            return {var: 1}
        if var not in self.sums:
            try:
                self.sums[var] = self._linear(self.values[var])
            except _NotASum:
                self.sums[var] = None
        known = self.sums[var]
        if known is None:
            raise _NotASum
        return known


def _plus(left: Coefficients, right: Coefficients, sign: int) -> Coefficients:
    if not right:
        return left
    total = dict(left)
    for var, value in right.items():
        total[var] = total.get(var, 0) + sign * value
    return total


def _by_shape(expr: PrimExpr) -> Coefficients:
    """Coefficients of the variables that stand in the sums and products of an index.

    What stands inside divisions counts as not used, as in TVM.
    """
    match expr:
        case Var():
            return {expr: 1}
        case Mul(a=a, b=IntImm(value=factor)):
            return {var: value * factor for var, value in _by_shape(a).items()}
        case Add(a=a, b=b):
            left, right = _by_shape(a), _by_shape(b)
            both = {var: min(left[var], right[var]) for var in left if var in right}
            return {**left, **right, **both}
    return {}


def _stride(var: Var, rows: Sequence[Mapping[Var, int]], buffer: Buffer) -> int:
    """How far apart in memory two iterations of a loop are; 0 if the loop does not matter."""
    buffer_stride = 1
    for coefficients, extent in zip(reversed(rows), reversed(buffer.shape), strict=True):
        coefficient = coefficients.get(var, 0)
        if coefficient:
            return coefficient * buffer_stride
        buffer_stride *= extent.value if isinstance(extent, IntImm) else 0
    return 0

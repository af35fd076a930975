"""Counts the innermost loops around a block that walk its buffers as one loop would.

Loops can be fused into one vector only if the elements they touch lie one after the other in every
buffer of the block.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import ir
from tilewright.arith import Analyzer
from tilewright.arith.affine import affine_of
from tilewright.nest.block_loops import NestLoop

Coefficients = dict[ir.Var, int]


def contiguous_loops(realize: ir.BlockRealize, nest: Sequence[NestLoop], most: int) -> int:
    """The number of innermost loops, at most `most`, along which all accesses are contiguous."""
    count, values = most, realize.values
    for region in (*realize.block.reads, *realize.block.writes):
        count = _contiguous(_Strides(region, values), nest, count)
    return count


def _contiguous(strides: _Strides, nest: Sequence[NestLoop], limit: int) -> int:
    """How many of the innermost loops (at most `limit`) are contiguous in a region."""
    expected = 0  # of the next loop; 0: no loop has mattered yet
    for count in range(limit):
        loop = nest[-1 - count]
        stride = strides.of(loop.stmt.loop_var)
        if stride == 0:
            continue
        # A single loop may stride as it likes, what counts is that no other joins it.
        fits = stride == expected if expected else stride == 1 or count == 0
        if not fits or loop.extent is None:
            return count
        expected = stride * loop.extent
    return limit


class _Strides:
    """How far apart in memory the iterations of a loop are, in one region."""

    def __init__(self, region: ir.BufferRegion, values: dict[ir.Var, ir.PrimExpr]) -> None:
        self.region = region
        self.values = values
        self.rows: dict[int, _Row] = {}

    def of(self, var: ir.Var) -> int:
        """The stride of a loop; 0 if it does not matter."""
        stride = 1
        for axis in range(len(self.region.region) - 1, -1, -1):
            if axis not in self.rows:
                self.rows[axis] = _Row(self.region.region[axis].min, self.values)
            coefficient = self.rows[axis].coefficient(var)
            if coefficient:
                return coefficient * stride
            extent = self.region.buffer.shape[axis]
            stride *= extent.value if isinstance(extent, ir.IntImm) else 0
        return 0


class _Row:
    """An index as a sum: coefficients of loops, and what stands inside divisions.

    The latter counts as not used, as in TVM, unless simplification gets it out of there. That can
    only happen to variables that occur once more; the simplifier is asked about those alone.
    """

    def __init__(self, index: ir.PrimExpr, values: dict[ir.Var, ir.PrimExpr]) -> None:
        self.index = index
        self.values = values
        self.linear: Coefficients = {}
        self.inside: dict[ir.Var, int] = {}  # how many divisions a variable stands in
        self.simplified: Coefficients | None = None
        self._collect(index, 1, self.linear)

    def coefficient(self, var: ir.Var) -> int:
        """How much the index grows with the loop."""
        uses = self.inside.get(var, 0)
        if uses and (uses > 1 or var in self.linear):
            if self.simplified is None:
                # Nothing is said about the extents of loops: unit loops must not vanish here.
                whole = Analyzer().simplify(ir.substitute(self.index, self.values))
                self.simplified = _by_shape(whole)
            return self.simplified.get(var, 0)
        return self.linear.get(var, 0)

    def _collect(self, expr: ir.PrimExpr, scale: int, total: Coefficients) -> None:
        """Add the coefficients in `scale * expr` to `total`."""
        for term, factor in affine_of(expr).terms.items():
            match term:
                case ir.Var() if term in self.values:
                    self._collect(self.values[term], scale * factor, total)
                case ir.Var():
                    total[term] = total.get(term, 0) + scale * factor
                case (
                    ir.FloorDiv(b=ir.IntImm(value=divisor))
                    | ir.FloorMod(b=ir.IntImm(value=divisor))
                ) if divisor > 0:
                    self._divide(term, divisor, scale * factor, total)
                case _:
                    self._note_inside(ir.free_vars(ir.substitute(term, self.values)))

    def _divide(
        self, term: ir.FloorDiv | ir.FloorMod, divisor: int, scale: int, total: Coefficients
    ) -> None:
        """Multiples of the divisor come out of a quotient, the rest stays inside."""
        part: Coefficients = {}
        self._collect(term.a, 1, part)
        for var, value in part.items():
            if value % divisor:
                self._note_inside([var])
            elif isinstance(term, ir.FloorDiv):
                total[var] = total.get(var, 0) + scale * (value // divisor)

    def _note_inside(self, variables: Sequence[ir.Var]) -> None:
        for var in variables:
            self.inside[var] = self.inside.get(var, 0) + 1


def _by_shape(expr: ir.PrimExpr) -> Coefficients:
    """Coefficients of the variables that stand in the sums and products of an index."""
    match expr:
        case ir.Var():
            return {expr: 1}
        case ir.Mul(a=a, b=ir.IntImm(value=factor)):
            return {var: value * factor for var, value in _by_shape(a).items()}
        case ir.Add(a=a, b=b):
            left, right = _by_shape(a), _by_shape(b)
            both = {var: min(left[var], right[var]) for var in left if var in right}
            return {**left, **right, **both}
    return {}

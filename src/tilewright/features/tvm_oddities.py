"""TVM's deliberate oddities, which features keep because tuned models were trained on them.

- The coefficient of a variable in an index is what a walk along the expression saw last (below).
- A remainder keeps the value that it has in the first iteration: TVM learns the divisibility of a
  loop variable while the loop stands at its first value, and keeps it when the loop runs.
- A loop whose extent is no number counts as one iteration (`Loop.iterations`).
- Of several loops of a kind, the position is always "mixed" (`columns.py`).
"""

from __future__ import annotations

from collections.abc import Container

from tilewright.arith import Analyzer, ConstIntBound
from tilewright.arith.affine import Affine, Bound, undivided
from tilewright.arith.ranges import RangeEvaluator, Ranges
from tilewright.ir import INT32, Add, IntImm, Mul, Node, PrimExpr, Var, children

# --- remainders ---------------------------------------------------------------------------------


_STAND_STILL: Container[Var] = ()


class FirstRemainders(RangeEvaluator):
    """Bounds while some loops run, in which remainders stay what they are at the first values."""

    __slots__ = ("_running",)

    def __init__(self, ranges: Ranges, running: Container[Var]) -> None:
        super().__init__(ranges)
        self._running = running

    def of_var(self, var: Var) -> Bound:
        first, last = super().of_var(var)
        return first, last if var in self._running else first

    def of_remainder(self, dividend: PrimExpr, divisor: int) -> Bound:
        first = FirstRemainders(self.ranges, _STAND_STILL).of(dividend)[0] % divisor
        return first, first

    def of_other(self, expr: PrimExpr) -> Bound:
        analyzer = Analyzer()
        for var in self.ranges:
            analyzer.update(var, ConstIntBound(*self.of_var(var)))
        return analyzer.const_int_bound(expr)


def bounds_while(index: Affine, ranges: Ranges, running: Container[Var]) -> Bound:
    """Bounds of an index while some loops run and all others stand at their first value."""
    return index.bounds(FirstRemainders(ranges, running).of)


# --- coefficients -------------------------------------------------------------------------------
# The rules look at the index as an expression, from the variable upwards, and forget whose factor
# they see: once the variable was met, every product with a constant that follows overwrites the
# coefficient, until a sum is met before any product. So `i * 16 + j * 4` counts 4 for `i`.


def coefficient(index: Affine, var: Var) -> int:
    """The (absolute) coefficient of `var` in `index`; 0 when it does not occur."""
    if not index.terms or var not in index.variables:
        return 0
    # On the way up from a variable, divided or not, the walk sees nothing.
    if index.is_plain or all([isinstance(undivided(term), Var) for term in index.terms]):
        return _along_terms(index, var)
    walk = _Walk(var)
    walk.visit(index.expr(INT32))
    return abs(walk.stride)


def _along_terms(index: Affine, var: Var) -> int:
    """The same walk along the printed terms of a sum of (divided) variables."""
    if len(index.terms) == 1 and not index.base:
        (scale,) = index.terms.values()
        return abs(int(scale))
    met = multiplied = False
    stride = 1
    for position, (term, scale) in enumerate(index.in_order()):
        met = met or term is var or (term is not None and undivided(term) is var)
        if not met:
            continue
        if term is not None and scale not in (1, -1):
            stride, multiplied = abs(scale), True
        if position > 0 and scale > 0 and not multiplied:
            return 1
    return stride


class _Walk:
    """The walk along an expression."""

    def __init__(self, var: Var) -> None:
        self._var = var
        self._met = False
        self._multiplied = False
        self._added = False
        self.stride = 0

    def visit(self, node: Node) -> None:
        if node is self._var:
            self._met = True
            self.stride = 1
            return
        for child in children(node):
            self.visit(child)
        if not self._met:
            return
        if isinstance(node, Mul):
            factor = node.b if isinstance(node.b, IntImm) else node.a
            if isinstance(factor, IntImm) and not self._added:
                self._multiplied = True
                self.stride = factor.value
        elif isinstance(node, Add) and not self._multiplied:
            self._added = True
            self.stride = 1

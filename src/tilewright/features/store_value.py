"""Counts what the value of a store computes: operations of each kind, and loads.

Values that only combine loads are counted as they stand. Conditions and arithmetic on loop
variables are simplified first, because how much of them is left depends on the loops around.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from tilewright import ir
from tilewright.arith.affine import Affine, Bound, undivided
from tilewright.ir.arithmetic import fold_binary
from tilewright.nest.index_reader import IndexReader

# Columns of the counts: seven kinds on floats, the same on everything else, then these two.
ADD, MUL, DIVIDE, COMPARE, PURE_CALL, OTHER_CALL = 1, 2, 3, 4, 5, 6
NUM_KINDS = 7
BOOL, SELECT = 14, 15
NUM_COUNTS = 16

_BY_TYPE: dict[type, int] = {
    ir.Add: ADD,
    ir.Sub: ADD,
    ir.Mul: MUL,
    ir.Div: DIVIDE,
    ir.Mod: DIVIDE,
    ir.FloorDiv: DIVIDE,
    ir.FloorMod: DIVIDE,
    ir.Max: COMPARE,
    ir.Min: COMPARE,
}
_INDEX_NODES = frozenset({ir.Add, ir.Sub, ir.Mul, ir.FloorDiv, ir.FloorMod, ir.Min, ir.Max})
_INDEX_TYPES = (ir.INT32, ir.INT64)
_COMPARISONS = frozenset({ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE})
_LOGIC = frozenset({ir.And, ir.Or, ir.Not})
_IF_THEN_ELSE = ir.Op.get("tir.if_then_else")

Counts = list[int]


@dataclass(slots=True)
class StoreValue:
    """The operations of a value outside of the indices of its loads, and the loads."""

    counts: Counts
    loads: list[ir.BufferLoad]


def read_value(value: ir.PrimExpr, reader: IndexReader) -> StoreValue | None:
    """What a value computes; None when it turns out to be a constant."""
    scan = _Scan()
    simple = value if _is_plain(value) else _Resolver(reader).visit(value)
    if isinstance(simple, (ir.IntImm, ir.FloatImm)):
        return None
    scan.visit(simple)
    return StoreValue(scan.counts, scan.loads)


def never_holds(condition: ir.PrimExpr, reader: IndexReader) -> bool:
    """True when a condition is false in every iteration."""
    simple = _Resolver(reader).condition(condition)
    return isinstance(simple, ir.IntImm) and not simple.value


def count_index(index: Affine, counts: Counts) -> None:
    """Add the operations of an index."""
    for term, scale in index.terms.items():
        if scale not in (1, -1):
            counts[NUM_KINDS + MUL] += 1
        inner = undivided(term)
        while term is not inner:
            counts[NUM_KINDS + DIVIDE] += 1
            term = term.a  # type: ignore[attr-defined] # a quotient or remainder
        if not isinstance(inner, ir.Var):
            _Scan(counts).visit(inner)
    if index.terms:
        counts[NUM_KINDS + ADD] += len(index.terms) - (not index.base)


class _Scan:
    """Counts operations and collects loads, in evaluation order."""

    def __init__(self, counts: Counts | None = None) -> None:
        self.counts = [0] * NUM_COUNTS if counts is None else counts
        self.loads: list[ir.BufferLoad] = []

    def visit(self, node: ir.Node) -> None:
        kind = type(node)
        if kind in _BY_TYPE and isinstance(node, ir.BinaryOp):
            self._visit_arithmetic(node, 0 if node.dtype.is_float else NUM_KINDS)
        elif isinstance(node, ir.BufferLoad):
            self.loads.append(node)
            for index in node.indices:
                if type(index) is not ir.Var:  # its operations are counted with the index
                    self.loads += ir.nodes_of(index, ir.BufferLoad)
        elif kind not in (ir.Var, ir.IntImm, ir.FloatImm):
            self._count_other(node)
            for child in ir.children(node):
                self.visit(child)

    def _visit_arithmetic(self, node: ir.BinaryOp, first: int) -> None:
        """Arithmetic all of one type, whose counts begin at column `first`."""
        self.counts[first + _BY_TYPE[type(node)]] += 1
        for part in (node.a, node.b):
            if type(part) in _BY_TYPE:
                self._visit_arithmetic(part, first)  # type: ignore[arg-type] # all are BinaryOp
            else:
                self.visit(part)

    def _count_other(self, node: ir.Node) -> None:
        kind = type(node)
        if kind in _COMPARISONS:
            self.counts[NUM_KINDS + COMPARE] += 1
        elif kind in _LOGIC:
            self.counts[BOOL] += 1
        elif isinstance(node, ir.Select):
            self.counts[SELECT] += 1
        elif isinstance(node, ir.Call):
            pure = isinstance(node.op, ir.Op) and node.op.effect == ir.CallEffect.PURE
            column = PURE_CALL if pure else OTHER_CALL
            self.counts[column if node.dtype.is_float else NUM_KINDS + column] += 1


def _is_plain(node: ir.Node) -> bool:
    """True when simplifying could not change what is counted."""
    kind = type(node)
    if kind is ir.BufferLoad or kind is ir.FloatImm:
        return True
    if kind in _BY_TYPE and isinstance(node, ir.BinaryOp):
        return _is_plain_operation(node)
    if isinstance(node, ir.Cast):
        return _is_plain(node.value)
    if isinstance(node, ir.Call) and node.op is not _IF_THEN_ELSE:
        return all(map(_is_plain, node.args))
    return False


def _is_plain_operation(node: ir.BinaryOp) -> bool:
    constants = [part.value for part in (node.a, node.b) if isinstance(part, ir.FloatImm)]
    if len(constants) == 2:
        return False
    if constants and constants[0] in (0, 1) and not isinstance(node, (ir.Max, ir.Min)):
        return False
    return _is_plain(node.a) and _is_plain(node.b)


class _Resolver(ir.Rewriter):
    """Rewrites a value over loop variables, in its simplest form.

    Choices between values that load nothing count as the constant one, products with it vanish.
    """

    def __init__(self, reader: IndexReader) -> None:
        self._reader = reader

    def visit_binary_op(self, node: ir.BinaryOp) -> ir.PrimExpr:
        if type(node) in _INDEX_NODES and node.dtype in _INDEX_TYPES:
            return self._reader.read(node).expr(node.dtype)
        a, b = self.visit(node.a), self.visit(node.b)
        return node if a is node.a and b is node.b else fold_binary(type(node), a, b)

    def visit_var(self, node: ir.Var) -> ir.PrimExpr:
        return self._reader.read(node).expr(node.dtype) if node.dtype in _INDEX_TYPES else node

    def visit_buffer_load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        if not any(
            [self._reader.direct(index) is None and ir.has_load(index) for index in node.indices]
        ):
            return node  # its indices are read, and counted, as such
        return self.generic_visit(node)

    def visit_select(self, node: ir.Select) -> ir.PrimExpr:
        if not ir.has_load(node):
            return ir.const(1, node.dtype)
        condition = self.condition(node.condition)
        if isinstance(condition, ir.IntImm):
            return self._either(condition, node.true_value, node.false_value)
        values = self.visit(node.true_value), self.visit(node.false_value)
        return ir.Select(condition, *values)

    def visit_call(self, node: ir.Call) -> ir.PrimExpr:
        if node.op is not _IF_THEN_ELSE:
            return ir.map_children(node, self.visit)
        condition = self.condition(node.args[0])
        if isinstance(condition, ir.IntImm):
            return self._either(condition, node.args[1], node.args[2])
        chosen, otherwise = self.visit(node.args[1]), self.visit(node.args[2])
        if isinstance(chosen, ir.Call) and chosen.op is _IF_THEN_ELSE:
            also, inner, inner_otherwise = chosen.args
            if ir.expr_deep_equal(otherwise, inner_otherwise):  # a ? (b ? x : y) : y
                condition, chosen = ir.logical_and(condition, also), inner
        return ir.replace(node, args=(condition, chosen, otherwise))

    def condition(self, node: ir.PrimExpr) -> ir.PrimExpr:
        """A condition, or the constant that it always is."""
        if isinstance(node, ir.And):
            return ir.logical_and(self.condition(node.a), self.condition(node.b))
        known = self._decided(node)
        return self._reader.simplify(self.visit(node)) if known is None else known

    def _decided(self, node: ir.PrimExpr) -> ir.PrimExpr | None:
        """A bound check `c <= index` or `index < c` that cannot become simpler, or is decided."""
        match node:
            case ir.LE(a=ir.IntImm(value=limit), b=index):
                holds = True  # for values from the limit on
            case ir.LT(a=index, b=ir.IntImm(value=limit)):
                holds = False
            case ir.EQ(a=ir.FloorMod() as index, b=ir.IntImm(value=limit)):
                return self._divisibility(node, index, limit)
            case _:
                return None
        form = self._reader.read(index)
        if form.base or not form.terms:
            return None
        factor = min(form.terms.values())
        if factor > 1 and all([scale == factor for scale in form.terms.values()]):
            form, limit = Affine(dict.fromkeys(form.terms, 1)), -(-limit // factor)
        parts = [(scale, self._reader.bound(term)) for term, scale in form.terms.items()]
        low, high = _sum_of_bounds(parts)
        if low is None:
            return None
        if high < limit or low >= limit:
            return ir.const((low >= limit) == holds, "bool")
        if not _all_parts_matter(parts, limit):
            return None
        expr = form.expr(index.dtype)
        if isinstance(expr, ir.FloorDiv):  # `c <= x // d` is `c * d <= x`
            return (
                None
                if not isinstance(expr.a, ir.FloorMod) and not _is_sum(expr.a)
                else ir.replace(node, **{"b" if holds else "a": expr.a})
            )
        return ir.replace(node, b=expr) if holds else ir.replace(node, a=expr)

    def _divisibility(self, node: ir.EQ, index: ir.PrimExpr, value: int) -> ir.PrimExpr | None:
        """A check that a remainder has some value, if it sometimes has."""
        form = self._reader.read(index)
        ((term, scale),) = form.terms.items() if len(form.terms) == 1 else ((None, 0),)
        if not isinstance(term, ir.FloorMod) or scale != 1 or form.base or not _is_sum(term.a):
            return None
        low, high = self._reader.bound(term) or (1, 0)
        return ir.replace(node, a=term) if low <= value <= high else None

    def _either(
        self, condition: ir.IntImm, chosen: ir.PrimExpr, otherwise: ir.PrimExpr
    ) -> ir.PrimExpr:
        return self.rewrite(chosen if condition.value else otherwise)


def _is_sum(expr: ir.PrimExpr) -> bool:
    """True for a variable, a quotient of one, and for sums of such."""
    if isinstance(expr, ir.Add):
        return _is_sum(expr.a) and _is_sum(expr.b)
    return isinstance(expr.a if isinstance(expr, ir.FloorDiv) else expr, ir.Var)


Part = tuple[int, Bound | None]  # a scale, and the bounds of what it scales


def _sum_of_bounds(parts: Sequence[Part]) -> tuple[int | None, int]:
    low = high = 0
    for scale, bound in parts:
        if bound is None or scale < 0:
            return None, 0
        low += scale * bound[0]
        high += scale * bound[1]
    return low, high


def _all_parts_matter(parts: Sequence[Part], limit: int) -> bool:
    """False when `sum >= limit` might do without the smaller parts, or with smaller scales.

    With scales that are multiples of `g`, and a rest, it is `g * a + rest >= limit`, which holds
    from the same `a` on whatever the rest is, or does not.
    """
    ordered = sorted(parts, key=lambda part: -part[0])
    divisor = 0
    for place, (scale, _) in enumerate(ordered):
        divisor = gcd(divisor, scale)
        low, high = _sum_of_bounds(ordered[place + 1 :])
        assert low is not None
        if divisor > 1 and -(-(limit - low) // divisor) == -(-(limit - high) // divisor):
            return False
    return divisor == 1

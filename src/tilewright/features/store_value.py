"""Counts what the value of a store computes: operations of each kind, and loads.

Values that only combine loads are counted as they stand. Conditions and arithmetic on loop
variables are simplified first, because how much of them is left depends on the loops around.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from tilewright.arith.affine import Affine, Bound
from tilewright.ir import (
    EQ,
    GE,
    GT,
    INT32,
    INT64,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    BufferLoad,
    Call,
    CallEffect,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Node,
    Not,
    Op,
    Or,
    PrimExpr,
    Rewriter,
    Select,
    Sub,
    Var,
    children,
    const,
    expr_deep_equal,
    has_load,
    logical_and,
    map_children,
    replace,
)
from tilewright.ir.folding import fold_binary
from tilewright.nest.index_reader import IndexReader

# Columns of the counts: seven kinds on floats, the same on everything else, then these two.
ADD, MUL, DIVIDE, COMPARE, PURE_CALL, OTHER_CALL = 1, 2, 3, 4, 5, 6
NUM_KINDS = 7
BOOL, SELECT = 14, 15
NUM_COUNTS = 16

_BY_TYPE: dict[type, int] = {
    Add: ADD,
    Sub: ADD,
    Mul: MUL,
    Div: DIVIDE,
    Mod: DIVIDE,
    FloorDiv: DIVIDE,
    FloorMod: DIVIDE,
    Max: COMPARE,
    Min: COMPARE,
}
_INDEX_NODES = frozenset({Add, Sub, Mul, FloorDiv, FloorMod, Min, Max})
_INDEX_TYPES = (INT32, INT64)
_COMPARISONS = frozenset({EQ, NE, LT, LE, GT, GE})
_LEAVES = (Var, IntImm)
_LOGIC = frozenset({And, Or, Not})
_IF_THEN_ELSE = Op.get("tir.if_then_else")

Counts = list[int]


@dataclass(slots=True)
class StoreValue:
    """The operations of a value outside of the indices of its loads, and the loads."""

    counts: Counts
    loads: list[BufferLoad]


def read_value(value: PrimExpr, reader: IndexReader) -> StoreValue | None:
    """What a value computes; None when it turns out to be a constant."""
    scan = _Scan()
    simple = value if _is_plain(value) else _Resolver(reader).visit(value)
    if isinstance(simple, (IntImm, FloatImm)):
        return None
    scan.visit(simple)
    return StoreValue(scan.counts, scan.loads)


def never_holds(condition: PrimExpr, reader: IndexReader) -> bool:
    """True when a condition is false in every iteration."""
    simple = _Resolver(reader).condition(condition)
    return isinstance(simple, IntImm) and not simple.value


def count_index(index: Affine, counts: Counts) -> None:
    """Add the operations of an index."""
    parts = 0
    for term, scale in index.terms.items():
        parts += 1
        if scale not in (1, -1):
            counts[NUM_KINDS + MUL] += 1
        if not isinstance(term, Var):
            scan = _Scan(counts)
            scan.visit(term)
    if parts and index.base:
        parts += 1
    counts[NUM_KINDS + ADD] += max(parts - 1, 0)


class _Scan:
    """Counts operations and collects loads, in evaluation order."""

    def __init__(self, counts: Counts | None = None) -> None:
        self.counts = [0] * NUM_COUNTS if counts is None else counts
        self.loads: list[BufferLoad] = []

    def visit(self, node: Node) -> None:
        kind = type(node)
        column = _BY_TYPE.get(kind)
        if column is not None and isinstance(node, BinaryOp):
            self.counts[column if node.dtype.is_float else NUM_KINDS + column] += 1
            self.visit(node.a)
            self.visit(node.b)
        elif isinstance(node, BufferLoad):
            self.loads.append(node)
            for index in node.indices:
                if type(index) is not Var:
                    self._visit_loads_below(index)
        elif kind not in (Var, IntImm, FloatImm):
            self._count_other(node)
            for child in children(node):
                self.visit(child)

    def _count_other(self, node: Node) -> None:
        kind = type(node)
        if kind in _COMPARISONS:
            self.counts[NUM_KINDS + COMPARE] += 1
        elif kind in _LOGIC:
            self.counts[BOOL] += 1
        elif isinstance(node, Select):
            self.counts[SELECT] += 1
        elif isinstance(node, Call):
            pure = isinstance(node.op, Op) and node.op.effect == CallEffect.PURE
            column = PURE_CALL if pure else OTHER_CALL
            self.counts[column if node.dtype.is_float else NUM_KINDS + column] += 1

    def _visit_loads_below(self, node: Node) -> None:
        """Loads that an index makes; its operations are counted with the index."""
        if isinstance(node, BufferLoad):
            self.loads.append(node)
        for child in children(node):
            if type(child) not in _LEAVES:
                self._visit_loads_below(child)


def _is_plain(node: Node) -> bool:
    """True when simplifying could not change what is counted."""
    kind = type(node)
    if kind is BufferLoad or kind is FloatImm:
        return True
    if kind in _BY_TYPE and isinstance(node, BinaryOp):
        return _is_plain_operation(node)
    if isinstance(node, Cast):
        return _is_plain(node.value)
    if isinstance(node, Call) and node.op is not _IF_THEN_ELSE:
        return all(map(_is_plain, node.args))
    return False


def _is_plain_operation(node: BinaryOp) -> bool:
    constants = [part.value for part in (node.a, node.b) if isinstance(part, FloatImm)]
    if len(constants) == 2:
        return False
    if constants and constants[0] in (0, 1) and not isinstance(node, (Max, Min)):
        return False
    return _is_plain(node.a) and _is_plain(node.b)


class _Resolver(Rewriter):
    """Rewrites a value over loop variables, in its simplest form.

    Choices between values that load nothing count as the constant one, products with it vanish.
    """

    def __init__(self, reader: IndexReader) -> None:
        self._reader = reader

    def visit_binary_op(self, node: BinaryOp) -> PrimExpr:
        if type(node) in _INDEX_NODES and node.dtype in _INDEX_TYPES:
            return self._reader.read(node).expr(node.dtype)
        a, b = self.visit(node.a), self.visit(node.b)
        return node if a is node.a and b is node.b else fold_binary(type(node), a, b)

    def visit_var(self, node: Var) -> PrimExpr:
        return self._reader.read(node).expr(node.dtype) if node.dtype in _INDEX_TYPES else node

    def visit_buffer_load(self, node: BufferLoad) -> PrimExpr:
        if not any(
            [self._reader.direct(index) is None and has_load(index) for index in node.indices]
        ):
            return node  # its indices are read, and counted, as such
        result: PrimExpr = self.generic_visit(node)
        return result

    def visit_select(self, node: Select) -> PrimExpr:
        if not has_load(node):
            return const(1, node.dtype)
        condition = self.condition(node.condition)
        if isinstance(condition, IntImm):
            return self._either(condition, node.true_value, node.false_value)
        values = self.visit(node.true_value), self.visit(node.false_value)
        return Select(condition, *values)

    def visit_call(self, node: Call) -> PrimExpr:
        if node.op is not _IF_THEN_ELSE:
            return map_children(node, self.visit)
        condition = self.condition(node.args[0])
        if isinstance(condition, IntImm):
            return self._either(condition, node.args[1], node.args[2])
        chosen, otherwise = self.visit(node.args[1]), self.visit(node.args[2])
        if isinstance(chosen, Call) and chosen.op is _IF_THEN_ELSE:
            also, inner, inner_otherwise = chosen.args
            if expr_deep_equal(otherwise, inner_otherwise):  # a ? (b ? x : y) : y
                condition, chosen = logical_and(condition, also), inner
        return replace(node, args=(condition, chosen, otherwise))

    def condition(self, node: PrimExpr) -> PrimExpr:
        """A condition, or the constant that it always is."""
        if isinstance(node, And):
            return logical_and(self.condition(node.a), self.condition(node.b))
        known = self._decided(node)
        return self._reader.simplify(self.visit(node)) if known is None else known

    def _decided(self, node: PrimExpr) -> PrimExpr | None:
        """A bound check `c <= index` or `index < c` that cannot become simpler, or is decided."""
        match node:
            case LE(a=IntImm(value=limit), b=index):
                holds = True  # for values from the limit on
            case LT(a=index, b=IntImm(value=limit)):
                holds = False
            case EQ(a=FloorMod() as index, b=IntImm(value=limit)):
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
            return const((low >= limit) == holds, "bool")
        if not _all_parts_matter(parts, limit):
            return None
        expr = form.expr(index.dtype)
        if isinstance(expr, FloorDiv):  # `c <= x // d` is `c * d <= x`
            return (
                None
                if not isinstance(expr.a, FloorMod) and not _is_sum(expr.a)
                else replace(node, **{"b" if holds else "a": expr.a})
            )
        return replace(node, b=expr) if holds else replace(node, a=expr)

    def _divisibility(self, node: EQ, index: PrimExpr, value: int) -> PrimExpr | None:
        """A check that a remainder has some value, if it sometimes has."""
        form = self._reader.read(index)
        ((term, scale),) = form.terms.items() if len(form.terms) == 1 else ((None, 0),)
        if not isinstance(term, FloorMod) or scale != 1 or form.base or not _is_sum(term.a):
            return None
        low, high = self._reader.bound(term) or (1, 0)
        return replace(node, a=term) if low <= value <= high else None

    def _either(self, condition: IntImm, chosen: PrimExpr, otherwise: PrimExpr) -> PrimExpr:
        result: PrimExpr = self.visit(chosen if condition.value else otherwise)
        return result


def _is_sum(expr: PrimExpr) -> bool:
    """True for a variable, a quotient of one, and for sums of such."""
    if isinstance(expr, Add):
        return _is_sum(expr.a) and _is_sum(expr.b)
    return isinstance(expr.a if isinstance(expr, FloorDiv) else expr, Var)


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

"""Integer expressions over the decisions of a sketch, each kept once, with bounds of its values.

Whatever all decisions agree on is a plain `int`: the functions here take numbers and expressions
alike and return a number wherever the bounds of their operands leave only one. Conditions are
expressions with the values 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Value: TypeAlias = "int | Expr"
Key: TypeAlias = tuple[Any, ...]


class Expr:
    """A node; two nodes of a graph with the same operation and operands are one object."""

    __slots__ = ("args", "graph", "high", "low", "number", "op")

    def __init__(
        self, graph: ExprGraph, op: str, args: tuple[Any, ...], low: int, high: int
    ) -> None:
        self.graph = graph
        self.op = op
        self.args = args
        self.low = low
        self.high = high
        self.number = len(graph.nodes)

    def __add__(self, other: Value) -> Value:
        return add(self, other)

    __radd__ = __add__

    def __mul__(self, other: Value) -> Value:
        return multiply(self, other)

    __rmul__ = __mul__

    def __sub__(self, other: Value) -> Value:
        return add(self, multiply(other, -1))

    def __rsub__(self, other: Value) -> Value:
        return add(other, multiply(self, -1))

    def __repr__(self) -> str:
        if self.op == "variable":
            return str(self.args[0])
        return f"{self.op}({', '.join(map(repr, self.args))})"


class ExprGraph:
    """All nodes of one model, in an order in which operands come first."""

    def __init__(self) -> None:
        self.nodes: list[Expr] = []
        self._known: dict[Key, Expr] = {}
        self._results: dict[Key, Value] = {}
        self._seen: dict[str, int] = {}
        self._values: dict[str, tuple[int, ...]] = {}
        self._products: list[tuple[tuple[Expr, ...], int]] = []  # that are known numbers

    def most_seen(self, name: str, number: int) -> int:
        """The largest of the numbers that were seen under a name, this one included."""
        self._seen[name] = max(number, self._seen.get(name, number))
        return self._seen[name]

    def product(self, a: Expr, b: Value) -> Value:
        """The product of two operands, worked out once."""
        key = ("times", a.number, b.number if isinstance(b, Expr) else (b,))
        if key not in self._results:
            self._results[key] = _multiplied(a, b)
        return self._results[key]

    def know_values(self, name: str, values: Sequence[int]) -> None:
        """Say which numbers a variable can be."""
        self._values[name] = tuple(values)

    def always_divides(self, divisor: Expr, number: int) -> bool:
        """True for a variable all of whose values divide a number."""
        values = self._values.get(divisor.args[0], ()) if divisor.op == "variable" else ()
        return bool(values) and all(number % value == 0 for value in values)

    def know_product(self, factors: Sequence[Value], product: int) -> None:
        """Say that some variables always have the same product."""
        variables = tuple(each for each in factors if isinstance(each, Expr))
        others = math.prod(each for each in factors if not isinstance(each, Expr))
        if variables and (variables, product // others) not in self._products:
            self._products.append((variables, product // others))

    def most_of(self, factors: tuple[Expr, ...], most: int) -> int:
        """The largest value of a product: parts of a known product do not exceed it."""
        if len(set(factors)) < len(factors):
            return most
        limit, rest = 1, list(factors)
        for known, product in self._products:
            inside = [each for each in rest if each in known]
            if inside:
                limit *= product
                rest = [each for each in rest if each not in known]
        for each in rest:
            if each.low < 0:
                return most
            limit *= each.high
        return min(most, limit)

    def reduced(self, factors: list[Expr]) -> tuple[int, list[Expr]]:
        """A product without the parts of it that are known numbers, and those."""
        scale = 1
        for known, product in self._products:
            while len(known) <= len(factors) and all(
                factors.count(each) >= known.count(each) for each in known
            ):
                for each in known:
                    factors.remove(each)
                scale *= product
        return scale, factors

    def known_number(self, value: Value) -> Value:
        """The number that a value is, where a known product says so."""
        scale, left = self.reduced([value]) if isinstance(value, Expr) else (value, [])
        return value if left else scale

    def variable(self, name: str, low: int, high: int) -> Value:
        """An unknown number between two bounds."""
        return self.node("variable", (name,), low, high)

    def node(self, op: str, args: tuple[Any, ...], low: int, high: int) -> Value:
        """The node with these operands, or the one number that it can be."""
        if low == high:
            return low
        key = (op, *[arg.number if type(arg) is Expr else (arg,) for arg in args])
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Expr(self, op, args, low, high)
            self.nodes.append(known)
        return known


def bounds(value: Value) -> tuple[int, int]:
    """The smallest and the largest number that a value can be."""
    return (value.low, value.high) if type(value) is Expr else (value, value)  # type: ignore[return-value]


def _graph(*values: Value) -> ExprGraph:
    return next(value.graph for value in values if isinstance(value, Expr))


def add(a: Value, b: Value) -> Value:
    """`a + b`; a constant stands on the right."""
    if type(a) is int:
        a, b = b, a
    if type(a) is int:
        return a + b
    assert isinstance(a, Expr)
    if type(b) is int:
        if b == 0:
            return a
        if a.op == "+" and type(a.args[1]) is int:
            return add(a.args[0], a.args[1] + b)
        return a.graph.node("+", (a, b), a.low + b, a.high + b)
    assert isinstance(b, Expr)
    if a.op == "+" and type(a.args[1]) is int:
        return add(add(a.args[0], b), a.args[1])
    if b.op == "+" and type(b.args[1]) is int:
        return add(add(a, b.args[0]), b.args[1])
    if a.number > b.number:
        a, b = b, a
    return a.graph.node("+", (a, b), a.low + b.low, a.high + b.high)


def multiply(a: Value, b: Value) -> Value:
    """`a * b`, as a constant and a product of expressions in one order."""
    if type(a) is int:
        a, b = b, a
    if type(a) is int:
        return a * b
    assert isinstance(a, Expr)
    if type(b) is int and (b == 0 or b == 1):
        return a if b else 0
    return a.graph.product(a, b)


def _multiplied(a: Expr, b: Value) -> Value:
    (first, left), (second, right) = factors_of(a), factors_of(b)
    if first * second == 0:
        return 0
    known, factors = a.graph.reduced(sorted([*left, *right], key=_number))
    scale = first * second * known
    if not factors:
        return scale
    product = _product(tuple(factors))
    if scale == 1:
        return product
    low, high = bounds(product)
    ends = sorted((scale * low, scale * high))
    return product.graph.node("*", (product, scale), *ends)


def _number(expr: Expr) -> int:
    return expr.number


def factors_of(value: Value) -> tuple[int, tuple[Expr, ...]]:
    """A constant and the expressions that it is multiplied with."""
    if not isinstance(value, Expr):
        return value, ()
    if value.op == "*":
        left, right = value.args
        if type(right) is int:
            return right, factors_of(left)[1]
        return 1, (*factors_of(left)[1], right)
    return 1, (value,)


def _product(factors: tuple[Expr, ...]) -> Expr:
    """Factors multiplied from the left, so that products share their beginnings."""
    total = factors[0]
    for number, factor in enumerate(factors[1:], 2):
        ends = [a * b for a in bounds(total) for b in bounds(factor)]
        most = total.graph.most_of(factors[:number], max(ends))
        total = total.graph.node("*", (total, factor), min(ends), most)  # type: ignore[assignment]
    return total


def product_of(values: Sequence[Value]) -> Value:
    """The product of all values."""
    total: Value = 1
    for value in values:
        total = multiply(total, value)
    return total


def floor_divide(a: Value, b: Value) -> Value:
    """`a // b` for a positive divisor."""
    if type(a) is int and type(b) is int:
        return a // b
    if type(b) is int and b == 1:
        return a
    if type(b) is int and (divided := _divided(a, b)) is not None:
        return divided
    (low, high), (least, most) = bounds(a), bounds(b)
    ends = [end // max(1, divisor) for end in (low, high) for divisor in (least, most)]
    return _graph(a, b).node("//", (a, b), min(ends), max(ends))


def _divided(a: Value, divisor: int) -> Value | None:
    """A constant multiple over a constant that divides it."""
    scale, factors = factors_of(a)
    if scale % divisor or not factors:
        return None
    return multiply(_product(factors), scale // divisor)


def remainder(a: Value, b: Value) -> Value:
    """`a % b` for a positive divisor."""
    if type(a) is int and type(b) is int:
        return a % b
    (low, high), (least, most) = bounds(a), bounds(b)
    if low >= 0 and high < least:
        return a
    if type(b) is int and factors_of(a)[0] % b == 0:
        return 0
    return _graph(a, b).node("%", (a, b), 0, min(most - 1, high) if low >= 0 else most - 1)


def ceil_divide(a: Value, b: Value) -> Value:
    """How many pieces of `b` cover `a`; both are positive."""
    if type(a) is int and type(b) is int:
        return -(-a // b)
    if type(b) is int and b == 1:
        return a
    if type(b) is int and (divided := _divided(a, b)) is not None:
        return divided
    (low, high), (least, most) = bounds(a), bounds(b)
    return _graph(a, b).node("ceil", (a, b), -(-low // most), -(-high // max(1, least)))


def minimum(a: Value, b: Value) -> Value:
    """The smaller one."""
    return _extremum("min", a, b, min)


def maximum(a: Value, b: Value) -> Value:
    """The larger one."""
    return _extremum("max", a, b, max)


def _extremum(op: str, a: Value, b: Value, pick: Callable[[int, int], int]) -> Value:
    (low, high), (least, most) = bounds(a), bounds(b)
    if a is b or (type(a) is int and type(b) is int):
        return a if a is b else pick(low, least)
    if high <= least:
        return a if op == "min" else b
    if most <= low:
        return b if op == "min" else a
    return _graph(a, b).node(op, (a, b), pick(low, least), pick(high, most))


# --- conditions ---------------------------------------------------------------------------------


def less_equal(a: Value, b: Value) -> Value:
    """`a <= b`."""
    (low, high), (least, most) = bounds(a), bounds(b)
    if high <= least:
        return 1
    if low > most:
        return 0
    return _graph(a, b).node("<=", (a, b), 0, 1)


def less(a: Value, b: Value) -> Value:
    """`a < b`."""
    return less_equal(add(a, 1), b)


def equal(a: Value, b: Value) -> Value:
    """`a == b`."""
    (low, high), (least, most) = bounds(a), bounds(b)
    if a is b or (low == high == least == most):
        return 1
    if high < least or most < low:
        return 0
    return _graph(a, b).node("==", (a, b), 0, 1)


def negate(condition: Value) -> Value:
    """`not condition`."""
    return add(1, multiply(condition, -1))


def both(a: Value, b: Value) -> Value:
    """`a and b`."""
    if a is b:
        return a
    return minimum(a, b)


def either(a: Value, b: Value) -> Value:
    """`a or b`."""
    if a is b:
        return a
    return maximum(a, b)


def where(condition: Value, a: Value, b: Value) -> Value:
    """`a` if the condition holds, else `b`."""
    if type(condition) is int:
        return a if condition else b
    if a is b or (type(a) is int and type(b) is int and a == b):
        return a
    (low, high), (least, most) = bounds(a), bounds(b)
    return _graph(condition).node("where", (condition, a, b), min(low, least), max(high, most))


def is_more_than_one(extent: Value) -> Value:
    """`extent > 1`."""
    return less_equal(2, extent)

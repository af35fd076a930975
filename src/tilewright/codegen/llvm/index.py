"""Index arithmetic in 64 bits.

Loop variables are 64-bit, and so is everything computed from them: no sign extension stands between
a loop and its addresses. An index is kept as a sum of terms; its constant part is split off, so
that it ends up in the addressing mode.
"""

from __future__ import annotations

from tilewright.codegen.llvm.emitter import Value
from tilewright.codegen.llvm.values import ValueBuilder
from tilewright.ir import (
    Add,
    Cast,
    Div,
    DType,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Sub,
    Var,
)

_INDEX_NODES = (Add, Sub, Mul, FloorDiv, FloorMod, Div, Mod, Min, Max)


class IndexBuilder(ValueBuilder):
    """Emits scalar integer expressions as 64-bit values."""

    def index(self, expr: PrimExpr) -> Value:
        """A scalar integer in 64 bits."""
        terms, constant = self.linear(expr)
        total = self.sum_of(terms)
        if total is None:
            return Value("i64", str(constant))
        if constant == 0:
            return total
        return self.int_op("add nsw", total, Value("i64", str(constant)))

    def linear(self, expr: PrimExpr) -> tuple[dict[Value, int], int]:
        """An index as a sum of values with constant factors, plus a constant."""
        terms: dict[Value, int] = {}
        constant = self._add_terms(expr, 1, terms)
        return {value: factor for value, factor in terms.items() if factor}, constant

    def _add_terms(self, expr: PrimExpr, factor: int, terms: dict[Value, int]) -> int:
        match expr:
            case IntImm():
                return expr.value * factor
            case Add():
                left = self._add_terms(expr.a, factor, terms)
                return left + self._add_terms(expr.b, factor, terms)
            case Sub():
                left = self._add_terms(expr.a, factor, terms)
                return left + self._add_terms(expr.b, -factor, terms)
            case Mul(a=a, b=IntImm(value=value)):
                return self._add_terms(a, factor * value, terms)
            case Mul(a=IntImm(value=value), b=b):
                return self._add_terms(b, factor * value, terms)
        atom = self._atom(expr)
        if not atom.text.startswith("%"):
            return int(atom.text) * factor
        terms[atom] = terms.get(atom, 0) + factor
        return 0

    def _atom(self, expr: PrimExpr) -> Value:
        match expr:
            case Var() if expr in self.env and self.env[expr].type == "i64":
                return self.env[expr]
            case FloorDiv() | FloorMod() | Div() | Mod() if expr.dtype.is_int:
                a, b = self.index(expr.a), self.index(expr.b)
                return self.int_division(type(expr), a, b, signed=True)
            case Mul() if expr.dtype.is_int:
                return self.int_op("mul nsw", self.index(expr.a), self.index(expr.b))
            case Min() | Max() if expr.dtype.is_int:
                name = "smin" if isinstance(expr, Min) else "smax"
                return self.intrinsic(name, DType("int64"), self.index(expr.a), self.index(expr.b))
            case Cast() if expr.dtype.is_int and expr.value.dtype.is_int and is_index(expr.value):
                return self.index(expr.value)
        value = self.value(expr)
        if value.type == "i64":
            return value
        extend = "sext" if expr.dtype.is_int else "zext"
        return self.emitter.pure("i64", f"{extend} {value} to i64", (value,))

    def sum_of(self, terms: dict[Value, int]) -> Value | None:
        """The sum, outermost values first so that each partial sum is hoisted as far as it can."""
        total: Value | None = None
        for value, factor in sorted(terms.items(), key=lambda item: item[0].depth):
            part = value
            if factor != 1:
                part = self.int_op("mul nsw", value, Value("i64", str(factor)))
            total = part if total is None else self.int_op("add nsw", total, part)
        return total


def is_index(expr: PrimExpr) -> bool:
    """True for integer arithmetic on variables and constants: it does not overflow by contract."""
    if isinstance(expr, (Var, IntImm)):
        return expr.dtype.is_int and expr.dtype.lanes == 1
    if isinstance(expr, _INDEX_NODES):
        return is_index(expr.a) and is_index(expr.b)
    return isinstance(expr, Cast) and expr.dtype.is_int and is_index(expr.value)

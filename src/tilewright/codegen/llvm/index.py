"""Index arithmetic in 64 bits.

Loop variables are 64-bit, and so is everything computed from them: no sign extension stands between
a loop and its addresses. An index is kept as a sum of terms; its constant part is split off, so
that it ends up in the addressing mode. Signed arithmetic of 32 bits or more on loop variables,
sizes and constants does not overflow, by contract of TensorIR; all other arithmetic wraps in its
own type.
"""

from __future__ import annotations

from tilewright.codegen.llvm.division import DivisionBuilder
from tilewright.codegen.llvm.emitter import Value
from tilewright.ir import (
    INT64,
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
    SizeVar,
    Sub,
    Var,
)

_INDEX_NODES = (Add, Sub, Mul, FloorDiv, FloorMod, Div, Mod, Min, Max)
_KEEP_SIGN = (Add, Mul, FloorDiv, FloorMod, Div, Mod, Min, Max)


def has_index_type(dtype: DType) -> bool:
    """True for the types that indices have."""
    return dtype.lanes == 1 and dtype.code == "int" and dtype.bits >= 32


def _depth_of_term(term: tuple[Value, int]) -> int:
    return term[0].depth


class IndexBuilder(DivisionBuilder):
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
        if has_index_type(expr.dtype):
            constant = self._add_terms(expr, 1, terms)
        else:
            constant = self._add_atom(expr, 1, terms)
        if 0 in terms.values():
            terms = {value: factor for value, factor in terms.items() if factor}
        return terms, constant

    def _add_terms(self, expr: PrimExpr, factor: int, terms: dict[Value, int]) -> int:
        """Add the terms of an expression of an index type; its constant part is the result."""
        match expr:
            case IntImm():
                return expr.value * factor
            case Add():
                left = self._add_terms(expr.a, factor, terms)
                return left + self._add_terms(expr.b, factor, terms)
            case Sub():
                left = self._add_terms(expr.a, factor, terms)
                return left + self._add_terms(expr.b, -factor, terms)
            case Mul(a=a, b=IntImm(value=value)) | Mul(a=IntImm(value=value), b=a):
                return self._add_terms(a, factor * value, terms)
            case Cast(value=inner) if self.is_index(expr):
                return self._add_terms(inner, factor, terms)
        return self._add_atom(expr, factor, terms)

    def _add_atom(self, expr: PrimExpr, factor: int, terms: dict[Value, int]) -> int:
        atom = self._atom(expr)
        if atom.text.lstrip("-").isdigit():
            return int(atom.text) * factor
        terms[atom] = terms.get(atom, 0) + factor
        return 0

    def _atom(self, expr: PrimExpr) -> Value:
        if isinstance(expr, Var) and expr in self.env and self.env[expr].type == "i64":
            return self.env[expr]
        if self.is_index(expr):
            match expr:
                case FloorDiv() | FloorMod() | Div() | Mod():
                    return self.divide(
                        expr,
                        self.index(expr.a),
                        self.index(expr.b),
                        a_natural=self.is_natural(expr.a),
                        b_natural=self.is_natural(expr.b),
                    )
                case Mul():
                    return self.int_op("mul nsw", self.index(expr.a), self.index(expr.b))
                case Min() | Max():
                    name = "smin" if isinstance(expr, Min) else "smax"
                    return self.intrinsic(name, INT64, self.index(expr.a), self.index(expr.b))
        value = self.value(expr)
        if value.type == "i64":
            return value
        extend = "sext" if expr.dtype.is_int else "zext"
        if value.text.isdigit():
            return Value("i64", value.text)
        return self.convert(extend, value, "i64")

    def sum_of(self, terms: dict[Value, int]) -> Value | None:
        """The sum, outermost values first so that each partial sum is hoisted as far as it can."""
        total: Value | None = None
        parts = sorted(terms.items(), key=_depth_of_term) if len(terms) > 1 else terms.items()
        for value, factor in parts:
            part = value
            if factor != 1:
                part = self.int_op("mul nsw", value, Value("i64", str(factor)))
            total = part if total is None else self.int_op("add nsw", total, part)
        return total

    def is_index(self, expr: PrimExpr) -> bool:
        """True for arithmetic on index variables and constants, which does not overflow."""
        if not has_index_type(expr.dtype):
            return False
        if isinstance(expr, Var):
            return expr in self.env and self.env[expr].type == "i64"
        if isinstance(expr, _INDEX_NODES):
            return self.is_index(expr.a) and self.is_index(expr.b)
        if isinstance(expr, Cast):
            return expr.dtype.bits >= expr.value.dtype.bits and self.is_index(expr.value)
        return isinstance(expr, IntImm)

    def is_natural(self, expr: PrimExpr) -> bool:
        """True when an integer is known not to be negative."""
        if expr.dtype.is_uint:
            return True
        match expr:
            case IntImm():
                return expr.value >= 0
            case Var():
                return isinstance(expr, SizeVar) or expr in self.nonnegative
            case Cast() if has_index_type(expr.dtype):
                return self.is_index(expr) and self.is_natural(expr.value)
        if isinstance(expr, _KEEP_SIGN) and self.is_index(expr):
            return self.is_natural(expr.a) and self.is_natural(expr.b)
        return False

    def leave_scope(self, var: Var, outer: Value | None) -> None:
        """`var` stands again for what it stood for outside, if for anything."""
        if outer is None:
            self.env.pop(var, None)
        else:
            self.env[var] = outer

    def bind(self, var: Var, expr: PrimExpr) -> None:
        """Let `var` stand for the value of `expr`."""
        if has_index_type(var.dtype) and self.is_index(expr):
            self.env[var] = self.index(expr)
            if self.is_natural(expr):
                self.nonnegative.add(var)
            else:
                self.nonnegative.discard(var)
        else:
            self.env[var] = self.value(expr)

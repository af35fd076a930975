"""Index arithmetic in 64 bits.

Loop variables are 64-bit, and so is everything computed from them: no sign extension stands between
a loop and its addresses. An index is kept as a sum of terms; its constant part is split off, so
that it ends up in the addressing mode. Signed arithmetic of 32 bits or more on loop variables,
sizes and constants does not overflow, by contract of TensorIR; all other arithmetic wraps in its
own type.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeAlias

from tilewright import ir
from tilewright.codegen.llvm.context import ModuleContext
from tilewright.codegen.llvm.division import DivisionBuilder
from tilewright.codegen.llvm.emitter import FunctionEmitter, Region, Value

_INDEX_NODES = (ir.Add, ir.Sub, ir.Mul, ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod, ir.Min, ir.Max)
_KEEP_SIGN = (ir.Add, ir.Mul, ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod, ir.Min, ir.Max)


def has_index_type(dtype: ir.DType) -> bool:
    """True for the types that indices have."""
    return dtype.lanes == 1 and dtype.code == "int" and dtype.bits >= 32


# A constant and atoms with their factors.
FlatSum: TypeAlias = tuple[int, tuple[tuple[ir.PrimExpr, int], ...]]


def _flatten(expr: ir.PrimExpr, factor: int, terms: list[tuple[ir.PrimExpr, int]]) -> int:
    """Collect the terms of an expression of an index type; its constant part is the result."""
    match expr:
        case ir.IntImm():
            return expr.value * factor
        case ir.Add():
            return _flatten(expr.a, factor, terms) + _flatten(expr.b, factor, terms)
        case ir.Sub():
            return _flatten(expr.a, factor, terms) + _flatten(expr.b, -factor, terms)
        case ir.Mul(a=a, b=ir.IntImm(value=value)) | ir.Mul(a=ir.IntImm(value=value), b=a):
            return _flatten(a, factor * value, terms)
    terms.append((expr, factor))
    return 0


def _is_repeatable(node: ir.Node) -> bool:
    """True if an expression has the same value wherever its variables have theirs.

    One that reads memory or calls something has not, nor one whose evaluation checks a divisor.
    """
    match node:
        case ir.BufferLoad() | ir.Call():
            return False
        case ir.Div() | ir.Mod() | ir.FloorDiv() | ir.FloorMod() if not isinstance(
            node.b, ir.IntImm
        ):
            return False
    return all(map(_is_repeatable, ir.children(node)))


class IndexBuilder(DivisionBuilder):
    """Emits scalar integer expressions as 64-bit values."""

    def __init__(self, context: ModuleContext, emitter: FunctionEmitter) -> None:
        super().__init__(context, emitter)
        self._flat_sums: dict[ir.PrimExpr, FlatSum] = {}
        self._atom_variables: dict[ir.PrimExpr, list[ir.Var] | None] = {}
        self._remembered: dict[Hashable, tuple[Value, Region]] = {}

    def remembered(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """A pure value, computed once for as long as the region that defines it is open."""
        regions = self.emitter.regions
        found = self._remembered.get(key)
        if found is not None:
            value, region = found
            if value.depth < len(regions) and regions[value.depth] is region:
                return value
        value = compute()
        self._remembered[key] = (value, regions[value.depth])
        return value

    def index(self, expr: ir.PrimExpr) -> Value:
        """A scalar integer in 64 bits."""
        terms, constant = self.linear(expr)
        total = self.sum_of(terms)
        if total is None:
            return Value("i64", str(constant))
        if constant == 0:
            return total
        return self.int_op("add nsw", total, Value("i64", str(constant)))

    def linear(self, expr: ir.PrimExpr) -> tuple[dict[Value, int], int]:
        """An index as a sum of values with constant factors, plus a constant."""
        constant, flat = self._flattened(expr)
        terms: dict[Value, int] = {}
        for atom, factor in flat:
            if type(atom) is ir.Cast and self.is_index(atom):
                inner, offset = self.linear(atom.value)
                constant += offset * factor
                for value, inner_factor in inner.items():
                    terms[value] = terms.get(value, 0) + inner_factor * factor
                continue
            value = self._known_atom(atom)
            if value.text[0] == "%":
                terms[value] = terms.get(value, 0) + factor
            else:
                constant += int(value.text) * factor
        if 0 in terms.values():
            terms = {value: factor for value, factor in terms.items() if factor}
        return terms, constant

    def _flattened(self, expr: ir.PrimExpr) -> FlatSum:
        """The sum that an index is; found once, since unrolled code asks for it again and again."""
        flat = self._flat_sums.get(expr)
        if flat is None:
            terms: list[tuple[ir.PrimExpr, int]] = []
            constant = _flatten(expr, 1, terms) if has_index_type(expr.dtype) else None
            flat = (0, ((expr, 1),)) if constant is None else (constant, tuple(terms))
            self._flat_sums[expr] = flat
        return flat

    def _known_atom(self, atom: ir.PrimExpr) -> Value:
        """The value of an atom; one that depends on nothing but variables is computed once."""
        if type(atom) is ir.Var:
            value = self.env.get(atom)
            if value is not None and value.type == "i64":
                return value
        if atom not in self._atom_variables:
            self._atom_variables[atom] = ir.free_vars(atom) if _is_repeatable(atom) else None
        variables = self._atom_variables[atom]
        if variables is None:
            return self._atom(atom)
        env = self.env
        key = (atom, *(env[var].text if var in env else "" for var in variables))
        return self.remembered(key, lambda: self._atom(atom))

    def _atom(self, expr: ir.PrimExpr) -> Value:
        if isinstance(expr, ir.Var) and expr in self.env and self.env[expr].type == "i64":
            return self.env[expr]
        if self.is_index(expr):
            match expr:
                case ir.FloorDiv() | ir.FloorMod() | ir.Div() | ir.Mod():
                    return self.divide(
                        expr,
                        self.index(expr.a),
                        self.index(expr.b),
                        a_natural=self.is_natural(expr.a),
                        b_natural=self.is_natural(expr.b),
                    )
                case ir.Mul():
                    return self.int_op("mul nsw", self.index(expr.a), self.index(expr.b))
                case ir.Min() | ir.Max():
                    name = "smin" if isinstance(expr, ir.Min) else "smax"
                    return self.intrinsic(name, ir.INT64, self.index(expr.a), self.index(expr.b))
        value = self.value(expr)
        if value.type == "i64":
            return value
        extend = "sext" if expr.dtype.is_int else "zext"
        if value.text.isdigit():
            return Value("i64", value.text)
        return self.convert(extend, value, "i64")

    def sum_of(self, terms: dict[Value, int]) -> Value | None:
        """The sum, outermost values first so that each partial sum is hoisted as far as it can."""
        return self.remembered(tuple(terms.items()), lambda: self._sum(terms)) if terms else None

    def _sum(self, terms: dict[Value, int]) -> Value:
        total: Value | None = None
        for value, factor in sorted(terms.items(), key=lambda term: term[0].depth):
            part = value
            if factor != 1:
                part = self.int_op("mul nsw", value, Value("i64", str(factor)))
            total = part if total is None else self.int_op("add nsw", total, part)
        assert total is not None
        return total

    def is_index(self, expr: ir.PrimExpr) -> bool:
        """True for arithmetic on index variables and constants, which does not overflow."""
        if not has_index_type(expr.dtype):
            return False
        if isinstance(expr, ir.Var):
            return expr in self.env and self.env[expr].type == "i64"
        if isinstance(expr, _INDEX_NODES):
            return self.is_index(expr.a) and self.is_index(expr.b)
        if isinstance(expr, ir.Cast):
            return expr.dtype.bits >= expr.value.dtype.bits and self.is_index(expr.value)
        return isinstance(expr, ir.IntImm)

    def is_natural(self, expr: ir.PrimExpr) -> bool:
        """True when an integer is known not to be negative."""
        if expr.dtype.is_uint:
            return True
        match expr:
            case ir.IntImm():
                return expr.value >= 0
            case ir.Var():
                return isinstance(expr, ir.SizeVar) or expr in self.nonnegative
            case ir.Cast() if has_index_type(expr.dtype):
                return self.is_index(expr) and self.is_natural(expr.value)
        if isinstance(expr, _KEEP_SIGN) and self.is_index(expr):
            return self.is_natural(expr.a) and self.is_natural(expr.b)
        return False

    def leave_scope(self, var: ir.Var, outer: Value | None) -> None:
        """`var` stands again for what it stood for outside, if for anything."""
        if outer is None:
            self.env.pop(var, None)
        else:
            self.env[var] = outer

    def bind(self, var: ir.Var, expr: ir.PrimExpr) -> None:
        """Let `var` stand for the value of `expr`."""
        if has_index_type(var.dtype) and self.is_index(expr):
            self.env[var] = self.index(expr)
            if self.is_natural(expr):
                self.nonnegative.add(var)
            else:
                self.nonnegative.discard(var)
        else:
            self.env[var] = self.value(expr)

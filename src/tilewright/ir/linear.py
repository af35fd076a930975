"""Linear forms: integers as constant + coefficients × atoms, so that differences cancel."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from tilewright.ir import nodes as ir
from tilewright.ir.node import Node


def structural_key(value: Any) -> Hashable:
    """Equal for expressions that are equal up to sharing; variables count by identity."""
    if isinstance(value, tuple):
        return tuple(map(structural_key, value))
    if not isinstance(value, ir.PrimExpr):
        return value if not isinstance(value, Node) else id(value)
    if not value.child_fields and not isinstance(value, ir.IntImm):
        return id(value)
    return (type(value), *(structural_key(getattr(value, f)) for f in value.__struct_fields__))


class Linear:
    """`constant + Σ coefficient · atom`, where atoms are expressions of any other kind."""

    __slots__ = ("constant", "dtype", "terms")

    def __init__(
        self,
        dtype: ir.DType,
        constant: int = 0,
        terms: dict[Hashable, tuple[ir.PrimExpr, int]] | None = None,
    ) -> None:
        self.dtype = dtype
        self.constant = constant
        self.terms = terms or {}

    @staticmethod
    def of(expr: ir.PrimExpr) -> Linear:
        """The linear form of an expression."""
        dtype = expr.dtype
        match expr:
            case ir.IntImm(value=value):
                return Linear(dtype, value)
            case ir.Add(a=a, b=b):
                return Linear.of(a).plus(Linear.of(b))
            case ir.Sub(a=a, b=b):
                return Linear.of(a).plus(Linear.of(b).times(-1))
            case ir.Mul(a=a, b=ir.IntImm(value=factor)) | ir.Mul(a=ir.IntImm(value=factor), b=a):
                return Linear.of(a).times(factor)
        return Linear(dtype, 0, {structural_key(expr): (expr, 1)})

    def plus(self, other: Linear | int) -> Linear:
        if isinstance(other, int):
            return Linear(self.dtype, self.constant + other, self.terms)
        terms = dict(self.terms)
        for key, (atom, factor) in other.terms.items():
            total = factor + (terms[key][1] if key in terms else 0)
            terms[key] = (atom, total)
            if not total:
                del terms[key]
        return Linear(self.dtype, self.constant + other.constant, terms)

    def times(self, factor: int) -> Linear:
        if not factor:
            return Linear(self.dtype)
        terms = {key: (atom, value * factor) for key, (atom, value) in self.terms.items()}
        return Linear(self.dtype, self.constant * factor, terms)

    def minus(self, other: Linear) -> Linear:
        return self.plus(other.times(-1))

    @property
    def value(self) -> int | None:
        """The number, if it is one."""
        return None if self.terms else self.constant

    def expr(self) -> ir.PrimExpr:
        """An expression with this value."""
        result: ir.PrimExpr = ir.const(0, self.dtype)
        for atom, factor in self.terms.values():
            if factor >= 0:
                result = result + atom * factor
            else:
                result = result - atom * -factor
        return result + self.constant if self.constant >= 0 else result - -self.constant

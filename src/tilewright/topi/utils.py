"""Shapes as numbers, for code that works with both."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.arith import Analyzer
from tilewright.errors import TensorExpressionError
from tilewright.ir import ExprLike, IntImm, PrimExpr, convert


def simplify(expr: ExprLike) -> PrimExpr:
    """An expression in its simplest form."""
    return Analyzer().simplify(convert(expr))


def get_const_int(expr: ExprLike) -> int:
    """The number that an expression is."""
    value = simplify(expr)
    if not isinstance(value, IntImm):
        raise TensorExpressionError(f"expected a constant integer, got `{expr}`")
    return value.value


def get_const_tuple(in_tuple: Iterable[ExprLike]) -> tuple[int | PrimExpr, ...]:
    """Extents as numbers; those that are symbolic stay."""
    values = [simplify(item) for item in in_tuple]
    return tuple(value.value if isinstance(value, IntImm) else value for value in values)

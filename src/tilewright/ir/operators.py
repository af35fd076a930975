"""Python's operators on expressions.

What they do (types meet, constants fold) is written in `ir/arithmetic.py`, which builds nodes that
have these operators; it puts its functions into the table `builders` when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from tilewright.errors import IRError
from tilewright.ir.node import Node

if TYPE_CHECKING:
    from tilewright.ir.expr import PrimExpr

ExprLike: TypeAlias = Union["ExprOperators", int, float, bool]
_Unary: TypeAlias = "Callable[[Any], PrimExpr]"
_Binary: TypeAlias = "Callable[[ExprLike, ExprLike], PrimExpr]"


class Builders:
    """The function behind each operator."""

    convert: _Unary
    invert: _Unary
    cast: Callable[[str, ExprLike], PrimExpr]
    bitwise: Callable[[str, ExprLike, ExprLike], PrimExpr]
    add: _Binary
    subtract: _Binary
    multiply: _Binary
    divide: _Binary
    floordiv: _Binary
    floormod: _Binary
    equal: _Binary
    not_equal: _Binary
    less: _Binary
    less_equal: _Binary
    greater: _Binary
    greater_equal: _Binary


builders = Builders()


class ExprOperators(Node, frozen=True):
    """Python's operators, for expressions and for whatever `convert` turns into one."""

    def astype(self, dtype: str) -> PrimExpr:
        """This value converted to `dtype`."""
        return builders.cast(dtype, self)

    def asobject(self) -> PrimExpr:
        """The expression that this object stands for."""
        raise NotImplementedError(type(self).__name__)

    def equal(self, other: ExprLike) -> PrimExpr:
        return builders.equal(self, other)

    def __add__(self, other: ExprLike) -> PrimExpr:
        return builders.add(self, other)

    def __radd__(self, other: ExprLike) -> PrimExpr:
        return builders.add(other, self)

    def __sub__(self, other: ExprLike) -> PrimExpr:
        return builders.subtract(self, other)

    def __rsub__(self, other: ExprLike) -> PrimExpr:
        return builders.subtract(other, self)

    def __mul__(self, other: ExprLike) -> PrimExpr:
        return builders.multiply(self, other)

    def __rmul__(self, other: ExprLike) -> PrimExpr:
        return builders.multiply(other, self)

    def __truediv__(self, other: ExprLike) -> PrimExpr:
        return builders.divide(self, other)

    def __rtruediv__(self, other: ExprLike) -> PrimExpr:
        return builders.divide(other, self)

    def __floordiv__(self, other: ExprLike) -> PrimExpr:
        return builders.floordiv(self, other)

    def __rfloordiv__(self, other: ExprLike) -> PrimExpr:
        return builders.floordiv(other, self)

    def __mod__(self, other: ExprLike) -> PrimExpr:
        return builders.floormod(self, other)

    def __rmod__(self, other: ExprLike) -> PrimExpr:
        return builders.floormod(other, self)

    def __neg__(self) -> PrimExpr:
        # Not `0 - x`, which would lose the sign of a zero.
        return builders.multiply(self, -1)

    def __lt__(self, other: ExprLike) -> PrimExpr:
        return builders.less(self, other)

    def __le__(self, other: ExprLike) -> PrimExpr:
        return builders.less_equal(self, other)

    def __gt__(self, other: ExprLike) -> PrimExpr:
        return builders.greater(self, other)

    def __ge__(self, other: ExprLike) -> PrimExpr:
        return builders.greater_equal(self, other)

    def __eq__(self, other: object) -> PrimExpr:  # type: ignore[override]
        if isinstance(other, (ExprOperators, int, float)):
            return builders.equal(self, other)
        return NotImplemented

    def __ne__(self, other: object) -> PrimExpr:  # type: ignore[override]
        if isinstance(other, (ExprOperators, int, float)):
            return builders.not_equal(self, other)
        return NotImplemented

    # Two nodes with one hash are one node, so sets and dicts never ask `==`.
    __hash__ = object.__hash__

    def __and__(self, other: ExprLike) -> PrimExpr:
        return builders.bitwise("tir.bitwise_and", self, other)

    def __rand__(self, other: ExprLike) -> PrimExpr:
        return builders.bitwise("tir.bitwise_and", other, self)

    def __or__(self, other: ExprLike) -> PrimExpr:
        return builders.bitwise("tir.bitwise_or", self, other)

    def __ror__(self, other: ExprLike) -> PrimExpr:
        return builders.bitwise("tir.bitwise_or", other, self)

    def __xor__(self, other: ExprLike) -> PrimExpr:
        return builders.bitwise("tir.bitwise_xor", self, other)

    def __rxor__(self, other: ExprLike) -> PrimExpr:
        return builders.bitwise("tir.bitwise_xor", other, self)

    def __lshift__(self, other: ExprLike) -> PrimExpr:
        return builders.bitwise("tir.shift_left", self, other)

    def __rlshift__(self, other: ExprLike) -> PrimExpr:
        return builders.bitwise("tir.shift_left", other, self)

    def __rshift__(self, other: ExprLike) -> PrimExpr:
        return builders.bitwise("tir.shift_right", self, other)

    def __rrshift__(self, other: ExprLike) -> PrimExpr:
        return builders.bitwise("tir.shift_right", other, self)

    def __invert__(self) -> PrimExpr:
        return builders.invert(self)

    def __bool__(self) -> bool:
        raise IRError(
            f"the symbolic expression `{self}` has no truth value while the program is being built;"
            " use T.if_then_else / T.Select for a value that depends on it, `is` to compare nodes"
        )

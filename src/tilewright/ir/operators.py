"""Python's operators on expressions.

What they do (types meet, constants fold) is written in `ir/arithmetic.py`, which builds nodes that
have these operators; when it is imported, it sets the operators and fills the table `builders`.
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
_Binary: TypeAlias = "Callable[[Any, ExprLike], PrimExpr]"


class Builders:
    """The functions behind operators that need more than a call."""

    convert: _Unary
    cast: Callable[[str, ExprLike], PrimExpr]
    equal: _Binary
    not_equal: _Binary


builders = Builders()


class ExprOperators(Node, frozen=True):
    """Python's operators, for expressions and for whatever `convert` turns into one."""

    if TYPE_CHECKING:  # set by `ir/arithmetic.py`

        def _binary(self, other: ExprLike) -> PrimExpr: ...
        def __neg__(self) -> PrimExpr: ...

        __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = _binary
        __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = _binary
        __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = _binary
        __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = _binary
        __lt__ = __le__ = __gt__ = __ge__ = equal = _binary
        __invert__ = __neg__

    def astype(self, dtype: str) -> PrimExpr:
        """This value converted to `dtype`."""
        return builders.cast(dtype, self)

    def asobject(self) -> PrimExpr:
        """The expression that this object stands for."""
        raise NotImplementedError(type(self).__name__)

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

    def __bool__(self) -> bool:
        raise IRError(
            f"the symbolic expression `{self}` has no truth value while the program is being built;"
            " use T.if_then_else / T.Select for a value that depends on it, `is` to compare nodes"
        )

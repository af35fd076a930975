"""Index arithmetic in 64 bits becomes arithmetic in 32 bits where no value can be too large."""

from __future__ import annotations

from typing import Any

from tilewright.errors import LowerError
from tilewright.ir import (
    INT32,
    INT64,
    BinaryOp,
    BufferLoad,
    BufferStore,
    Cast,
    CmpOp,
    For,
    IntImm,
    Node,
    PrimExpr,
    PrimFunc,
    Ramp,
    Range,
    Var,
    cast,
    const,
    map_tuple,
    replace,
    updated,
)
from tilewright.ir.folding import fold_binary
from tilewright.ir.patterns import walk
from tilewright.lowering.analyzing_rewriter import AnalyzingRewriter
from tilewright.lowering.base import FunctionPass, register_pass
from tilewright.target import Target

_LIMIT = 2**31


class _Narrower(AnalyzingRewriter):
    """Loop variables that fit get 32 bits; so does every index made of such variables."""

    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func)
        self._narrow: dict[Var, Var] = {}

    def _fits(self, expr: PrimExpr) -> bool:
        bound = self.analyzer.const_int_bound(expr)
        return bound.min_value >= -_LIMIT and bound.max_value < _LIMIT

    def visit_for(self, node: For) -> Any:
        if node.loop_var.dtype is not INT64:
            return super().visit_for(node)
        self.analyzer.bind(node.loop_var, Range(node.min, node.extent), allow_override=True)
        start, extent = self._index(node.min), self._index(node.extent)
        fits = self._fits(node.loop_var) and self._fits(node.extent)
        if not fits or start.dtype is not INT32 or extent.dtype is not INT32:
            start, extent = cast(INT64, start), cast(INT64, extent)
            return replace(node, min=start, extent=extent, body=self.visit(node.body))
        loop_var = self._narrow[node.loop_var] = Var(node.loop_var.name, INT32)
        body = self.visit(node.body)
        return replace(node, loop_var=loop_var, min=start, extent=extent, body=body)

    def visit_var(self, node: Var) -> PrimExpr:
        narrow = self._narrow.get(node)
        return node if narrow is None else Cast(INT64, narrow)

    def visit_buffer_store(self, node: BufferStore) -> Any:
        value = self.visit(node.value)
        return self.visit_buffer_load(updated(node, value=value))

    def visit_buffer_load(self, node: BufferLoad | BufferStore) -> Any:
        indices = map_tuple(node.indices, self._index)
        predicate = None if node.predicate is None else self.visit(node.predicate)
        return updated(node, indices=indices, predicate=predicate)

    def visit_cmp_op(self, node: CmpOp) -> Any:
        if node.a.dtype is INT64:
            a, b = self._in_32_bits(node.a), self._in_32_bits(node.b)
            if a is not None and b is not None:
                return type(node)(a, b)
        return self.generic_visit(node)

    def _index(self, expr: PrimExpr) -> PrimExpr:
        narrow = self._in_32_bits(expr)
        if narrow is not None:
            return narrow
        wide: PrimExpr = self.visit(expr)
        return wide

    def _in_32_bits(self, expr: PrimExpr) -> PrimExpr | None:
        """An int64 expression in 32 bits, or None if it might not fit."""
        match expr:
            case IntImm() if expr.dtype is INT64:
                fits = -_LIMIT <= expr.value < _LIMIT
                return const(expr.value, INT32) if fits else None
            case Var():
                return self._narrow.get(expr)
            case Cast(value=value) if expr.dtype is INT64 and value.dtype is INT32:
                narrow: PrimExpr = self.visit(value)
                return narrow
            case Ramp(base=base, stride=stride) if base.dtype is INT64:
                parts = self._in_32_bits(base), self._in_32_bits(stride)
                if parts[0] is None or parts[1] is None or not self._fits(expr):
                    return None
                return Ramp(parts[0], parts[1], expr.lanes)
            case BinaryOp(a=a, b=b) if expr.dtype is INT64:
                left, right = self._in_32_bits(a), self._in_32_bits(b)
                if left is None or right is None or not self._fits(expr):
                    return None
                return fold_binary(type(expr), left, right)
        return None


def _is_wide(node: Node) -> bool:
    """True for loops that count in 64 bits, and for constants of that type."""
    if isinstance(node, For):
        return node.loop_var.dtype is INT64
    return isinstance(node, IntImm) and node.dtype is INT64


@register_pass
class NarrowDataType(FunctionPass):
    """Compute indices in 32 bits where all values provably fit."""

    target_bits: int = 32

    def __post_init__(self) -> None:
        if self.target_bits != 32:
            raise LowerError(
                f"NarrowDataType: indices become 32 bits wide, got target_bits={self.target_bits}"
            )

    def run_function(self, func: PrimFunc, target: Target | None = None) -> PrimFunc:
        if not any(map(_is_wide, walk(func.body))):
            return func
        return func.with_body(_Narrower(func).rewrite(func.body))

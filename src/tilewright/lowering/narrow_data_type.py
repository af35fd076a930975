"""Index arithmetic in 64 bits becomes arithmetic in 32 bits where no value can be too large."""

from __future__ import annotations

from tilewright import ir
from tilewright.errors import LowerError
from tilewright.ir.arithmetic import fold_binary
from tilewright.lowering.analyzing_rewriter import AnalyzingRewriter
from tilewright.lowering.base import FunctionPass, register_pass
from tilewright.target import Target

_LIMIT = 2**31


class _Narrower(AnalyzingRewriter):
    """Loop variables that fit get 32 bits; so does every index made of such variables."""

    def __init__(self, func: ir.PrimFunc) -> None:
        super().__init__(func)
        self._narrow: dict[ir.Var, ir.Var] = {}

    def _fits(self, expr: ir.PrimExpr) -> bool:
        bound = self.analyzer.const_int_bound(expr)
        return bound.min_value >= -_LIMIT and bound.max_value < _LIMIT

    def visit_for(self, node: ir.For) -> ir.Stmt:
        if node.loop_var.dtype is not ir.INT64:
            return super().visit_for(node)
        self.analyzer.bind(node.loop_var, ir.Range(node.min, node.extent), allow_override=True)
        start, extent = self._index(node.min), self._index(node.extent)
        fits = self._fits(node.loop_var) and self._fits(node.extent)
        if not fits or start.dtype is not ir.INT32 or extent.dtype is not ir.INT32:
            start, extent = ir.cast(ir.INT64, start), ir.cast(ir.INT64, extent)
            return ir.replace(node, min=start, extent=extent, body=self.visit(node.body))
        loop_var = self._narrow[node.loop_var] = ir.Var(node.loop_var.name, ir.INT32)
        body = self.visit(node.body)
        return ir.replace(node, loop_var=loop_var, min=start, extent=extent, body=body)

    def visit_var(self, node: ir.Var) -> ir.PrimExpr:
        narrow = self._narrow.get(node)
        return node if narrow is None else ir.Cast(ir.INT64, narrow)

    def visit_buffer_store(self, node: ir.BufferStore) -> ir.Node:
        value = self.visit(node.value)
        return self.visit_buffer_load(ir.updated(node, value=value))

    def visit_buffer_load(self, node: ir.BufferLoad | ir.BufferStore) -> ir.Node:
        indices = ir.map_tuple(node.indices, self._index)
        predicate = None if node.predicate is None else self.visit(node.predicate)
        return ir.updated(node, indices=indices, predicate=predicate)

    def visit_cmp_op(self, node: ir.CmpOp) -> ir.PrimExpr:
        if node.a.dtype is ir.INT64:
            a, b = self._in_32_bits(node.a), self._in_32_bits(node.b)
            if a is not None and b is not None:
                return type(node)(a, b)
        return ir.map_children(node, self.visit)

    def _index(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        narrow = self._in_32_bits(expr)
        return self.rewrite(expr) if narrow is None else narrow

    def _in_32_bits(self, expr: ir.PrimExpr) -> ir.PrimExpr | None:
        """An int64 expression in 32 bits, or None if it might not fit."""
        match expr:
            case ir.IntImm() if expr.dtype is ir.INT64:
                fits = -_LIMIT <= expr.value < _LIMIT
                return ir.const(expr.value, ir.INT32) if fits else None
            case ir.Var():
                return self._narrow.get(expr)
            case ir.Cast(value=value) if expr.dtype is ir.INT64 and value.dtype is ir.INT32:
                return self.rewrite(value)
            case ir.Ramp(base=base, stride=stride) if base.dtype is ir.INT64:
                parts = self._in_32_bits(base), self._in_32_bits(stride)
                if parts[0] is None or parts[1] is None or not self._fits(expr):
                    return None
                return ir.Ramp(parts[0], parts[1], expr.lanes)
            case ir.BinaryOp(a=a, b=b) if expr.dtype is ir.INT64:
                left, right = self._in_32_bits(a), self._in_32_bits(b)
                if left is None or right is None or not self._fits(expr):
                    return None
                return fold_binary(type(expr), left, right)
        return None


@register_pass
class NarrowDataType(FunctionPass):
    """Compute indices in 32 bits where all values provably fit."""

    target_bits: int = 32

    def __post_init__(self) -> None:
        if self.target_bits != 32:
            raise LowerError(
                f"NarrowDataType narrows indices to 32 bits, got target_bits={self.target_bits}"
            )

    def run_function(self, func: ir.PrimFunc, target: Target | None = None) -> ir.PrimFunc:
        numbers = (
            node.loop_var if isinstance(node, ir.For) else node
            for node in ir.walk(func.body)
            if isinstance(node, ir.For | ir.IntImm)
        )
        if not any(number.dtype is ir.INT64 for number in numbers):
            return func
        return func.with_body(_Narrower(func).rewrite(func.body))

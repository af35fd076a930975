"""The same function with all its indices of one type."""

from __future__ import annotations

from typing import Any

from tilewright import ir
from tilewright.errors import TensorExpressionError
from tilewright.ir.clone import Cloner


def with_index_dtype(func: ir.PrimFunc, dtype: str) -> ir.PrimFunc:
    """`func` with loops, iterators, extents and indices that were int32 in another type."""
    kind = ir.DType(dtype)
    if kind not in (ir.INT32, ir.INT64):
        raise TensorExpressionError(f"indices are int32 or int64, not {dtype!r}")
    retyper = _Retyper(kind)
    buffer_map = {param: retyper.define_buffer(buffer) for param, buffer in func.buffer_map.items()}
    return ir.replace(func, buffer_map=buffer_map, body=retyper.rewrite(func.body))


class _Retyper(Cloner):
    """Indices get the new type, values keep theirs."""

    def _with_new_vars(self, buffer: ir.Buffer) -> ir.Buffer:
        made = super()._with_new_vars(buffer)
        shape = ir.map_tuple(made.shape, self._widened)
        return made if shape is made.shape else ir.replace(made, shape=shape)

    def visit_buffer_load(self, node: ir.BufferLoad) -> Any:
        made = super().visit_buffer_load(node)
        return ir.replace(made, indices=ir.map_tuple(made.indices, self._widened))

    def visit_buffer_store(self, node: ir.BufferStore) -> Any:
        made = super().visit_buffer_store(node)
        value = ir.cast(node.value.dtype, made.value)
        return ir.replace(made, indices=ir.map_tuple(made.indices, self._widened), value=value)

    def visit_range(self, node: ir.Range) -> ir.Range:
        made = ir.map_children(node, self.visit)
        return ir.replace(made, min=self._widened(made.min), extent=self._widened(made.extent))

    def visit_block_realize(self, node: ir.BlockRealize) -> Any:
        made = ir.map_children(node, self.visit)
        return ir.replace(made, iter_values=ir.map_tuple(made.iter_values, self._widened))

    def visit_call(self, node: ir.Call) -> Any:
        return ir.replace(node, args=ir.map_tuple(node.args, self._value))

    def visit_select(self, node: ir.Select) -> Any:
        return ir.map_children(node, self._value)

    def _value(self, expr: ir.PrimExpr) -> ir.PrimExpr:
        return ir.cast(expr.dtype, self.visit(expr))

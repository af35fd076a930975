"""The same function with all its indices of one type."""

from __future__ import annotations

from typing import Any

from tilewright.errors import TensorExpressionError
from tilewright.ir import (
    INT32,
    INT64,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    DType,
    PrimExpr,
    PrimFunc,
    Range,
    Select,
    cast,
    map_children,
    map_tuple,
    replace,
)
from tilewright.ir.clone import Cloner


def with_index_dtype(func: PrimFunc, dtype: str) -> PrimFunc:
    """`func` with loops, iterators, extents and indices that were int32 in another type."""
    kind = DType(dtype)
    if kind not in (INT32, INT64):
        raise TensorExpressionError(f"indices are int32 or int64, not {dtype!r}")
    retyper = _Retyper(kind)
    buffer_map = {param: retyper.define_buffer(buffer) for param, buffer in func.buffer_map.items()}
    return replace(func, buffer_map=buffer_map, body=retyper.rewrite(func.body))


class _Retyper(Cloner):
    """Indices get the new type, values keep theirs."""

    def _with_new_vars(self, buffer: Buffer) -> Buffer:
        made = super()._with_new_vars(buffer)
        shape = map_tuple(made.shape, self._widened)
        return made if shape is made.shape else replace(made, shape=shape)

    def visit_buffer_load(self, node: BufferLoad) -> Any:
        made = super().visit_buffer_load(node)
        return replace(made, indices=map_tuple(made.indices, self._widened))

    def visit_buffer_store(self, node: BufferStore) -> Any:
        made = super().visit_buffer_store(node)
        value = cast(node.value.dtype, made.value)
        return replace(made, indices=map_tuple(made.indices, self._widened), value=value)

    def visit_range(self, node: Range) -> Range:
        made = map_children(node, self.visit)
        return replace(made, min=self._widened(made.min), extent=self._widened(made.extent))

    def visit_block_realize(self, node: BlockRealize) -> Any:
        made = map_children(node, self.visit)
        return replace(made, iter_values=map_tuple(made.iter_values, self._widened))

    def visit_call(self, node: Call) -> Any:
        return replace(node, args=map_tuple(node.args, self._value))

    def visit_select(self, node: Select) -> Any:
        return map_children(node, self._value)

    def _value(self, expr: PrimExpr) -> PrimExpr:
        return cast(expr.dtype, self.visit(expr))

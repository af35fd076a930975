"""`create_prim_func`: a graph of tensors as one TensorIR function.

Operations are emitted in post order from the argument list: each becomes its own loop nest around
one block. Tensors that are not arguments are allocated in the root block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import ir
from tilewright.errors import TensorExpressionError
from tilewright.ir.annotation_keys import LAYOUT_FREE_BUFFERS, LAYOUT_FREE_PLACEHOLDERS
from tilewright.ir.clone import Cloner
from tilewright.support.nesting import nested_deeply
from tilewright.te.emit import OpEmitter, emit_operation
from tilewright.te.tensor import Operation, PlaceholderOp, Tensor


@nested_deeply(TensorExpressionError, "the tensor expression")
def create_prim_func(
    ops: Sequence[Tensor | ir.Var] | Tensor, index_dtype_override: str | None = None
) -> ir.PrimFunc:
    """The function that computes the tensors among `ops` that are not placeholders.

    Its parameters are `ops` in order; variables become scalar parameters. With
    `index_dtype_override` loops, extents and indices are of that type.
    """
    arguments: Sequence[Tensor | ir.Var] = (ops,) if isinstance(ops, Tensor) else tuple(ops)
    _check_arguments(arguments)
    tensors = [argument for argument in arguments if isinstance(argument, Tensor)]
    order = _post_order([tensor.op for tensor in tensors])
    _check_placeholders(order, set(tensors))

    emitter = OpEmitter()
    params: list[ir.Var] = []
    buffer_map = {}
    for argument in arguments:
        if isinstance(argument, ir.Var):
            params.append(argument)
            continue
        param = ir.Var(f"var_{argument.name}", ir.HANDLE)
        params.append(param)
        buffer_map[param] = emitter.declare(argument)
    body = ir.seq(
        [emit_operation(op, emitter) for op in order if not isinstance(op, PlaceholderOp)]
    )
    root = ir.Block((), (), (), "root", body, alloc_buffers=tuple(emitter.allocated))
    free = {tensor for op in order for tensor in op.attrs.get(LAYOUT_FREE_PLACEHOLDERS, ())}
    positions = [i for i, argument in enumerate(arguments) if argument in free]
    layout_free = {LAYOUT_FREE_BUFFERS: positions} if positions else {}
    attrs = {"global_symbol": "main", **layout_free, "tir.noalias": True}
    func = ir.PrimFunc(tuple(params), ir.root_realize(root), buffer_map, attrs)
    return func if index_dtype_override is None else with_index_dtype(func, index_dtype_override)


def _check_arguments(arguments: Sequence[Tensor | ir.Var]) -> None:
    seen: set[Tensor | ir.Var] = set()
    for position, argument in enumerate(arguments):
        if not isinstance(argument, (Tensor, ir.Var)):
            raise TensorExpressionError(
                f"create_prim_func: argument {position} is a {type(argument).__name__}, "
                "expected a tensor or a variable"
            )
        if argument in seen:
            raise TensorExpressionError(
                f"create_prim_func: {argument.name} is given twice (argument {position}); "
                "the parameters of a function must not alias"
            )
        seen.add(argument)


def _check_placeholders(order: Sequence[Operation], arguments: set[Tensor]) -> None:
    for op in order:
        if isinstance(op, PlaceholderOp) and op.output(0) not in arguments:
            raise TensorExpressionError(
                f"create_prim_func: placeholder {op.name} is read but is not among the arguments"
            )


def _post_order(roots: Sequence[Operation]) -> list[Operation]:
    """All operations the roots need, producers first; iterative, since graphs may be deep."""
    order: dict[Operation, None] = {}
    for root in roots:
        stack = [(root, iter(root.input_tensors))]
        while stack:
            op, inputs = stack[-1]
            following = next((t.op for t in inputs if t.op not in order), None)
            if following is not None:
                stack.append((following, iter(following.input_tensors)))
                continue
            stack.pop()
            order.setdefault(op)
    return list(order)


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

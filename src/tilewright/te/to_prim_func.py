"""`create_prim_func`: a graph of tensors as one TensorIR function.

Operations are emitted in post order from the argument list: each becomes its own loop nest around
one block. Tensors that are not arguments are allocated in the root block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors import TensorExpressionError
from tilewright.ir import HANDLE, Block, PrimFunc, Var, root_realize, seq
from tilewright.ir.annotation_keys import LAYOUT_FREE_BUFFERS, LAYOUT_FREE_PLACEHOLDERS
from tilewright.support.nesting import nested_deeply
from tilewright.te.emit import OpEmitter, emit_operation
from tilewright.te.index_dtype import with_index_dtype
from tilewright.te.tensor import Operation, PlaceholderOp, Tensor


@nested_deeply(TensorExpressionError, "the tensor expression")
def create_prim_func(
    ops: Sequence[Tensor | Var] | Tensor, index_dtype_override: str | None = None
) -> PrimFunc:
    """The function that computes the tensors among `ops` that are not placeholders.

    Its parameters are `ops` in order; variables become scalar parameters. With
    `index_dtype_override` loops, extents and indices are of that type.
    """
    arguments: Sequence[Tensor | Var] = (ops,) if isinstance(ops, Tensor) else tuple(ops)
    _check_arguments(arguments)
    tensors = [argument for argument in arguments if isinstance(argument, Tensor)]
    order = _post_order([tensor.op for tensor in tensors])
    _check_placeholders(order, set(tensors))

    emitter = OpEmitter()
    params: list[Var] = []
    buffer_map = {}
    for argument in arguments:
        if isinstance(argument, Var):
            params.append(argument)
            continue
        param = Var(f"var_{argument.name}", HANDLE)
        params.append(param)
        buffer_map[param] = emitter.declare(argument)
    body = seq([emit_operation(op, emitter) for op in order if not isinstance(op, PlaceholderOp)])
    root = Block((), (), (), "root", body, alloc_buffers=tuple(emitter.allocated))
    attrs = _function_attrs(order, arguments)
    func = PrimFunc(tuple(params), root_realize(root), buffer_map, attrs)
    return func if index_dtype_override is None else with_index_dtype(func, index_dtype_override)


def _check_arguments(arguments: Sequence[Tensor | Var]) -> None:
    seen: set[Tensor | Var] = set()
    for position, argument in enumerate(arguments):
        if not isinstance(argument, (Tensor, Var)):
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


def _function_attrs(
    order: Sequence[Operation], arguments: Sequence[Tensor | Var]
) -> dict[str, Any]:
    free = {tensor for op in order for tensor in op.attrs.get(LAYOUT_FREE_PLACEHOLDERS, ())}
    positions = [i for i, argument in enumerate(arguments) if argument in free]
    layout_free = {LAYOUT_FREE_BUFFERS: positions} if positions else {}
    return {"global_symbol": "main", **layout_free, "tir.noalias": True}

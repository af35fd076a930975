"""Calls that PyTorch computes itself, as external nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.byoc.torch_operators import InputPosition, encode_call
from tilewright.errors import GraphError, IRError
from tilewright.graph import GraphBuilder, GraphValue, TensorType
from tilewright.graph.external import add_external
from tilewright.ir import DType


def add_eager_call(builder: GraphBuilder, node: Any, translated: Callable[[Any], Any]) -> Any:
    """The results of a call, which PyTorch computes; several as a tuple, as PyTorch has them."""
    inputs: list[GraphValue] = []

    def positions(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [positions(item) for item in value]
        if isinstance(value, GraphValue):
            if value not in inputs:
                inputs.append(value)
            return InputPosition(inputs.index(value))
        return value

    name = str(node.target)
    what = f"{name.removeprefix('aten.')} ({node.name})"
    args = [positions(translated(value)) for value in node.args]
    kwargs = {word: positions(translated(value)) for word, value in node.kwargs.items()}
    program = encode_call(name, args, kwargs)
    results = node.meta["val"]
    several = isinstance(results, (tuple, list))
    tensors = [one for one in (results if several else [results]) if hasattr(one, "dtype")]
    if not tensors:
        raise GraphError(f"{what} returns no tensor")
    types = [(node.name, static_type(one, what)) for one in tensors]
    made = iter(add_external(builder, "torch", program, inputs, types, node.name))
    if not several:
        return next(made)
    return tuple(next(made) if hasattr(one, "dtype") else one for one in results)


def static_type(tensor: Any, name: str) -> TensorType:
    """The type of what a call returns, unless it depends on data."""
    try:
        shape = tuple(int(extent) for extent in tensor.shape)
    except Exception as error:  # of PyTorch's own: a size that depends on data
        raise GraphError(f"the shape of what {name} returns is known only when it runs") from error
    dtype = str(tensor.dtype).removeprefix("torch.")
    try:
        return TensorType(shape, str(DType(dtype)))
    except IRError:
        raise GraphError(
            f"{name} returns elements of type {dtype}, which is not supported"
        ) from None

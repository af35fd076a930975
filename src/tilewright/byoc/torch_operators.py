"""Operators that PyTorch computes: a call as JSON is the program."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.byoc.external import ExternalFunction, ExternalPart, external_backends
from tilewright.errors import GraphError
from tilewright.graph.graph import Array


def array_of(tensor: Any) -> Array:
    """The numbers of a tensor on the CPU; shared, if they lie there in order."""
    import torch

    plain = tensor.detach().cpu().contiguous().resolve_conj().resolve_neg()
    if plain.dtype is torch.bfloat16:
        import ml_dtypes

        made: Array = plain.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
        return made
    try:
        return np.asarray(plain.numpy())
    except TypeError as error:
        raise GraphError(f"elements of type {plain.dtype} are not supported") from error


def tensor_of(array: Array) -> Any:
    """The same numbers as a tensor that shares the memory."""
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def encode_call(op: str, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """A call as text; values of the graph are written as `{"input": position}`."""
    try:
        return json.dumps({"op": op, "args": _encoded(args), "kwargs": _encoded(kwargs)})
    except TypeError as error:
        raise GraphError(f"{op} has an argument that cannot be written down: {error}") from error


class InputPosition(int):
    """An argument that is an input of the external node."""


def _encoded(value: Any) -> Any:
    import torch

    match value:
        case InputPosition():
            return {"input": int(value)}
        case list() | tuple():
            return [_encoded(item) for item in value]
        case dict():
            return {word: _encoded(item) for word, item in value.items()}
        case torch.dtype() | torch.layout() | torch.memory_format():
            return {"torch": str(value).removeprefix("torch.")}
        case torch.device():
            return {"device": str(value)}
        case _:
            return value


def _decoded(value: Any, tensors: Sequence[Any]) -> Any:
    import torch

    match value:
        case {"input": position}:
            return tensors[position]
        case {"torch": name}:
            return getattr(torch, name)
        case {"device": name}:
            return torch.device(name)
        case list():
            return [_decoded(item, tensors) for item in value]
        case _:
            return value


@external_backends.register("torch")
def run_in_torch(part: ExternalPart) -> ExternalFunction:
    """A call of an operator of PyTorch, without gradients."""
    try:
        import torch
    except ImportError:
        raise GraphError(f"{part.name}: running it needs the package torch") from None
    call = json.loads(part.program)
    operator: Any = torch.ops
    for word in call["op"].split("."):
        operator = getattr(operator, word)
    known = {position: tensor_of(np.array(array)) for position, array in part.constants.items()}

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        given = iter(arrays)
        tensors = [
            known[n] if n in known else tensor_of(np.asarray(next(given)))
            for n in range(len(part.inputs))
        ]
        with torch.no_grad():
            words = {word: _decoded(v, tensors) for word, v in call["kwargs"].items()}
            made = operator(*_decoded(call["args"], tensors), **words)
        results = made if isinstance(made, (tuple, list)) else (made,)
        return [array_of(result) for result in results if isinstance(result, torch.Tensor)]

    return run

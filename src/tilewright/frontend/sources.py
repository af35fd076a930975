"""Graphs from whatever a model is given as: a graph, a file, or a module of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.errors import GraphError
from tilewright.frontend.onnx import import_onnx
from tilewright.graph import Graph

_KINDS = (
    "a Graph, an ONNX model (its path, its bytes or a ModelProto), a program of torch.export, or "
    "a torch.nn.Module with its inputs: (module, inputs)"
)


def load_graph(
    source: Any,
    inputs: Sequence[Any] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    partial: bool = False,
) -> Graph:
    """The graph of a model.

    `dims` and `shapes` give sizes to what an ONNX model leaves open; a module of PyTorch needs
    `inputs`, or `shapes` for inputs of float32. With `partial`, operators that cannot be imported
    are computed by others, and a warning lists them.
    """
    match source:
        case Graph():
            return source
        case str() | Path() | bytes():
            return import_onnx(source, dims, shapes, partial=partial)
        case (module, given) if is_torch_module(module):
            return load_graph(module, given, shapes=shapes, partial=partial)
    if is_onnx(source):
        return import_onnx(source, dims, shapes, partial=partial)
    if is_exported(source):
        from tilewright.frontend.torch import import_exported

        return import_exported(source, partial=partial)
    if is_torch_module(source):
        from tilewright.frontend.torch import import_module

        given = example_inputs(source, inputs, shapes or {})
        return import_module(source, given, partial=partial)
    raise GraphError(f"a model is {_KINDS}; got {type(source).__name__}")


def is_model(source: object) -> bool:
    """True for values that `load_graph` takes, paths and bytes left out."""
    if isinstance(source, tuple) and len(source) == 2:
        return is_torch_module(source[0])
    is_plain = isinstance(source, Graph) or is_onnx(source)
    return is_plain or is_exported(source) or is_torch_module(source)


def is_onnx(value: object) -> bool:
    """Whether it is a model of ONNX in memory, without importing ONNX."""
    return _has_base(value, "onnx.onnx_ml_pb2", "ModelProto")


def is_torch_module(value: object) -> bool:
    """Whether PyTorch made it, without importing PyTorch."""
    return _has_base(value, "torch.nn.modules.module", "Module")


def is_exported(value: object) -> bool:
    """A program that `torch.export` made."""
    return _has_base(value, "torch.export.exported_program", "ExportedProgram")


def _has_base(value: object, module: str, name: str) -> bool:
    return any(kind.__module__ == module and kind.__name__ == name for kind in type(value).__mro__)


def example_inputs(
    module: Any, inputs: Sequence[Any] | None, shapes: Mapping[str, Sequence[int]]
) -> tuple[Any, ...]:
    """What a module of PyTorch is traced with."""
    import torch

    if inputs is not None:
        return (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
    if not shapes:
        raise GraphError(
            f"the shapes of the inputs of {type(module).__name__} are not known: give the module "
            "with its inputs, (module, inputs), or their shapes"
        )
    return tuple(torch.zeros(tuple(shape)) for shape in shapes.values())

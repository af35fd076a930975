"""From a program of `torch.export` to a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.errors import GraphError
from tilewright.frontend.torch import converters
from tilewright.frontend.torch.context import CallContext, find_converter
from tilewright.graph import Graph, GraphBuilder, GraphValue, TensorType

# Kept whole: kernels of ours compute them better than what they are made of.
KEPT = (
    "scaled_dot_product_attention.default", "linear.default", "silu.default",
    "layer_norm.default", "conv2d.default", "conv1d.default", "conv3d.default",
    "adaptive_avg_pool2d.default", "gelu.default", "hardswish.default", "hardsigmoid.default",
    "max_pool2d.default", "batch_norm.default", "softmax.int",
)  # fmt: skip

del converters  # imported for what it registers


def import_module(
    module: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> Graph:
    """A graph of a `torch.nn.Module`, for inputs of the shapes of `args`."""
    torch = _torch()
    with torch.no_grad():
        exported = torch.export.export(module.eval(), tuple(args), dict(kwargs or {}), strict=False)
    return import_exported(exported)


def import_graph_module(module: Any, inputs: Sequence[Any], frozen: Sequence[int]) -> Graph:
    """A graph of what `torch.compile` found; the inputs at some positions become constants."""
    torch = _torch()
    with torch.no_grad():
        exported = torch.export.export(module, tuple(inputs), strict=False)
    return import_exported(exported, {n: inputs[n] for n in frozen})


def import_exported(exported: Any, constants: Mapping[int, Any] | None = None) -> Graph:
    """A graph of a program that `torch.export` made; `constants` are inputs by position."""
    torch = _torch()
    table = torch.export.default_decompositions()
    for name in KEPT:
        word, _, overload = name.partition(".")
        table.pop(getattr(getattr(torch.ops.aten, word), overload), None)
    with torch.no_grad():
        return _Importer(exported.run_decompositions(table), constants or {}).graph()


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise GraphError("importing PyTorch's models needs the package torch") from None
    return torch


class _Importer:
    def __init__(self, exported: Any, constants: Mapping[int, Any]) -> None:
        self._exported = exported
        self._given = constants
        self._inputs = 0  # met so far
        self._builder = GraphBuilder("main")
        self._made: dict[Any, Any] = {}

    def graph(self) -> Graph:
        nodes = list(self._exported.graph.nodes)
        self._refuse_unknown(nodes)
        specs = {spec.arg.name: spec for spec in self._exported.graph_signature.input_specs}
        outputs: list[GraphValue] = []
        for node in nodes:
            if node.op == "placeholder":
                self._made[node] = self._placeholder(node, specs[node.name])
            elif node.op == "call_function":
                self._made[node] = self._call(node)
            elif node.op == "output":
                outputs = [self._made[one] for one in self._user_outputs(node)]
        return self._builder.graph(outputs)

    def _user_outputs(self, node: Any) -> list[Any]:
        kinds = [spec.kind.name for spec in self._exported.graph_signature.output_specs]
        return [one for one, kind in zip(node.args[0], kinds, strict=True) if kind == "USER_OUTPUT"]

    def _placeholder(self, node: Any, spec: Any) -> Any:
        if spec.kind.name == "USER_INPUT":
            position, self._inputs = self._inputs, self._inputs + 1
            if position in self._given:
                return self._builder.constant(_array_of(self._given[position]), node.name)
            value = node.meta.get("val")
            if not hasattr(value, "shape"):
                return value
            return self._builder.input(node.name, _type_of(value))
        exported = self._exported
        stores = (exported.state_dict, exported.constants)
        tensor = next(store[spec.target] for store in stores if spec.target in store)
        return self._builder.constant(_array_of(tensor), node.name)

    def _refuse_unknown(self, nodes: Sequence[Any]) -> None:
        missing: dict[str, int] = {}
        for node in nodes:
            if node.op == "call_function" and not _is_plain(node):
                name = _name_of(node)
                if find_converter(name) is None:
                    missing[name] = missing.get(name, 0) + 1
        if missing:
            listed = ", ".join(f"{name} ({count})" for name, count in sorted(missing.items()))
            raise GraphError(f"operators that cannot be imported yet: {listed}")

    def _call(self, node: Any) -> Any:
        if _is_plain(node):
            return self._plain(node)
        name = _name_of(node)
        converter = find_converter(name)
        assert converter is not None
        results = node.meta["val"]
        first = results[0] if isinstance(results, (tuple, list)) else results
        args = self._arguments(node)
        args["result_shape"] = [int(n) for n in first.shape]
        if isinstance(results, (tuple, list)):
            args["result_shapes"] = [[int(n) for n in one.shape] for one in results]
        dtype = str(first.dtype).removeprefix("torch.")
        return converter(CallContext(self._builder, name, node.name, args, dtype))

    def _plain(self, node: Any) -> Any:
        """Picking one of several results, checks, and arithmetic on sizes."""
        name = getattr(node.target, "__name__", str(node.target))
        if name == "getitem":
            return self._made[node.args[0]][node.args[1]]
        return None

    def _arguments(self, node: Any) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for argument, value in zip(node.target._schema.arguments, node.args, strict=False):
            given[argument.name] = self._translated(value)
        for word, value in node.kwargs.items():
            given[word] = self._translated(value)
        for argument in node.target._schema.arguments:
            if argument.name not in given and argument.has_default_value():
                given[argument.name] = argument.default_value
        return given

    def _translated(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._translated(item) for item in value]
        return self._made[value] if hasattr(value, "op") and value in self._made else value


def _is_plain(node: Any) -> bool:
    return not hasattr(node.target, "_schema") or "_assert" in str(node.target)


def _name_of(node: Any) -> str:
    return str(node.target).removeprefix("aten.")


def _type_of(tensor: Any) -> TensorType:
    shape = tuple(int(extent) for extent in tensor.shape)
    return TensorType(shape, str(tensor.dtype).removeprefix("torch."))


def _array_of(tensor: Any) -> Any:
    plain = tensor.detach().cpu().contiguous()
    name = str(plain.dtype).removeprefix("torch.")
    if name == "bfloat16":
        import ml_dtypes

        return plain.view(_torch().uint16).numpy().view(ml_dtypes.bfloat16)
    return np.asarray(plain.numpy())

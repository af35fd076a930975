"""The nodes of a graph, a function or a body, run in order on values by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import GraphError, TilewrightError
from tilewright.frontend.onnx.context import NodeContext, UnknownValueError, find_converter
from tilewright.frontend.onnx.dependencies import needed_nodes
from tilewright.frontend.onnx.folding import FOLDED, folded
from tilewright.frontend.onnx.functions import check_types, function_of, has_function
from tilewright.frontend.onnx.loading import tensor_of
from tilewright.frontend.onnx.reference import References
from tilewright.graph import GraphBuilder, GraphValue
from tilewright.graph.graph import Array

DEFAULT_DOMAINS = ("", "ai.onnx")
# What converters run into if numbers in a model make no sense.
_MISTAKES = (TilewrightError, ValueError, TypeError, LookupError, ArithmeticError)


@dataclass
class NodeScope:
    """What nodes see: values by name, their own and those around them."""

    builder: GraphBuilder
    versions: Mapping[str, int]
    folder: Path | None
    values: dict[str, GraphValue] = field(default_factory=dict)
    prefix: str = ""
    references: References | None = None  # compute what cannot be imported
    allows_nan: bool = False  # in weights

    def run(self, nodes: Sequence[Any], outputs: Sequence[str]) -> None:
        """The nodes that outputs depend on, in their order."""
        self._check_order(nodes)
        for number, node in needed_nodes(nodes, outputs):
            self._node(node, _name_of(node, number, self.prefix))

    def outputs(self, names: Sequence[str], reader: str) -> tuple[GraphValue, ...]:
        """Values by name."""
        return tuple(self._found(name, reader) for name in names)

    def body(self, graph: Any, inputs: Sequence[GraphValue], name: str) -> tuple[GraphValue, ...]:
        """The outputs of a graph inside a node, which sees what is outside of it."""
        inner = replace(self, values=dict(self.values), prefix=f"{name}.")
        inner.add_initializers(graph.initializer, graph.node)
        inner.values.update(zip((given.name for given in graph.input), inputs, strict=False))
        wanted = [output.name for output in graph.output]
        inner.run(graph.node, wanted)
        return inner.outputs(wanted, name)

    def add_initializers(self, tensors: Sequence[Any], nodes: Sequence[Any]) -> None:
        """Constants that are stored with a graph, for its nodes."""
        readers = _readers(nodes, self.prefix)
        for tensor in tensors:
            reader = readers.get(tensor.name)
            try:
                array = tensor_of(tensor, self.folder)
            except GraphError as error:
                raise GraphError(f"{reader}: {error}" if reader else str(error)) from error
            if reader:
                self._check_numbers(array, f"{reader}: its weight {tensor.name!r}")
            self.values[tensor.name] = self.builder.constant(array, tensor.name or "w")

    def version(self, domain: str) -> int:
        """The version of a domain's operators."""
        if domain in DEFAULT_DOMAINS:
            return max(self.versions.get(name, 0) for name in DEFAULT_DOMAINS)
        return self.versions.get(domain, 1)

    def can_import(self, node: Any) -> bool:
        """True if there is a way to import a node."""
        version = self.version(node.domain)
        is_default = node.domain in DEFAULT_DOMAINS
        if is_default and (node.op_type in FOLDED or node.op_type == "Constant"):
            return True
        converter = find_converter(node.op_type, version, node.domain)
        return converter is not None or has_function(node.op_type, version, node.domain)

    # --- nodes ----------------------------------------------------------------------------------

    def _check_order(self, nodes: Sequence[Any]) -> None:
        makers = {word: n for n, node in enumerate(nodes) for word in node.output if word}
        for number, node in enumerate(nodes):
            for word in filter(None, node.input):
                if word in self.values:
                    continue
                if word not in makers:
                    self._found(word, f"{node.op_type} ({_name_of(node, number, self.prefix)})")
                elif makers[word] >= number:
                    raise GraphError(
                        f"{node.op_type} ({node.name or number}) reads {word!r}, which a later "
                        "node makes: the nodes are not in order, or form a cycle"
                    )

    def _node(self, node: Any, name: str) -> None:
        what = f"{node.op_type} ({name})"
        inputs = tuple(self._found(word, what) if word else None for word in node.input)
        check_types(node, self.version(node.domain), inputs, what)
        count = len(self.builder.nodes)
        try:
            made = self._made(node, inputs, name)
        except UnknownValueError as error:
            if self.references is None or (self.references.asks_for_values and error.inputs):
                raise
            made = self._by_reference(node, name, str(error))
        except _MISTAKES as error:
            text = str(error) if isinstance(error, TilewrightError) else f"{error!r}"
            text = text if text.startswith(what) else f"{what}: {text}"
            if self.references is None:
                raise GraphError(text) from error
            del self.builder.nodes[count:]  # what a converter began with
            made = self._by_reference(node, name, text)
            if self.can_import(node) and not self.references.can_run(made):
                raise GraphError(text) from error
        for word, value in zip(node.output, made, strict=False):
            if word and value is not None:
                self.values[word] = value

    def _by_reference(self, node: Any, name: str, why: str) -> Sequence[GraphValue | None]:
        assert self.references is not None
        try:
            made = self.references.add(self.builder, node, self.values, name, self.versions)
        except TilewrightError as error:
            raise GraphError(f"{why}; by reference: {error}") from error
        self.references.refused[name] = why
        return made

    def _made(
        self, node: Any, inputs: Sequence[GraphValue | None], name: str
    ) -> Sequence[GraphValue | None]:
        if node.op_type == "Constant":
            return (self._constant(node, name),)
        known = folded(self.builder, node, inputs, self.versions)
        if known is not None:
            return [self.builder.constant(result, name) for result in known]
        version = self.version(node.domain)
        converter = find_converter(node.op_type, version, node.domain)
        if converter is not None:
            result = converter(self._context(node, inputs, name, version))
            return (result,) if isinstance(result, GraphValue) else tuple(result)
        return self._expanded(node, inputs, name)

    def _context(
        self, node: Any, inputs: Sequence[GraphValue | None], name: str, version: int
    ) -> NodeContext:
        from onnx import helper

        attrs = {a.name: _decoded(helper.get_attribute_value(a)) for a in node.attribute}
        outputs = tuple(node.output)
        return NodeContext(
            self.builder, node.op_type, name, version, tuple(inputs), attrs, outputs, self.body
        )

    def _expanded(
        self, node: Any, inputs: Sequence[GraphValue | None], name: str
    ) -> Sequence[GraphValue | None]:
        function = function_of(node, self.version(node.domain), inputs)
        if function is None:
            can = "can be imported only if its inputs are known"
            why = can if node.op_type in FOLDED else "cannot be imported yet"
            raise GraphError(f"{node.op_type} ({name}) {why}")
        versions = {entry.domain: entry.version for entry in function.opset_import}
        inner = replace(
            self, versions={**self.versions, **versions}, folder=None, values={}, prefix=f"{name}.",
            allows_nan=True,
        )  # fmt: skip
        for word, value in zip(function.input, inputs, strict=False):
            if value is not None:
                inner.values[word] = value
        absent = {word for word in function.input if word not in inner.values}
        for part in function.node:
            part.input[:] = ["" if word in absent else word for word in part.input]
        wanted = [word for word, outer in zip(function.output, node.output, strict=False) if outer]
        inner.run(function.node, wanted)
        found = dict(zip(wanted, inner.outputs(wanted, name), strict=True))
        return [found.get(word) for word in function.output]

    def _constant(self, node: Any, name: str) -> GraphValue:
        from onnx import TensorProto, helper

        (attribute,) = node.attribute
        value = helper.get_attribute_value(attribute)
        if attribute.name == "value" and isinstance(value, TensorProto):
            array = tensor_of(value, self.folder)
            self._check_numbers(array, f"Constant ({name})")
            return self.builder.constant(array, name)
        dtypes = {"value_float": "float32", "value_floats": "float32",
                  "value_int": "int64", "value_ints": "int64"}  # fmt: skip
        if attribute.name not in dtypes:
            raise GraphError(f"Constant ({name}): {attribute.name} is not supported")
        return self.builder.constant(np.asarray(value, dtypes[attribute.name]), name)

    def _check_numbers(self, array: Array, what: str) -> None:
        if not self.allows_nan and _has_nan(array):
            raise GraphError(f"{what} contains NaN; pass allow_nan=True to import it anyway")

    def _found(self, word: str, reader: str) -> GraphValue:
        if word not in self.values:
            raise GraphError(f"{reader} reads {word!r}, which nothing before it makes")
        return self.values[word]


def _name_of(node: Any, number: int, prefix: str = "") -> str:
    return f"{prefix}{node.name or f'{node.op_type}_{number}'}"


def _readers(nodes: Sequence[Any], prefix: str) -> dict[str, str]:
    """For the names that nodes and the graphs inside of them read, who reads them first."""
    found: dict[str, str] = {}
    for number, node in enumerate(nodes):
        name = _name_of(node, number, prefix)
        for word in node.input:
            found.setdefault(word, f"{node.op_type} ({name})")
        for attribute in node.attribute:
            found = _readers(attribute.g.node, f"{name}.") | found
    return found


def _has_nan(array: Array) -> bool:
    # The smallest of some numbers is NaN if one of them is.
    return array.size > 0 and array.dtype.kind in "fV" and bool(np.isnan(np.min(array)))


def _decoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (list, tuple)) or type(value).__name__.startswith("Repeated"):
        return [_decoded(item) for item in value]
    return value

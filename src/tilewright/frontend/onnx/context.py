"""A node of an ONNX model as converters see it, and the table of converters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np

from tilewright.errors import GraphError
from tilewright.graph import GraphBuilder, GraphValue, TensorType
from tilewright.graph.graph import Array
from tilewright.graph.operator import has_operator

Converter: TypeAlias = "Callable[[NodeContext], GraphValue | Sequence[GraphValue]]"

_CONVERTERS: dict[str, dict[int, Converter]] = {}


def converts(*names: str, since: int = 1, domain: str = "") -> Callable[[Converter], Converter]:
    """Decorator: how an operator is said in ours, from a version of its domain's operators on."""

    def add(converter: Converter) -> Converter:
        for name in names:
            _CONVERTERS.setdefault(_key(name, domain), {})[since] = converter
        return converter

    return add


def find_converter(name: str, version: int, domain: str = "") -> Converter | None:
    """The converter for an operator in a version of its domain's operators.

    Without one, an operator of graphs that is called as `domain.name` serves as it is.
    """
    known = _CONVERTERS.get(_key(name, domain), {})
    fitting = [since for since in known if since <= version]
    if fitting:
        return known[max(fitting)]
    own = _key(name, domain)
    return _as_it_is(own) if "." in own and has_operator(own) else None


def _key(name: str, domain: str) -> str:
    return name if domain in ("", "ai.onnx") else f"{domain}.{name}"


def _as_it_is(name: str) -> Converter:
    return lambda node: node.calls(name, *node.inputs, **node.attrs)


class UnknownValueError(GraphError):
    """Numbers that decide about shapes are known only when the model runs.

    `inputs` are the positions of the graph's inputs from which they are computed.
    """

    def __init__(self, message: str, inputs: Sequence[int]) -> None:
        super().__init__(message)
        self.inputs = tuple(inputs)


@dataclass(frozen=True)
class NodeContext:
    """Inputs, attributes and version of a node; calls made here become nodes of the graph."""

    builder: GraphBuilder
    op_type: str
    source: str
    version: int
    inputs: tuple[GraphValue | None, ...]
    attrs: dict[str, Any]
    result_names: tuple[str, ...]
    # The outputs of a graph that is an attribute: its inputs and the name of the node.
    run_body: Callable[[Any, Sequence[GraphValue], str], tuple[GraphValue, ...]]

    def __getitem__(self, position: int) -> GraphValue:
        """An input that must be there."""
        value = self.optional(position)
        if value is None:
            raise GraphError(f"{self.op_type} ({self.source}): input {position} is missing")
        return value

    def optional(self, position: int) -> GraphValue | None:
        """An input that may be left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    def known(self, position: int) -> Array | None:
        """The numbers of an input that has to be known when the model is imported."""
        value = self.optional(position)
        if value is None:
            return None
        if value not in self.builder.constants:
            self.unknown(value, "decides about shapes")
        return self.builder.constants[value]

    def unknown(self, value: GraphValue, why: str) -> NoReturn:
        """Raise an error about a value that has to be known when the model is imported."""
        raise UnknownValueError(
            f"{self.op_type} ({self.source}): {value.name} {why}, but is known only when the "
            "model runs",
            _sources(self.builder, value),
        )

    def integers(self, position: int, attribute: str | None = None) -> list[int] | None:
        """Integers from an input or, in older versions, from an attribute."""
        if attribute is not None and attribute in self.attrs:
            given = self.attrs[attribute]
            return [int(n) for n in (given if isinstance(given, (list, tuple)) else [given])]
        numbers = self.known(position)
        return None if numbers is None else [int(n) for n in np.asarray(numbers).reshape(-1)]

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute, or its default."""
        return self.attrs.get(name, default)

    def graph(self, name: str) -> Any:
        """An attribute that is a graph."""
        if not hasattr(self.attrs.get(name), "node"):
            raise GraphError(f"{self.op_type} ({self.source}): it has no graph {name}")
        return self.attrs[name]

    def call(self, op: str, *inputs: GraphValue | None, **attrs: Any) -> GraphValue:
        """The only result of an operator of ours."""
        return self.builder.call(op, *inputs, source=self.source, **attrs)

    def calls(self, op: str, *inputs: GraphValue | None, **attrs: Any) -> tuple[GraphValue, ...]:
        """All results of an operator of ours."""
        return self.builder.calls(op, inputs, attrs, source=self.source)

    def constant(self, value: Any, dtype: str) -> GraphValue:
        """A number or an array as a value."""
        return self.builder.constant(np.asarray(value, dtype), f"{self.op_type.lower()}_c")

    def shape(self, value: GraphValue) -> list[int]:
        """Extents, which must be numbers."""
        if not value.type.is_static:
            raise GraphError(
                f"{self.op_type} ({self.source}): the shape of {value} has to be known; "
                "bind the sizes of the inputs"
            )
        return list(value.type.extents)

    def type(self, position: int) -> TensorType:
        """The type of an input."""
        return self[position].type


def _sources(builder: GraphBuilder, value: GraphValue) -> list[int]:
    """The positions of the inputs that a value is computed from."""
    makers = {made: node for node in builder.nodes for made in node.outputs}
    seen: set[GraphValue] = set()
    pending = [value]
    while pending:
        one = pending.pop()
        if one not in seen:
            seen.add(one)
            pending += makers[one].operands if one in makers else ()
    return [position for position, given in enumerate(builder.inputs) if given in seen]

"""A model as a graph: calls of operators on typed values, in an order in which they can run.

Values are named and have exactly one maker: a node, the list of inputs, or a constant. Nothing
here changes in place: passes make new graphs (`rewriting.py`), and share the values that stay.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tilewright import ir
from tilewright.errors import GraphError

Array: TypeAlias = np.ndarray[Any, Any]
Extent: TypeAlias = "int | ir.PrimExpr"  # numbers, or expressions of sizes that are not known yet


@dataclass(frozen=True)
class TensorType:
    """Shape and element type of a value."""

    shape: tuple[Extent, ...]
    dtype: str

    @property
    def is_static(self) -> bool:
        """True if all extents are numbers."""
        return all(isinstance(extent, int) for extent in self.shape)

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape of a static type, as numbers."""
        known = tuple(extent for extent in self.shape if isinstance(extent, int))
        if len(known) != len(self.shape):
            raise GraphError(f"the size of {self} is not known before its extents are bound")
        return known

    @property
    def size(self) -> int:
        """Elements of a static type."""
        return math.prod(self.extents)

    @property
    def bytes(self) -> int:
        """Bytes of a static type."""
        return self.size * ir.DType(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, eq=False)
class GraphValue:
    """One tensor of a graph; two values are the same if they are the same object."""

    name: str
    type: TensorType

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"


@dataclass(frozen=True, eq=False)
class GraphNode:
    """One call of an operator; an optional input that is left out is None."""

    op: str
    inputs: tuple[GraphValue | None, ...]
    outputs: tuple[GraphValue, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""  # what it is called in the model that it came from

    @property
    def operands(self) -> tuple[GraphValue, ...]:
        """The inputs that are there."""
        return tuple(value for value in self.inputs if value is not None)

    def __str__(self) -> str:
        origin = f" ({self.source})" if self.source else ""
        return f"{self.op}{origin}"


@dataclass(frozen=True, eq=False)
class Graph:
    """Inputs, constants, and the calls that make outputs of them."""

    name: str
    inputs: tuple[GraphValue, ...]
    outputs: tuple[GraphValue, ...]
    nodes: tuple[GraphNode, ...]
    constants: Mapping[GraphValue, Array] = field(default_factory=dict)
    # What the model that it came from calls them; without, they are called as their values are.
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = {*self.inputs, *self.constants}
        for node in self.nodes:
            for value in node.operands:
                if value not in known:
                    raise GraphError(
                        f"graph {self.name}: {node} reads {value.name}, which nothing before it "
                        "makes; nodes must come after those that make their inputs"
                    )
            known.update(node.outputs)
        for value in self.outputs:
            if value not in known:
                raise GraphError(f"graph {self.name}: nothing makes the output {value.name}")

    @property
    def named_inputs(self) -> tuple[tuple[str, GraphValue], ...]:
        """The inputs, with the names by which a caller knows them."""
        names = self.input_names or [value.name for value in self.inputs]
        return tuple(zip(names, self.inputs, strict=True))

    @property
    def named_outputs(self) -> tuple[tuple[str, GraphValue], ...]:
        """The outputs, with the names by which a caller knows them."""
        names = self.output_names or [value.name for value in self.outputs]
        return tuple(zip(names, self.outputs, strict=True))

    def makers(self) -> dict[GraphValue, GraphNode]:
        """The node that makes each value; inputs and constants have none."""
        return {value: node for node in self.nodes for value in node.outputs}

    def consumers(self) -> dict[GraphValue, list[GraphNode]]:
        """The nodes that read each value, in order."""
        found: dict[GraphValue, list[GraphNode]] = {value: [] for value in self.values()}
        for node in self.nodes:
            for value in dict.fromkeys(node.operands):
                found[value].append(node)
        return found

    def values(self) -> Iterator[GraphValue]:
        """Inputs, constants and results, each once."""
        yield from self.inputs
        yield from self.constants
        for node in self.nodes:
            yield from node.outputs

    def script(self) -> str:
        """The graph as text, which `parse_graph` reads."""
        from tilewright.graph.printer import print_graph

        return print_graph(self)

    def __str__(self) -> str:
        return self.script()

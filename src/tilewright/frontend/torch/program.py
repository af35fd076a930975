"""A graph of PyTorch's, and how its outputs become results and changes of inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilewright.errors import GraphError
from tilewright.graph import Graph, GraphBuilder, GraphValue


@dataclass(frozen=True)
class GraphOutput:
    """A result that the graph computes."""

    number: int


@dataclass(frozen=True)
class InputView:
    """A result that is a part of an input, seen in another shape; its memory is the input's."""

    position: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int  # in elements, from where the input begins

    def of(self, tensor: Any) -> Any:
        """The view of a tensor."""
        return tensor.as_strided(self.size, self.stride, tensor.storage_offset() + self.offset)


@dataclass(frozen=True)
class PlainResult:
    """A result that is no tensor."""

    value: Any


Result = GraphOutput | InputView | PlainResult


@dataclass(frozen=True)
class TorchProgram:
    """What a function of PyTorch returns, and the inputs that it writes to."""

    graph: Graph
    results: tuple[Result, ...]
    writes: Mapping[int, int]  # positions of inputs, and the outputs of the graph that go there
    values: tuple[GraphValue, ...]  # all results that are tensors, in order

    def whole_graph(self) -> Graph:
        """The graph with a result for an output, if that is all that the program does."""
        if self.writes:
            names = ", ".join(self.graph.outputs[n].name for n in self.writes.values())
            raise GraphError(f"the program writes to its inputs ({names}), which a graph cannot do")
        for number, result in enumerate(self.results):
            if isinstance(result, PlainResult):
                raise GraphError(f"output {number} is {result.value!r}, which is not a tensor")
        return replace(self.graph, outputs=self.values)


def outputs_of(
    exported: Any, builder: GraphBuilder, made: Mapping[Any, Any], positions: Mapping[str, int]
) -> TorchProgram:
    """The program that a graph was built for."""
    nodes = exported.graph.nodes
    (last,) = (node for node in nodes if node.op == "output")
    views = _views_of_inputs(nodes, positions)
    inputs = {positions[n.name]: n for n in nodes if n.op == "placeholder" and n.name in positions}
    numbers: dict[GraphValue, int] = {}
    written: dict[GraphValue, int] = {}
    results: list[Result] = []
    values: list[GraphValue] = []
    for one, spec in zip(last.args[0], exported.graph_signature.output_specs, strict=True):
        value: Any = made.get(one) if hasattr(one, "op") else one
        if spec.kind.name == "USER_INPUT_MUTATION":
            written[value] = positions[spec.target]
            numbers.setdefault(value, len(numbers))
        elif spec.kind.name != "USER_OUTPUT":
            raise GraphError(f"the program writes to {spec.target}; call eval() on the module")
        elif not isinstance(value, GraphValue):
            results.append(PlainResult(value))
        else:
            values.append(value)
            view = views.get(inputs[written[value]] if value in written else one)
            results.append(view or GraphOutput(numbers.setdefault(value, len(numbers))))
    writes = {position: numbers[value] for value, position in written.items()}
    return TorchProgram(builder.graph(list(numbers)), tuple(results), writes, tuple(values))


def _views_of_inputs(nodes: Any, positions: Mapping[str, int]) -> dict[Any, InputView]:
    """Values that share the memory of an input, which a caller may rely on."""
    owners: dict[int, Any] = {}
    views: dict[Any, InputView] = {}
    for node in nodes:
        tensor = node.meta.get("val")
        if not hasattr(tensor, "untyped_storage"):
            continue
        memory = tensor.untyped_storage()._cdata
        if node.op == "placeholder":
            owners[memory] = node
        if memory in owners and owners[memory].name in positions:
            source = owners[memory]
            offset = int(tensor.storage_offset()) - int(source.meta["val"].storage_offset())
            views[node] = InputView(
                positions[source.name], tuple(tensor.shape), tuple(tensor.stride()), offset
            )
    return views

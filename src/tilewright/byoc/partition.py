"""Graphs cut into parts: what matches a backend's patterns becomes external nodes."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.byoc.pattern_table import get_pattern_table
from tilewright.byoc.regions import PartRegion, merge_compiler_regions, merge_composite
from tilewright.errors import GraphError
from tilewright.graph.builder import GraphBuilder
from tilewright.graph.external import add_external, is_external
from tilewright.graph.fusion import FusedGroup
from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.lowering import lower_group
from tilewright.graph.passes.fold_constants import fold_constants
from tilewright.graph.passes.fold_scales import fold_scales
from tilewright.graph.rewriting import with_names_of, without_dead_nodes
from tilewright.schedule.analysis.flops import flop_of


def partition(graph: Graph, backends: str | Sequence[str], min_flop: float = 0.0) -> Graph:
    """A graph whose parts that backends take are external nodes.

    Each node goes to the first backend that has a pattern for it; parts with less than `min_flop`
    operations stay ours.
    """
    names = [backends] if isinstance(backends, str) else list(backends)
    if not names:
        raise GraphError("partition: no backend is given")
    tables = {name: get_pattern_table(name) for name in names}
    plain = without_dead_nodes(fold_constants(fold_scales(fold_constants(graph))))
    regions = merge_compiler_regions(plain, merge_composite(plain, tables))
    kept = [
        region if region.backend and _flop_of(region) >= min_flop else PartRegion(region.nodes)
        for region in regions
    ]
    return partition_graph(plain, kept)


def partition_graph(graph: Graph, regions: Sequence[PartRegion]) -> Graph:
    """The graph with an external node for each region that has a backend."""
    return _Partitioning(graph).run(regions)


def external_nodes(graph: Graph, backend: str) -> list[GraphNode]:
    """The nodes that go to a backend."""
    return [n for n in graph.nodes if is_external(n) and n.attrs["backend"] == backend]


def _flop_of(region: PartRegion) -> float:
    groups = [
        FusedGroup((node,), tuple(dict.fromkeys(node.operands)), node.outputs)
        for node in region.nodes
    ]
    return sum(flop_of(lower_group(group)) for group in groups)


class _Partitioning(GraphBuilder):
    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.name)
        self._old = graph
        self._readers = graph.consumers()
        self._new = {value: self.input(value.name, value.type) for value in graph.inputs}

    def run(self, regions: Sequence[PartRegion]) -> Graph:
        for region in regions:
            if region.backend is None:
                for node in region.nodes:
                    self._copy(node)
            else:
                self._external(region, region.backend)
        made = self.graph([self._translated(value) for value in self._old.outputs])
        return with_names_of(self._old, made)

    def _translated(self, value: GraphValue) -> GraphValue:
        if value not in self._new:
            self._new[value] = self.constant(self._old.constants[value], value.name)
        return self._new[value]

    def _copy(self, node: GraphNode) -> None:
        inputs = [None if value is None else self._translated(value) for value in node.inputs]
        names = [value.name for value in node.outputs]
        made = self.calls(node.op, inputs, node.attrs, names, node.source)
        self._new.update(zip(node.outputs, made, strict=True))

    def _external(self, region: PartRegion, backend: str) -> None:
        part = self._part(region)
        results = [(value.name, value.type) for value in part.outputs]
        inputs = [self._translated(value) for value in part.inputs]
        sources = [node.source for node in region.nodes if node.source]
        source = f"{sources[0]}..{sources[-1]}" if len(sources) > 1 else "".join(sources)
        made = add_external(self, backend, part.script(), inputs, results, source)
        self._new.update(zip(part.outputs, made, strict=True))

    def _part(self, region: PartRegion) -> Graph:
        """A region as a graph of its own, whose inputs are all that it reads."""
        inside = {value for node in region.nodes for value in node.outputs}
        members = set(region.nodes)
        inputs = dict.fromkeys(
            value for node in region.nodes for value in node.operands if value not in inside
        )
        outputs = [
            value
            for node in region.nodes
            for value in node.outputs
            if value in self._old.outputs or not members.issuperset(self._readers[value])
        ]
        return Graph("part", tuple(inputs), tuple(outputs), region.nodes)

"""Regions of a graph that go to one backend: nodes joined while no path leaves and comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.byoc.dataflow_pattern import PatternMatch, PatternMatcher
from tilewright.byoc.pattern_table import PatternEntry
from tilewright.graph.graph import Graph, GraphNode, GraphValue


@dataclass(frozen=True, eq=False)
class PartRegion:
    """Nodes for a backend, in the order of the graph; None are ours."""

    nodes: tuple[GraphNode, ...]
    backend: str | None = None
    composites: tuple[str, ...] = ()  # the patterns that they match


def merge_composite(graph: Graph, tables: Mapping[str, Sequence[PatternEntry]]) -> list[PartRegion]:
    """The nodes of a graph, those that match a pattern together.

    Patterns count in the order of their tables, and backends in the order in which they are given.
    """
    taken: dict[GraphNode, PartRegion] = {}
    matcher = PatternMatcher(graph)
    consumers = graph.consumers()
    position = {node: number for number, node in enumerate(graph.nodes)}
    for backend, entries in tables.items():
        for entry in entries:
            for root in reversed(graph.nodes):
                if root in taken:
                    continue
                match = matcher.match(entry.pattern, root.outputs[0])
                if match is None or not match.nodes or taken.keys() & set(match.nodes):
                    continue
                if _is_closed(graph, match, consumers) and entry.check(match):
                    nodes = tuple(sorted(match.nodes, key=position.__getitem__))
                    region = PartRegion(nodes, backend, (entry.name,))
                    taken.update(dict.fromkeys(nodes, region))
    regions = [taken.get(node) or PartRegion((node,)) for node in graph.nodes]
    return list(dict.fromkeys(regions))


def _is_closed(
    graph: Graph, match: PatternMatch, consumers: Mapping[GraphValue, Sequence[GraphNode]]
) -> bool:
    """True if nothing outside reads what is made inside, but for the result."""
    members = set(match.nodes)
    return all(
        value not in graph.outputs and members.issuperset(consumers[value])
        for node in match.nodes[1:]
        for value in node.outputs
    )


def merge_compiler_regions(graph: Graph, regions: Sequence[PartRegion]) -> list[PartRegion]:
    """Neighbours of one backend joined, as long as no path leaves them and comes back.

    The result is in an order in which it can run.
    """
    merging = _Merging(graph, regions)
    merging.run()
    return merging.in_order()


class _Merging:
    """Regions by number, and sets of numbers as bits."""

    def __init__(self, graph: Graph, regions: Sequence[PartRegion]) -> None:
        self._graph = graph
        self._regions = dict(enumerate(regions))
        self._position = {node: number for number, node in enumerate(graph.nodes)}
        owner = {node: n for n, region in self._regions.items() for node in region.nodes}
        self._after = dict.fromkeys(self._regions, 0)  # direct successors
        makers = graph.makers()
        for node in graph.nodes:
            for value in node.operands:
                if value in makers and owner[makers[value]] != owner[node]:
                    self._after[owner[makers[value]]] |= 1 << owner[node]

    def run(self) -> None:
        """Join until nothing can be joined."""
        changed = True
        while changed:
            changed = False
            for first in list(self._regions):
                changed |= first in self._regions and self._grow(first)

    def _grow(self, first: int) -> bool:
        """Join one region with those that read from it; True if one was."""
        grown = False
        for second in _numbers(self._after[first]):
            same = self._regions[first].backend == self._regions[second].backend
            if same and self._regions[first].backend is not None and self._fits(first, second):
                self._join(first, second)
                grown = True
        return grown

    def _fits(self, first: int, second: int) -> bool:
        """No way from the first to the second leads through a third."""
        others = self._after[first] & ~(1 << second)
        seen = 0
        while others:
            seen |= others
            following = 0
            for number in _numbers(others):
                following |= self._after[number]
            others = following & ~seen
        return not seen >> second & 1

    def _join(self, first: int, second: int) -> None:
        a, b = self._regions[first], self._regions.pop(second)
        nodes = tuple(sorted((*a.nodes, *b.nodes), key=self._position.__getitem__))
        self._regions[first] = PartRegion(nodes, a.backend, a.composites + b.composites)
        bit = 1 << second
        self._after[first] = (self._after[first] | self._after.pop(second)) & ~bit & ~(1 << first)
        for number, after in self._after.items():
            if after & bit and number != first:
                self._after[number] = after & ~bit | 1 << first

    def in_order(self) -> list[PartRegion]:
        """Regions after those that they read from; otherwise as their last nodes stand."""
        waiting = dict.fromkeys(self._regions, 0)
        for after in self._after.values():
            for number in _numbers(after):
                waiting[number] += 1
        ordered: list[PartRegion] = []
        ready = [number for number, count in waiting.items() if not count]
        while ready:
            chosen = min(ready, key=lambda n: self._position[self._regions[n].nodes[-1]])
            ready.remove(chosen)
            ordered.append(self._regions[chosen])
            for number in _numbers(self._after[chosen]):
                waiting[number] -= 1
                if not waiting[number]:
                    ready.append(number)
        assert len(ordered) == len(self._regions), "regions form a cycle"
        return ordered


def _numbers(bits: int) -> list[int]:
    """The numbers of the bits that are set."""
    found = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return found

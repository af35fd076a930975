"""The nodes of a graph that become one kernel, by the rules of TVM's FuseOps.

A node may join its post-dominator, the first node that everything computed from it passes through,
if the kinds on all paths between them allow it. Three rounds: products and convolutions take in
what is elementwise behind them; then what only moves elements joins; then what was left of tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.graph.graph import Graph, GraphNode, GraphValue
from tilewright.graph.patterns import Kind

MAX_GROUP = 256  # nodes, as in TVM


@dataclass(frozen=True, eq=False)
class FusedGroup:
    """Nodes that become one kernel."""

    nodes: tuple[GraphNode, ...]
    inputs: tuple[GraphValue, ...]  # constants included
    outputs: tuple[GraphValue, ...]

    @property
    def name(self) -> str:
        """`fused_nn_conv2d_add_nn_relu`, cut where it would be too long."""
        words = "_".join(node.op.replace(".", "_") for node in self.nodes)
        name = f"fused_{words}"
        return name if len(name) <= 80 else f"{name[:80]}_{hash_of(words)}_"


def hash_of(text: str) -> str:
    """Eight letters that stand for a text."""
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:8]


def fuse(graph: Graph, kind_of: Callable[[GraphNode], Kind]) -> list[FusedGroup]:
    """The groups of a graph, in an order in which they can run."""
    return _Fusion(graph, {node: kind_of(node) for node in graph.nodes}).groups()


@dataclass
class _Dominator:
    """A node of the tree of post-dominators; the root stands for the end of the graph."""

    parent: GraphNode | None
    depth: int
    kind: Kind  # the least simple edge on the way to the parent


class _Fusion:
    def __init__(self, graph: Graph, kinds: Mapping[GraphNode, Kind]) -> None:
        self._graph = graph
        self._kinds = kinds
        self._consumers = graph.consumers()
        self._outputs = set(graph.outputs)
        self._tree: dict[GraphNode, _Dominator] = {}
        self._leader = {node: node for node in graph.nodes}
        self._members = {node: [node] for node in graph.nodes}
        self._anchors = {node: node if kinds[node] is Kind.ANCHOR else None for node in graph.nodes}

    def groups(self) -> list[FusedGroup]:
        self._dominate()
        for phase in range(2):
            for node in self._graph.nodes:
                self._try_to_join(node, phase)
        return self._in_order()

    # --- post-dominators ------------------------------------------------------------------------

    def _dominate(self) -> None:
        for node in reversed(self._graph.nodes):
            self._tree[node] = self._dominator(node)

    def _dominator(self, node: GraphNode) -> _Dominator:
        readers = [reader for value in node.outputs for reader in self._consumers[value]]
        if not readers or self._outputs & set(node.outputs):
            return _Dominator(None, 1, Kind.OPAQUE)
        parent, kind = readers[0], self._edge_kind(node, readers[0])
        for reader in readers[1:]:
            kind = max(kind, self._edge_kind(node, reader))
            common, on_the_way = self._common(parent, reader)
            if common is None:
                return _Dominator(None, 1, Kind.OPAQUE)
            parent, kind = common, max(kind, on_the_way)
        return _Dominator(parent, self._tree[parent].depth + 1, kind)

    def _edge_kind(self, node: GraphNode, reader: GraphNode) -> Kind:
        kind = self._kinds[reader]
        if kind > Kind.BROADCAST:
            return kind
        same = any(value.type.shape == reader.outputs[0].type.shape for value in node.outputs)
        return Kind.ELEMENTWISE if same else Kind.BROADCAST

    def _common(self, a: GraphNode | None, b: GraphNode | None) -> tuple[GraphNode | None, Kind]:
        """The first node that both lead to, and the least simple kind on the way."""
        kind = Kind.ELEMENTWISE
        while a is not b:
            if a is None or b is None:
                return None, Kind.OPAQUE
            if self._tree[a].depth < self._tree[b].depth:
                a, b = b, a
            kind = max(kind, self._tree[a].kind)
            a = self._tree[a].parent
        return a, kind

    # --- joining --------------------------------------------------------------------------------

    def _try_to_join(self, node: GraphNode, phase: int) -> None:
        dominator = self._tree[node]
        sink = dominator.parent
        kind = self._group_kind(node)
        if sink is None or kind is Kind.OPAQUE or self._found(node) is self._found(sink):
            return
        suits = self._condition(kind, dominator.kind, phase)
        if suits is not None and self._path_is(node, sink, suits):
            self._join(node, sink)

    def _condition(self, kind: Kind, edge: Kind, phase: int) -> Callable[[Kind, bool], bool] | None:
        """What all nodes on the way must fulfil, given their kind and whether they are its end."""
        if kind is Kind.ANCHOR:
            joins = phase == 0 and edge is Kind.ELEMENTWISE
            return (lambda k, _: k <= Kind.BROADCAST) if joins else None
        if kind <= Kind.BROADCAST:
            joins = edge <= Kind.INJECTIVE or edge is Kind.REDUCTION
            return self._suits_broadcast if joins else None
        joins = kind is Kind.INJECTIVE and phase == 1
        return (lambda k, _: k <= Kind.INJECTIVE) if joins else None

    @staticmethod
    def _suits_broadcast(kind: Kind, is_sink: bool) -> bool:
        if not is_sink:
            return kind <= Kind.INJECTIVE
        return kind <= Kind.INJECTIVE or kind in (Kind.REDUCTION, Kind.ANCHOR)

    def _path_is(
        self, node: GraphNode, sink: GraphNode, suits: Callable[[Kind, bool], bool]
    ) -> bool:
        between = self._between(node, sink)
        kinds_fit = all(suits(self._group_kind(other), False) for other in between)
        if not kinds_fit or not suits(self._group_kind(sink), True):
            return False
        everyone = {self._found(other) for other in (node, sink, *between)}
        anchors = [anchor for one in everyone if (anchor := self._anchors[one]) is not None]
        size = sum(len(self._members[one]) for one in everyone)
        return len(anchors) <= 1 and size <= MAX_GROUP

    def _between(self, node: GraphNode, sink: GraphNode) -> list[GraphNode]:
        found: dict[GraphNode, None] = {}
        pending = [reader for value in node.outputs for reader in self._consumers[value]]
        while pending:
            other = pending.pop()
            if other is sink or other in found:
                continue
            found[other] = None
            pending += [r for value in other.outputs for r in self._consumers[value]]
        return list(found)

    def _group_kind(self, node: GraphNode) -> Kind:
        """Of the group's anchor, or its least simple member."""
        leader = self._found(node)
        if self._anchors[leader] is not None:
            return Kind.ANCHOR
        return max(self._kinds[member] for member in self._members[leader])

    def _found(self, node: GraphNode) -> GraphNode:
        while self._leader[node] is not node:
            node = self._leader[node]
        return node

    def _join(self, node: GraphNode, sink: GraphNode) -> None:
        target = self._found(sink)
        for other in (node, *self._between(node, sink)):
            leader = self._found(other)
            if leader is target:
                continue
            self._leader[leader] = target
            self._members[target] += self._members.pop(leader)
            self._anchors[target] = self._anchors[target] or self._anchors.pop(leader)

    # --- groups ---------------------------------------------------------------------------------

    def _in_order(self) -> list[FusedGroup]:
        position = {node: number for number, node in enumerate(self._graph.nodes)}
        groups = [
            self._group(sorted(members, key=position.__getitem__))
            for members in self._members.values()
        ]
        # A group runs where its last member stood: all it reads was made before.
        return sorted(groups, key=lambda group: position[group.nodes[-1]])

    def _group(self, nodes: Sequence[GraphNode]) -> FusedGroup:
        inside = {value for node in nodes for value in node.outputs}
        members = set(nodes)
        inputs = dict.fromkeys(
            value for node in nodes for value in node.operands if value not in inside
        )
        outputs = [
            value
            for node in nodes
            for value in node.outputs
            if value in self._outputs or any(r not in members for r in self._consumers[value])
        ]
        return FusedGroup(tuple(nodes), tuple(inputs), tuple(outputs))

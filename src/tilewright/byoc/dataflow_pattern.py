"""Patterns of nodes, with TVM's names for them.

    conv = is_op("nn.conv2d")(wildcard(), is_constant())
    pattern = is_op("add")(conv, is_constant()).optional(lambda x: is_op("nn.relu")(x))

A pattern that is used twice stands for the same value twice. The operands of commutative operators
match in either order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import GraphError
from tilewright.graph.graph import Graph, GraphNode, GraphValue

_COMMUTATIVE = frozenset({"add", "multiply", "maximum", "minimum"})


class DFPattern:
    """What a value may be."""

    def __or__(self, other: DFPattern) -> DFPattern:
        return AltPattern(self, other)

    def optional(self, wrap: Callable[[DFPattern], DFPattern]) -> DFPattern:
        """This pattern, or what `wrap` makes around it; the larger one is tried first."""
        return AltPattern(wrap(self), self)


@dataclass(frozen=True, eq=False)
class WildcardPattern(DFPattern):
    """Any value."""


@dataclass(frozen=True, eq=False)
class ConstantPattern(DFPattern):
    """A value that is known."""


@dataclass(frozen=True, eq=False)
class AltPattern(DFPattern):
    """One of two."""

    left: DFPattern
    right: DFPattern


@dataclass(frozen=True, eq=False)
class CallPattern(DFPattern):
    """The result of an operator with such operands and attributes."""

    op: str
    args: tuple[DFPattern, ...] | None  # None: whatever they are
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def has_attr(self, attrs: Mapping[str, Any]) -> CallPattern:
        """The same with these attributes."""
        return CallPattern(self.op, self.args, {**self.attrs, **attrs})


@dataclass(frozen=True, eq=False)
class OpPattern(DFPattern):
    """An operator, to be called on patterns."""

    op: str

    def __call__(self, *args: DFPattern) -> CallPattern:
        for number, arg in enumerate(args):
            if not isinstance(arg, DFPattern):
                raise GraphError(f"operand {number} of the pattern {self.op} is not a pattern")
        return CallPattern(self.op, args)


def is_op(name: str) -> OpPattern:
    """An operator by name."""
    return OpPattern(name)


def wildcard() -> DFPattern:
    """Any value."""
    return WildcardPattern()


def is_constant() -> DFPattern:
    """A value that is known when the model is compiled."""
    return ConstantPattern()


@dataclass(frozen=True, eq=False)
class PatternMatch:
    """Nodes of a pattern, the last one first, and what its parts stand for."""

    nodes: tuple[GraphNode, ...]
    bound: Mapping[DFPattern, GraphValue]


class PatternMatcher:
    """Finds patterns in a graph."""

    def __init__(self, graph: Graph) -> None:
        self._makers = graph.makers()
        self._constants = graph.constants

    def match(self, pattern: DFPattern, value: GraphValue) -> PatternMatch | None:
        """What a pattern that ends in a value consists of."""
        found = self._match(pattern, value, PatternMatch((), {}))
        if found is None:
            return None
        return PatternMatch(tuple(dict.fromkeys(found.nodes)), found.bound)

    def _match(
        self, pattern: DFPattern, value: GraphValue | None, so_far: PatternMatch
    ) -> PatternMatch | None:
        if value is None:
            return None
        if pattern in so_far.bound:
            return so_far if so_far.bound[pattern] is value else None
        match pattern:
            case WildcardPattern():
                found: PatternMatch | None = so_far
            case ConstantPattern():
                found = so_far if value in self._constants else None
            case AltPattern(left=left, right=right):
                found = self._match(left, value, so_far) or self._match(right, value, so_far)
            case CallPattern():
                found = self._match_call(pattern, value, so_far)
            case OpPattern(op=op):
                found = self._match_call(CallPattern(op, None), value, so_far)
            case _:
                raise GraphError(f"{pattern!r} is not a pattern")
        return found and PatternMatch(found.nodes, {**found.bound, pattern: value})

    def _match_call(
        self, pattern: CallPattern, value: GraphValue, so_far: PatternMatch
    ) -> PatternMatch | None:
        node = self._makers.get(value)
        if node is None or node.op != pattern.op or node.outputs[0] is not value:
            return None
        if any(node.attrs.get(word) != wanted for word, wanted in pattern.attrs.items()):
            return None
        with_node = PatternMatch((*so_far.nodes, node), so_far.bound)
        if pattern.args is None:
            return with_node
        orders = [node.inputs]
        if node.op in _COMMUTATIVE:
            orders.append(node.inputs[::-1])
        for inputs in orders:
            found = self._match_all(pattern.args, inputs, with_node)
            if found is not None:
                return found
        return None

    def _match_all(
        self,
        patterns: tuple[DFPattern, ...],
        inputs: tuple[GraphValue | None, ...],
        so_far: PatternMatch,
    ) -> PatternMatch | None:
        if len(patterns) != len(inputs):
            return None
        found: PatternMatch | None = so_far
        for pattern, value in zip(patterns, inputs, strict=True):
            found = found and self._match(pattern, value, found)
        return found

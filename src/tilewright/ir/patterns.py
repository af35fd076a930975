"""Searching and rewriting IR with functions of a node, where no class of visitors is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from tilewright.ir.buffer import BufferLoad
from tilewright.ir.node import Node, NodeT, map_children, nodes_in
from tilewright.ir.stmt import SeqStmt, flattened

__all__ = ["walk", "nodes_of", "has_load", "rewrite"]

Kind = TypeVar("Kind", bound=Node)


def walk(node: Node, *, into: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """A node and all below it, parents first; `into` says below which nodes to go."""
    pending: list[Any] = [node]
    while pending:
        current = pending.pop()
        yield current
        if current.child_fields and (into is None or into(current)):
            if current.has_annotations and current.annotations:
                pending += [*nodes_in(current.annotations)][::-1]
            for name in current.child_fields[::-1]:  # `children`, last first, without a generator
                value = getattr(current, name)
                if type(value) is tuple:
                    pending += value[::-1]
                elif value is not None:
                    pending.append(value)


def nodes_of(node: Node, kind: type[Kind]) -> Iterator[Kind]:
    """The nodes of one class in a tree, parents first."""
    return (each for each in walk(node) if isinstance(each, kind))


def has_load(node: Node) -> bool:
    """True when `node` reads memory."""
    return any(isinstance(each, BufferLoad) for each in walk(node))


def rewrite(node: NodeT, patterns: Mapping[Any, Callable[[Any], Any]]) -> NodeT:
    """Exchange the nodes of some classes, children first, for what functions make of them.

    What does not change is shared with the old tree.
    """

    changes: dict[type, Callable[[Any], Any] | None] = {}

    def visit(old: Any) -> Any:
        new = map_children(old, visit) if old.child_fields else old
        kind = type(new)
        if kind is SeqStmt and new is not old:
            return flattened(new)
        if kind not in changes:
            fitting = (change for base, change in patterns.items() if issubclass(kind, base))
            changes[kind] = next(fitting, None)
        change = changes[kind]
        return new if change is None else change(new)

    made: NodeT = visit(node)
    return made

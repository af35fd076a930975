"""Searching and rewriting IR with functions of a node, where no class of visitors is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from tilewright.ir.buffer import BufferLoad
from tilewright.ir.node import Node, NodeT, children, map_children
from tilewright.ir.stmt import SeqStmt, flattened

Kind = TypeVar("Kind", bound=Node)


def walk(node: Node, *, into: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """A node and all below it, parents first; `into` says below which nodes to go."""
    pending: list[Iterator[Node]] = [iter((node,))]
    while pending:
        current = next(pending[-1], None)
        if current is None:
            pending.pop()
            continue
        yield current
        if into is None or into(current):
            pending.append(children(current))


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

    def visit(old: Any) -> Any:
        new = map_children(old, visit)
        if type(new) is SeqStmt and new is not old:
            return flattened(new)
        for kind, change in patterns.items():
            if isinstance(new, kind):
                return change(new)
        return new

    made: NodeT = visit(node)
    return made

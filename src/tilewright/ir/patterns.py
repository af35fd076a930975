"""Searching and rewriting IR with functions of a node, where no class of visitors is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from tilewright.ir.buffer import BufferLoad
from tilewright.ir.function import PrimFunc
from tilewright.ir.node import Node, NodeT, children, map_children, nodes_in
from tilewright.ir.stmt import For, SeqStmt, Stmt, flattened

__all__ = ["walk", "nodes_of", "with_loops", "has_load", "rewrite"]

Kind = TypeVar("Kind", bound=Node)
Change = Callable[[Any], Any]
Patterns = Mapping[Any, Change]  # by a class of nodes or a tuple of some; the first to fit counts
_NONE: Patterns = {}
_HOLDERS = (Stmt, PrimFunc)  # all that statements stand in


def _holds_statements(node: Node) -> bool:
    return isinstance(node, _HOLDERS)


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
    """The nodes of one class in a tree, parents first; statements are not sought in expressions."""
    into = _holds_statements if issubclass(kind, Stmt) else None
    return (each for each in walk(node, into=into) if isinstance(each, kind))


def with_loops(
    stmt: Stmt, into: Callable[[Stmt], bool] = _holds_statements, loops: tuple[For, ...] = ()
) -> Iterator[tuple[Stmt, tuple[For, ...]]]:
    """A statement and those below it, parents first, each with the loops around it."""
    yield stmt, loops
    if into(stmt):
        inside = (*loops, stmt) if isinstance(stmt, For) else loops
        for child in children(stmt):
            if isinstance(child, Stmt):
                yield from with_loops(child, into, inside)


def has_load(node: Node) -> bool:
    """True when `node` reads memory."""
    return any(isinstance(each, BufferLoad) for each in walk(node))


def rewrite(node: NodeT, patterns: Patterns = _NONE, *, before: Patterns = _NONE) -> NodeT:
    """Exchange the nodes of some classes for what functions make of them.

    `patterns` get a node when its children are done. `before` gets it first and may give what is to
    stand there, all below it included; None lets the walk go on below. What does not change is
    shared with the old tree, and where only statements may change no expression is looked at.
    """
    below = _HOLDERS if all(map(_is_statement, (*patterns, *before))) else Node
    known: dict[type, tuple[Change | None, ...]] = {}

    def visit(old: Any) -> Any:
        kind = type(old)
        changes = known.get(kind)
        if changes is None:
            found = _fitting(kind, before), _fitting(kind, patterns)
            changes = known[kind] = found if issubclass(kind, below) else ()
        if not changes:
            return old
        first, last = changes
        if first is not None and (made := first(old)) is not None:
            return made
        new = map_children(old, visit) if old.child_fields else old
        if kind is SeqStmt and new is not old:
            new = flattened(new)
        return new if last is None else last(new)

    made: NodeT = visit(node)
    return made


def _is_statement(kind: type | tuple[type, ...]) -> bool:
    return all(map(_is_statement, kind)) if isinstance(kind, tuple) else issubclass(kind, Stmt)


def _fitting(kind: type, patterns: Patterns) -> Change | None:
    """What is to be done with nodes of a class."""
    return next((change for base, change in patterns.items() if issubclass(kind, base)), None)

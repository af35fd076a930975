"""Searching and rewriting IR with functions of a node, where no class of visitors is needed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from tilewright.ir.buffer import BufferLoad
from tilewright.ir.node import Node, NodeT, map_children, map_statements, nodes_in
from tilewright.ir.stmt import For, SeqStmt, Stmt, flattened, statements_in

__all__ = ["walk", "walk_statements", "nodes_of", "with_loops", "has_load", "rewrite"]

Kind = TypeVar("Kind", bound=Node)
Change = Callable[[Any], Any]
Patterns = Mapping[Any, Change]  # by a class of nodes or a tuple of some; the first to fit counts
_NONE: Patterns = {}


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


def walk_statements(node: Node, *, into: Callable[[Stmt], bool] | None = None) -> Iterator[Stmt]:
    """`walk` among statements alone."""
    return (stmt for stmt, _ in with_loops(node, into=into))


def nodes_of(node: Node, kind: type[Kind]) -> Iterator[Kind]:
    """The nodes of one class in a tree, parents first; statements are not sought in expressions."""
    walked = walk_statements(node) if issubclass(kind, Stmt) else walk(node)
    return (each for each in walked if isinstance(each, kind))


def with_loops(
    node: Node, *, into: Callable[[Stmt], bool] | None = None
) -> Iterator[tuple[Stmt, tuple[For, ...]]]:
    """A statement and those below it, parents first, each with the loops around it."""
    pending: list[tuple[Any, tuple[For, ...]]] = [(node, ())]
    while pending:
        current, loops = pending.pop()
        yield current, loops
        if current.statement_fields and (into is None or into(current)):
            loops = (*loops, current) if type(current) is For else loops
            pending += [(each, loops) for each in statements_in(current)[::-1]]


def has_load(node: Node) -> bool:
    """True when `node` reads memory."""
    return any(isinstance(each, BufferLoad) for each in walk(node))


def rewrite(node: NodeT, patterns: Patterns = _NONE, *, before: Patterns = _NONE) -> NodeT:
    """Exchange the nodes of some classes for what functions make of them.

    `patterns` get a node when its children are done. `before` gets it first and may give what is to
    stand there, all below it included; None lets the walk go on below. What does not change is
    shared with the old tree, and where only statements may change no expression is looked at.
    """
    known = _known_kinds(tuple(before), tuple(patterns))
    firsts, lasts = tuple(before.values()), tuple(patterns.values())

    def visit(old: Any) -> Any:
        kind = type(old)
        first, last, map_below = known[kind]
        if first is not None and (made := firsts[first](old)) is not None:
            return made
        new = old if map_below is None else map_below(old, visit)
        if kind is SeqStmt and new is not old:
            new = flattened(new)
        return new if last is None else lasts[last](new)

    made: NodeT = visit(node)
    return made


class _KnownKinds(dict[type[Node], tuple[Any, ...]]):
    """The number of the first that fits a class, of each kind of patterns; how to go on below."""

    def __init__(self, *patterns: tuple[Any, ...]) -> None:
        self._patterns = patterns
        self._are_statements = all(_is_statement(each) for keys in patterns for each in keys)

    def __missing__(self, kind: type[Node]) -> tuple[Any, ...]:
        fits = ([issubclass(kind, key) for key in keys] for keys in self._patterns)
        found = (each.index(True) if True in each else None for each in fits)
        fields, go_on = kind.child_fields, map_children
        if self._are_statements:
            fields, go_on = kind.statement_fields, map_statements
        self[kind] = made = (*found, go_on if fields else None)
        return made


_known_kinds = functools.cache(_KnownKinds)


def _is_statement(kind: type | tuple[type, ...]) -> bool:
    return all(map(_is_statement, kind)) if isinstance(kind, tuple) else issubclass(kind, Stmt)

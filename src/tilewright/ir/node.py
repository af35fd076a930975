"""The base of every IR node, and the three things one can do to any node: list, map, replace.

Nodes are frozen and compared by identity; `structural_equal` compares them by meaning. A class
names the fields that hold child nodes in `child_fields`; visitors and rewriters need nothing else.
Expressions in the annotations of a loop or block are children, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

import msgspec

__all__ = ["Node", "replace", "updated", "children", "map_children", "map_statements", "map_tuple"]

NodeT = TypeVar("NodeT", bound="Node")
_PathT = TypeVar("_PathT", list[Any], tuple[Any, ...])
Renderer = Callable[["Node"], str]

# The printer registers itself here when it is imported; `ir/__init__` always imports it.
_renderer: list[Renderer] = []


def register_renderer(render: Renderer) -> None:
    """Make `render` what `str(node)` shows."""
    _renderer[:] = [render]


class Node(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An immutable piece of IR. Trees are acyclic, so the cycle collector never looks at them."""

    child_fields: ClassVar[tuple[str, ...]] = ()
    statement_fields: ClassVar[tuple[str, ...]] = ()  # those of them that hold statements
    has_annotations: ClassVar[bool] = False  # it has a field of that name

    def __str__(self) -> str:
        return _renderer[0](self)

    def __repr__(self) -> str:
        return str(self)

    def same_as(self, other: object) -> bool:
        """True when `other` is this very node."""
        return self is other


def replace(node: NodeT, /, **changes: Any) -> NodeT:
    """A copy of `node` with some fields changed."""
    return msgspec.structs.replace(node, **changes)


def updated(node: NodeT, /, **changes: Any) -> NodeT:
    """`node` with some fields changed; the same object if none of them is another one."""
    if all(getattr(node, name) is value for name, value in changes.items()):
        return node
    return msgspec.structs.replace(node, **changes)


def children(node: Node) -> Iterator[Node]:
    """The direct child nodes, in field order."""
    for name in node.child_fields:
        value = getattr(node, name)
        if type(value) is tuple:
            yield from value
        elif value is not None:
            yield value
    if node.has_annotations and node.annotations:  # type: ignore[attr-defined] # as the flag says
        yield from nodes_in(node.annotations)  # type: ignore[attr-defined]


def nodes_in(value: Any) -> Iterator[Node]:
    """The nodes of an annotation, which may be inside lists and dictionaries."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from nodes_in(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from nodes_in(item)


def map_children(node: NodeT, change: Callable[[Any], Any]) -> NodeT:
    """Apply `change` to every child; the same object comes back when nothing changed."""
    changes: dict[str, Any] | None = None
    for name in node.child_fields:
        old = getattr(node, name)
        if type(old) is tuple:
            new = map_tuple(old, change)
        elif old is None:
            continue
        else:
            new = change(old)
        if new is not old:
            if changes is None:
                changes = {}
            changes[name] = new
    if node.has_annotations and node.annotations:  # type: ignore[attr-defined] # as the flag says
        notes = map_nodes_in(node.annotations, change)  # type: ignore[attr-defined]
        if notes is not node.annotations:  # type: ignore[attr-defined]
            changes = {**(changes or {}), "annotations": notes}
    return node if changes is None else msgspec.structs.replace(node, **changes)


def map_statements(node: NodeT, change: Callable[[Any], Any]) -> NodeT:
    """`map_children` for those that are statements."""
    changes: dict[str, Any] = {}
    for name in node.statement_fields:
        old = getattr(node, name)
        if old is not None:
            new = map_tuple(old, change) if type(old) is tuple else change(old)
            if new is not old:
                changes[name] = new
    return msgspec.structs.replace(node, **changes) if changes else node


def map_tuple(items: tuple[Any, ...], change: Callable[[Any], Any]) -> tuple[Any, ...]:
    """`tuple(map(change, items))`, or `items` itself when no element changed."""
    changed = False
    result = []
    for item in items:
        new = change(item)
        changed = changed or new is not item
        result.append(new)
    return tuple(result) if changed else items


def common_prefix(a: _PathT, b: _PathT) -> _PathT:
    """The objects with which two paths begin both."""
    if a is b:
        return a
    length = 0
    for left, right in zip(a, b, strict=False):
        if left is not right:
            break
        length += 1
    return a[:length]


def map_nodes_in(value: Any, change: Callable[[Any], Any]) -> Any:
    """An annotation with its nodes changed; itself when none was."""
    if isinstance(value, Node):
        return change(value)
    if isinstance(value, Mapping):
        items = tuple(value.values())
        mapped = map_tuple(items, lambda item: map_nodes_in(item, change))
        return value if mapped is items else dict(zip(value, mapped, strict=True))
    if isinstance(value, (tuple, list)):
        items = tuple(value)
        mapped = map_tuple(items, lambda item: map_nodes_in(item, change))
        return value if mapped is items else type(value)(mapped)
    return value

"""The base of every IR node, and the three things one can do to any node: list, map, replace.

Nodes are frozen and compared by identity; `structural_equal` compares them by meaning. A class
names the fields that hold child nodes in `child_fields`; visitors and rewriters need nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

import msgspec

NodeT = TypeVar("NodeT", bound="Node")
Renderer = Callable[["Node"], str]

# The printer registers itself here when it is imported; `ir/__init__` always imports it.
_renderer: list[Renderer] = []


def register_renderer(render: Renderer) -> None:
    """Make `render` what `str(node)` shows."""
    _renderer[:] = [render]


class Node(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An immutable piece of IR. Trees are acyclic, so the cycle collector never looks at them."""

    child_fields: ClassVar[tuple[str, ...]] = ()

    def __str__(self) -> str:
        return _renderer[0](self)

    def __repr__(self) -> str:
        return _renderer[0](self)

    def same_as(self, other: object) -> bool:
        """True when `other` is this very node."""
        return self is other


def replace(node: NodeT, /, **changes: Any) -> NodeT:
    """A copy of `node` with some fields changed."""
    return msgspec.structs.replace(node, **changes)


def children(node: Node) -> Iterator[Node]:
    """The direct child nodes, in field order."""
    for name in node.child_fields:
        value = getattr(node, name)
        if type(value) is tuple:
            yield from value
        elif value is not None:
            yield value


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
    return node if changes is None else msgspec.structs.replace(node, **changes)


def map_tuple(items: tuple[Any, ...], change: Callable[[Any], Any]) -> tuple[Any, ...]:
    """`tuple(map(change, items))`, or `items` itself when no element changed."""
    changed = False
    result = []
    for item in items:
        new = change(item)
        changed = changed or new is not item
        result.append(new)
    return tuple(result) if changed else items

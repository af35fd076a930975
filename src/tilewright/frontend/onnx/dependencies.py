"""Names that nodes read, and the nodes that outputs depend on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def read_by(node: Any) -> Iterator[str]:
    """What a node reads, also what graphs inside it take from outside of them."""
    yield from (word for word in node.input if word)
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            yield from _captured(body)


def _captured(body: Any) -> Iterator[str]:
    own = {given.name for given in body.input} | {tensor.name for tensor in body.initializer}
    for node in body.node:
        yield from (word for word in read_by(node) if word not in own)
        own.update(node.output)
    yield from (output.name for output in body.output if output.name not in own)


def needed_nodes(nodes: Sequence[Any], outputs: Sequence[str]) -> list[tuple[int, Any]]:
    """The nodes that outputs depend on, with their numbers, in their order."""
    wanted, needed = set(outputs), []
    for number, node in reversed(list(enumerate(nodes))):
        if not wanted.isdisjoint(node.output):
            wanted.update(read_by(node))
            needed.append((number, node))
    return needed[::-1]

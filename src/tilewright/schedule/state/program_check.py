"""Checking what a primitive made of a program, for `debug_mask`."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright import ir
from tilewright.errors import WellFormedError


def verify_program(before: ir.IRModule, after: ir.IRModule, step: str) -> None:
    """Check that a well-formed program stayed one and lost all names of what it no longer has."""
    if after is before:
        return
    stale = (_declared(before) - _declared(after)) & set(_used(after))
    if stale:
        names = ", ".join(sorted(repr(buffer.name) for buffer in stale))
        raise AssertionError(f"{step} left uses of buffers that are no longer there: {names}")
    try:
        ir.verify_well_formed(after)
    except WellFormedError as error:
        if ir.verify_well_formed(before, assert_mode=False):
            raise AssertionError(f"{step} broke the program: {error}") from error


def _declared(module: ir.IRModule) -> set[ir.Buffer]:
    """All buffers that are parameters, allocated, matched or declared."""
    found = {buffer for func in module.functions.values() for buffer in func.buffer_map.values()}
    for node in _nodes(module):
        if isinstance(node, ir.Block):
            found.update(node.alloc_buffers)
            found.update(match.buffer for match in node.match_buffers)
        elif isinstance(node, ir.DeclBuffer):
            found.add(node.buffer)
    return found


def _used(module: ir.IRModule) -> Iterator[ir.Buffer]:
    """The buffers of all accesses and regions."""
    return (node.buffer for node in _nodes(module) if hasattr(node, "buffer"))


def _nodes(module: ir.IRModule) -> list[ir.Node]:
    return [node for func in module.functions.values() for node in ir.walk(func.body)]

"""Memory that lowered programs allocate."""

from __future__ import annotations

import math
from collections import Counter

from tilewright import ir


def calculate_allocated_bytes(func_or_mod: ir.PrimFunc | ir.IRModule) -> dict[str, dict[str, int]]:
    """For each function the most bytes that are allocated at a time in each scope."""
    module = ir.as_module(func_or_mod)
    return {name: _most_at_a_time(func) for name, func in module.functions.items()}


def calculate_workspace_bytes(func: ir.PrimFunc, workspace_byte_alignment: int) -> int:
    """The most bytes of global memory that are allocated at a time, each array aligned."""
    return _most_at_a_time(func, workspace_byte_alignment).get("global", 0)


def calculate_constant_bytes(func: ir.PrimFunc, constant_byte_alignment: int) -> int:
    """The bytes of all constant arrays, each aligned."""
    constants = ir.nodes_of(func.body, ir.AllocateConst)
    return sum(_aligned(_bytes_of(node), constant_byte_alignment) for node in constants)


def _most_at_a_time(func: ir.PrimFunc, alignment: int = 1) -> dict[str, int]:
    now: Counter[str] = Counter()
    most: Counter[str] = Counter()

    def visit(node: ir.Node) -> None:
        if not isinstance(node, ir.Allocate):
            for child in ir.children(node):
                visit(child)
            return
        pointer = node.buffer_var.type_annotation
        scope = "global" if pointer is None else pointer.storage_scope
        size = _aligned(_bytes_of(node), alignment)
        now[scope] += size
        if now[scope] > most[scope]:
            most[scope] = now[scope]
        visit(node.body)
        now[scope] -= size

    visit(func.body)
    return dict(most)


def _bytes_of(node: ir.Allocate | ir.AllocateConst) -> int:
    """What cannot be known before the program runs counts as nothing."""
    extents = [extent.value for extent in node.extents if isinstance(extent, ir.IntImm)]
    if len(extents) < len(node.extents):
        return 0
    return math.prod(extents) * -(-node.dtype.bits // 8) * node.dtype.lanes


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment

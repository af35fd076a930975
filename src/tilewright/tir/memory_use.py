"""Memory that lowered programs allocate."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

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
    return sum(
        _aligned(_bytes_of(node), constant_byte_alignment)
        for node in _allocations(func)
        if isinstance(node, ir.AllocateConst)
    )


def _most_at_a_time(func: ir.PrimFunc, alignment: int = 1) -> dict[str, int]:
    now: Counter[str] = Counter()
    most: Counter[str] = Counter()

    def enter(node: ir.Allocate | ir.AllocateConst, sign: int) -> None:
        if isinstance(node, ir.Allocate):
            now[_scope_of(node)] += sign * _aligned(_bytes_of(node), alignment)
            most.update({s: n - most[s] for s, n in now.items() if n > most[s]})

    _Allocations(enter).visit(func.body)
    return dict(most)


class _Allocations(ir.Visitor):
    """Tells where an allocation begins (1) and ends (-1)."""

    def __init__(self, tell: Callable[[ir.Allocate | ir.AllocateConst, int], None]) -> None:
        self._tell = tell

    def visit_allocate(self, node: ir.Allocate) -> None:
        self._around(node)

    def visit_allocate_const(self, node: ir.AllocateConst) -> None:
        self._around(node)

    def _around(self, node: ir.Allocate | ir.AllocateConst) -> None:
        self._tell(node, 1)
        self.generic_visit(node)
        self._tell(node, -1)


def _allocations(func: ir.PrimFunc) -> list[ir.Allocate | ir.AllocateConst]:
    found: list[ir.Allocate | ir.AllocateConst] = []
    _Allocations(lambda node, sign: found.append(node) if sign > 0 else None).visit(func.body)
    return found


def _scope_of(node: ir.Allocate) -> str:
    pointer = node.buffer_var.type_annotation
    return pointer.storage_scope if isinstance(pointer, ir.PointerType) else "global"


def _bytes_of(node: ir.Allocate | ir.AllocateConst) -> int:
    """What cannot be known before the program runs counts as nothing."""
    extents = [extent.value for extent in node.extents if isinstance(extent, ir.IntImm)]
    if len(extents) < len(node.extents):
        return 0
    return math.prod(extents) * -(-node.dtype.bits // 8) * node.dtype.lanes


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment

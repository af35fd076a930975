"""Functions for certain sizes: symbolic extents and scalar parameters become numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from tilewright.errors import IRError
from tilewright.ir import nodes as ir
from tilewright.ir.arithmetic import fold_binary
from tilewright.ir.node import replace
from tilewright.ir.visit import Substituter, free_vars

if TYPE_CHECKING:
    from tilewright.ir.function import PrimFunc

Special: TypeAlias = int | ir.PrimExpr | ir.Buffer


def symbols_of(func: PrimFunc) -> list[ir.Var]:
    """The variables in the shapes, strides and offsets of a function's arguments, each once."""
    layouts = (extent for buffer in func.buffer_map.values() for extent in buffer.layout)
    return list(dict.fromkeys(var for extent in layouts for var in free_vars(extent)))


class _Specializer(Substituter):
    """Replaces variables, and folds what becomes constant, so that extents are numbers."""

    def visit_binary_op(self, node: ir.BinaryOp) -> ir.PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        return node if a is node.a and b is node.b else fold_binary(type(node), a, b)


def specialize(func: PrimFunc, values: Mapping[ir.Var, Special]) -> PrimFunc:
    """The function for certain sizes.

    Keys are scalar parameters or symbols of shapes, which become numbers, or buffer parameters,
    whose symbols become the extents of the buffer that is given. Scalar parameters go away.
    """
    known = {
        symbol: number
        for key, value in values.items()
        for symbol, number in _bindings(func, key, value)
    }
    change = _Specializer(known.get)
    buffers = {param: change.visit_buffer(buffer) for param, buffer in func.buffer_map.items()}
    params = tuple(param for param in func.params if param not in known)
    body = change.visit(func.body)
    return replace(func, params=params, buffer_map=buffers, body=body)


def _bindings(func: PrimFunc, key: ir.Var, value: Special) -> list[tuple[ir.Var, ir.PrimExpr]]:
    declared = func.buffer_map.get(key)
    if isinstance(value, ir.Buffer):
        if declared is None:
            raise IRError(f"specialize: {key.name!r} is not a buffer parameter of {func.name!r}")
        return _from_buffer(declared, value)
    if declared is not None:
        raise IRError(
            f"specialize: {key.name!r} is a buffer; give a buffer with the sizes that it "
            "should have, or a number for each of its symbols"
        )
    if not any(key is var for var in (*func.params, *symbols_of(func))):
        raise IRError(
            f"specialize: {key.name!r} is neither a parameter of {func.name!r} nor a symbol in the "
            "shapes of its arguments"
        )
    return [(key, ir.const(value, key.dtype) if isinstance(value, int) else value)]


def _from_buffer(declared: ir.Buffer, given: ir.Buffer) -> list[tuple[ir.Var, ir.PrimExpr]]:
    if len(declared.shape) != len(given.shape) or declared.dtype != given.dtype:
        raise IRError(
            f"specialize: {declared.name!r} is {declared.dtype} with {len(declared.shape)} "
            f"dimensions, it is given {given.dtype} with {len(given.shape)}"
        )
    found = []
    for axis, (old, new) in enumerate(zip(declared.shape, given.shape, strict=True)):
        if isinstance(old, ir.Var):
            found.append(
                (old, ir.const(new.value, old.dtype) if isinstance(new, ir.IntImm) else new)
            )
        elif isinstance(old, ir.IntImm) and isinstance(new, ir.IntImm) and old.value != new.value:
            raise IRError(
                f"specialize: {declared.name!r} has {old.value} elements on axis {axis}, it is "
                f"given {new.value}"
            )
    return found

"""Statements inside of nests: the value of a store, the operands of an instruction."""

from __future__ import annotations

from tilewright import ir
from tilewright.codegen.vta.program import PlacedTensor
from tilewright.errors import CodegenError

_IF_THEN_ELSE = ir.Op.get("tir.if_then_else")
_ADDRESS_OF = ir.Op.get("tir.address_of")


def stored_value(store: ir.BufferStore, tensor: PlacedTensor) -> ir.PrimExpr:
    """Rows of the accumulator that a store takes bytes of."""
    if tensor.planes > 1:
        return store.value
    if str(store.buffer.dtype) == "int8" and isinstance(store.value, ir.Cast):
        return store.value.value
    raise CodegenError(
        f"vta: {store.buffer.name} is {store.buffer.dtype}, but results are stored as int8, or as "
        "int32 where they are not read again; cast them"
    )


def loads_of(store: ir.BufferStore) -> list[ir.BufferLoad]:
    return list(ir.nodes_of(store.value, ir.BufferLoad))


def guarded_load(value: ir.PrimExpr) -> tuple[ir.PrimExpr | None, ir.BufferLoad | None]:
    """The condition under which memory is copied, and the copied load; zeros elsewhere."""
    match value:
        case ir.BufferLoad():
            return None, value
        case ir.Call(op=op, args=(condition, ir.BufferLoad() as load, ir.IntImm(value=0))) if (
            op is _IF_THEN_ELSE
        ):
            return condition, load
    return None, None


def pointed_element(pointer: ir.PrimExpr) -> ir.BufferLoad:
    match pointer:
        case ir.Call(op=op, args=(ir.BufferLoad() as load,)) if op is _ADDRESS_OF:
            return load
    raise CodegenError(f"vta: an operand must be the address of an element, got {pointer}")


def check_old_values(
    store: ir.BufferStore, row: ir.BufferLoad, others: list[ir.BufferLoad]
) -> None:
    """Refuse rows that are used after they were changed in place."""
    changed = row.buffer if store.buffer.scope == "global" else store.buffer
    if any(other.buffer.data is changed.data for other in others):
        raise CodegenError(
            f"vta: {changed.name} is changed in place, and its old values are used again in "
            f"{store.value}; compute that into a buffer of its own"
        )
    if row.buffer.data is store.buffer.data and not ir.structural_equal(
        row.indices[0], store.indices[0]
    ):
        raise CodegenError(
            f"vta: rows of {store.buffer.name} are changed in place, but {store.value} reads others"
        )

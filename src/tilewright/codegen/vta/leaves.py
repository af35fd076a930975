"""Statements inside of nests: the operands of an instruction, and the value of a store as steps of
VTA's vector unit on rows of the accumulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright import ir
from tilewright.codegen.vta.program import PlacedTensor
from tilewright.errors import CodegenError
from tilewright.lowering.rewriters import ADDRESS_OF, IF_THEN_ELSE
from tilewright.vta.isa import AluOp

_SHIFT_RIGHT = ir.Op.get("tir.shift_right")
_COMMUTATIVE: Mapping[type, AluOp] = {
    ir.Add: AluOp.ADD,
    ir.Mul: AluOp.MUL,
    ir.Min: AluOp.MIN,
    ir.Max: AluOp.MAX,
}


@dataclass(frozen=True)
class AluStep:
    """`row = op(row, operand)` with a number or another row."""

    op: AluOp
    operand: int | ir.BufferLoad


def steps_of(value: ir.PrimExpr) -> tuple[ir.BufferLoad, tuple[AluStep, ...]]:
    """The row that an expression starts from, and what happens to it."""
    steps: list[AluStep] = []
    while not isinstance(value, ir.BufferLoad):
        value, step = _last_step(value)
        steps.append(step)
    return value, tuple(reversed(steps))


def _last_step(value: ir.PrimExpr) -> tuple[ir.PrimExpr, AluStep]:
    match value:
        case ir.BinaryOp(a=a, b=b) if type(value) in _COMMUTATIVE:
            op = _COMMUTATIVE[type(value)]
            if isinstance(b, ir.IntImm | ir.BufferLoad):
                return a, AluStep(op, _operand(b))
            if isinstance(a, ir.IntImm | ir.BufferLoad):
                return b, AluStep(op, _operand(a))
        case ir.Sub(a=a, b=ir.IntImm(value=number)):
            return a, AluStep(AluOp.ADD, -number)
        case ir.Call(op=op, args=(a, ir.IntImm() | ir.BufferLoad() as b)) if op is _SHIFT_RIGHT:
            return a, AluStep(AluOp.SHR, _operand(b))
    raise CodegenError(
        f"vta: the vector unit cannot compute {value}; it adds, multiplies, shifts right, and "
        "takes minima and maxima of rows of the accumulator and numbers"
    )


def _operand(value: ir.IntImm | ir.BufferLoad) -> int | ir.BufferLoad:
    return value.value if isinstance(value, ir.IntImm) else value


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


def guarded_load(value: ir.PrimExpr) -> tuple[ir.PrimExpr | None, ir.BufferLoad | None]:
    """The condition under which memory is copied, and the copied load; zeros elsewhere."""
    match value:
        case ir.BufferLoad():
            return None, value
        case ir.Call(op=op, args=(condition, ir.BufferLoad() as load, ir.IntImm(value=0))) if (
            op is IF_THEN_ELSE
        ):
            return condition, load
    return None, None


def pointed_element(pointer: ir.PrimExpr) -> ir.BufferLoad:
    match pointer:
        case ir.Call(op=op, args=(ir.BufferLoad() as load,)) if op is ADDRESS_OF:
            return load
    raise CodegenError(f"vta: an operand must be the address of an element, got {pointer}")


def other_rows(
    store: ir.BufferStore, row: ir.BufferLoad, steps: Sequence[AluStep]
) -> list[ir.BufferLoad]:
    """The rows that steps use besides the first, none of which may have been changed in place."""
    others = [step.operand for step in steps if isinstance(step.operand, ir.BufferLoad)]
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
    return others

"""Expressions on rows of the accumulator as steps of VTA's vector unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright import ir
from tilewright.errors import CodegenError
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
            if _is_operand(b):
                return a, AluStep(op, _operand(b))
            if _is_operand(a):
                return b, AluStep(op, _operand(a))
        case ir.Sub(a=a, b=ir.IntImm(value=number)):
            return a, AluStep(AluOp.ADD, -number)
        case ir.Call(op=op, args=(a, b)) if op is _SHIFT_RIGHT and _is_operand(b):
            return a, AluStep(AluOp.SHR, _operand(b))
    raise CodegenError(
        f"vta: the vector unit cannot compute {value}; it adds, multiplies, shifts right, and "
        "takes minima and maxima of rows of the accumulator and numbers"
    )


def _is_operand(value: ir.PrimExpr) -> bool:
    return isinstance(value, ir.IntImm | ir.BufferLoad)


def _operand(value: ir.PrimExpr) -> int | ir.BufferLoad:
    if isinstance(value, ir.IntImm):
        return value.value
    assert isinstance(value, ir.BufferLoad)
    return value

"""Evaluating operations on constants."""

from __future__ import annotations

from tilewright.arith.interning import is_pure_call
from tilewright.ir import (
    Add,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Div,
    DType,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Op,
    PrimExpr,
    Sub,
    bitwise,
    cast,
    const,
    wrap_int,
)
from tilewright.ir.folding import FOLDERS

_DIVISIONS = frozenset({Div, Mod, FloorDiv, FloorMod})
# Types whose arithmetic the folding functions round correctly.
_EXACT_FLOATS = frozenset({"float16", "float32", "float64"})


def fold_binary(kind: type[BinaryOp], a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """`kind(a, b)` evaluated, or with a negative constant respelt; None when neither applies."""
    if type(b) is IntImm:
        if type(a) is IntImm:
            return _fold_constants(kind, a, b)
        if b.value < 0 and (kind is Add or kind is Sub):
            return _respell_negative(kind, a, b)
    elif type(a) is FloatImm and type(b) is FloatImm and a.dtype in _EXACT_FLOATS:
        return _fold_floats(kind, a, b)
    return None


def _fold_constants(kind: type[BinaryOp], a: IntImm, b: IntImm) -> PrimExpr | None:
    if a.dtype.is_bool or (b.value == 0 and kind in _DIVISIONS):
        return None
    return FOLDERS[kind](a, b)


def _fold_floats(kind: type[BinaryOp], a: FloatImm, b: FloatImm) -> PrimExpr | None:
    if kind in (Mod, FloorDiv, FloorMod) or (kind is Div and b.value == 0):
        return None
    return FOLDERS[kind](a, b)


def _respell_negative(kind: type[BinaryOp], a: PrimExpr, b: IntImm) -> PrimExpr | None:
    """`a + -3` as `a - 3`, and the other way round."""
    if wrap_int(-b.value, b.dtype) != -b.value:
        return None  # the smallest number of the type has no opposite
    opposite = const(-b.value, b.dtype)
    return Sub(a, opposite) if kind is Add else Add(a, opposite)


def fold_cast(dtype: DType, value: PrimExpr) -> PrimExpr:
    """A cast, evaluated on constants and moved below broadcasts."""
    if isinstance(value, (IntImm, Broadcast)) or value.dtype is dtype:
        return cast(dtype, value)
    if isinstance(value, FloatImm) and dtype in _EXACT_FLOATS and value.dtype.bits <= dtype.bits:
        return cast(dtype, value)
    return Cast(dtype, value)


_BITWISE = frozenset(
    f"tir.{name}"
    for name in ["bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"]
)


def fold_call(call: Call) -> PrimExpr:
    """A call of a builtin on constants, evaluated where that is exact."""
    if not isinstance(call.op, Op) or not is_pure_call(call):
        return call
    if call.op.name == "tir.likely" and isinstance(call.args[0], IntImm):
        return call.args[0]
    if call.op.name in _BITWISE and all(isinstance(arg, IntImm) for arg in call.args):
        shift = call.args[1]
        if "shift" not in call.op.name or (isinstance(shift, IntImm) and 0 <= shift.value < 64):
            return bitwise(call.op.name, *call.args)
    return call

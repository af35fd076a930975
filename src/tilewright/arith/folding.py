"""Evaluating operations on constants."""

from __future__ import annotations

from tilewright import ir
from tilewright.arith.interning import is_pure_call
from tilewright.ir.arithmetic import DIVISIONS, FOLDERS

# Types whose arithmetic the folding functions round correctly.
_EXACT_FLOATS = frozenset({"float16", "float32", "float64"})


def fold_binary(kind: type[ir.BinaryOp], a: ir.PrimExpr, b: ir.PrimExpr) -> ir.PrimExpr | None:
    """`kind(a, b)` evaluated, or with a negative constant respelt; None when neither applies."""
    if type(b) is ir.IntImm:
        if type(a) is ir.IntImm:
            inexact = a.dtype.is_bool or (b.value == 0 and kind in DIVISIONS)
            return None if inexact else FOLDERS[kind](a, b)
        if b.value < 0 and (kind is ir.Add or kind is ir.Sub):
            return _respell_negative(kind, a, b)
    elif type(a) is ir.FloatImm and type(b) is ir.FloatImm and a.dtype in _EXACT_FLOATS:
        inexact = kind in DIVISIONS and (kind is not ir.Div or b.value == 0)
        return None if inexact else FOLDERS[kind](a, b)
    return None


def _respell_negative(kind: type[ir.BinaryOp], a: ir.PrimExpr, b: ir.IntImm) -> ir.PrimExpr | None:
    """`a + -3` as `a - 3`, and the other way round."""
    if ir.wrap_int(-b.value, b.dtype) != -b.value:
        return None  # the smallest number of the type has no opposite
    opposite = ir.const(-b.value, b.dtype)
    return ir.Sub(a, opposite) if kind is ir.Add else ir.Add(a, opposite)


def fold_cast(dtype: ir.DType, value: ir.PrimExpr) -> ir.PrimExpr:
    """A cast, evaluated on constants and moved below broadcasts."""
    if isinstance(value, (ir.IntImm, ir.Broadcast)) or value.dtype is dtype:
        return ir.cast(dtype, value)
    if isinstance(value, ir.FloatImm) and dtype in _EXACT_FLOATS and value.dtype.bits <= dtype.bits:
        return ir.cast(dtype, value)
    return ir.Cast(dtype, value)


_BITWISE = frozenset(
    f"tir.{name}"
    for name in ["bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"]
)


def fold_call(call: ir.Call) -> ir.PrimExpr:
    """A call of a builtin on constants, evaluated where that is exact."""
    if not isinstance(call.op, ir.Op) or not is_pure_call(call):
        return call
    if call.op.name == "tir.likely" and isinstance(call.args[0], ir.IntImm):
        return call.args[0]
    if call.op.name in _BITWISE and all(isinstance(arg, ir.IntImm) for arg in call.args):
        shift = call.args[1]
        if "shift" not in call.op.name or (isinstance(shift, ir.IntImm) and 0 <= shift.value < 64):
            return ir.bitwise(call.op.name, *call.args)
    return call

"""Operators on NumPy values, with the exact semantics of TensorIR.

A value is a NumPy scalar or an array of one dtype, so integers wrap and floats round after every
operation by themselves. 4-bit integers are computed in 8 bits and wrapped.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tilewright import ir
from tilewright.ir.numpy_bridge import to_numpy

Value: TypeAlias = Any  # a NumPy scalar or array
Binary: TypeAlias = Callable[[Value, Value], Value]


def select(condition: Value, true_value: Value, false_value: Value) -> Value:
    """`true_value` where `condition` holds."""
    if type(condition) is np.bool_:
        return true_value if condition else false_value
    return np.where(condition, true_value, false_value)


def _trunc_divide(a: Value, b: Value) -> Value:
    return (a - np.fmod(a, b)) // b


def _minimum(a: Value, b: Value) -> Value:
    return select((a < b) | (a != a), a, b)  # NaN where one of them is


def _maximum(a: Value, b: Value) -> Value:
    return select((a > b) | (a != a), a, b)


_ANY_TYPE: dict[type[ir.BinaryOp], Binary] = {
    ir.Add: operator.add,
    ir.Sub: operator.sub,
    ir.Mul: operator.mul,
    ir.Min: _minimum,
    ir.Max: _maximum,
    ir.EQ: operator.eq,
    ir.NE: operator.ne,
    ir.LT: operator.lt,
    ir.LE: operator.le,
    ir.GT: operator.gt,
    ir.GE: operator.ge,
}
_FLOATS: dict[type[ir.BinaryOp], Binary] = {ir.Div: operator.truediv, ir.Mod: np.fmod}
_INTEGERS: dict[type[ir.BinaryOp], Binary] = {
    ir.Div: _trunc_divide,
    ir.Mod: np.fmod,  # has the sign of the dividend, as in C
    ir.FloorDiv: operator.floordiv,
    ir.FloorMod: operator.mod,
}
INTEGER_DIVISIONS = frozenset(_INTEGERS)


def binary_operator(node_class: type[ir.BinaryOp], dtype: ir.DType) -> Binary | None:
    """The function for an operator on operands of `dtype`, or None where it has no meaning."""
    by_type = _FLOATS if dtype.is_float else _INTEGERS
    found = _ANY_TYPE.get(node_class) or by_type.get(node_class)
    if found is None or not is_narrow(dtype):
        return found
    return _narrow(found, dtype)


def is_narrow(dtype: ir.DType) -> bool:
    """True for integers of fewer bits than NumPy computes with."""
    return dtype.is_integral and dtype.bits < 8


def widen(value: Value, dtype: ir.DType) -> Value:
    """A 4-bit integer as an 8-bit one; other values as they are."""
    return value.astype(np.int8 if dtype.is_int else np.uint8) if is_narrow(dtype) else value


def _narrow(function: Binary, dtype: ir.DType) -> Binary:
    target = to_numpy(dtype.element_of)

    def compute(a: Value, b: Value) -> Value:
        result = function(widen(a, dtype), widen(b, dtype))
        return result if result.dtype == np.bool_ else result.astype(target)

    return compute


def caster(source: ir.DType, target: ir.DType) -> Callable[[Value], Value]:
    """The function that converts values of one type to another, lane by lane."""
    if target.is_bool:
        return lambda value: value != 0
    kind = to_numpy(target.element_of)
    if source.is_float and is_narrow(target):
        return lambda value: value.astype(np.float32).astype(np.int8).astype(kind)
    if source.is_float and target.is_integral and source.bits < 32:
        return lambda value: value.astype(np.float32).astype(kind)
    if is_narrow(source) or (source.is_bool and target.is_float):
        return lambda value: value.astype(np.int8 if source.is_int else np.uint8).astype(kind)
    return lambda value: value.astype(kind)


def constant(value: int | float, dtype: ir.DType) -> Value:
    """A Python number as a NumPy scalar; integers wrap."""
    kind = to_numpy(dtype)
    if dtype.is_float or dtype.is_bool:
        return kind.type(value)
    wide = np.int64(value) if value < 2**63 else np.uint64(value)
    return wide.astype(kind)

"""Evaluating index expressions and conditions on NumPy arrays, all elements at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright import ir
from tilewright.errors import ArithError

Values: TypeAlias = npt.NDArray[Any]


def _truncated_quotient(a: Values, b: Values) -> Values:
    quotient: Values = np.abs(a) // np.abs(b) * (np.sign(a) * np.sign(b))
    return quotient


def _truncated_remainder(a: Values, b: Values) -> Values:
    remainder: Values = a - b * _truncated_quotient(a, b)
    return remainder


_BINARY: dict[type, Callable[[Values, Values], Values]] = {
    ir.Add: np.add,
    ir.Sub: np.subtract,
    ir.Mul: np.multiply,
    ir.Div: _truncated_quotient,
    ir.Mod: _truncated_remainder,
    ir.FloorDiv: np.floor_divide,
    ir.FloorMod: np.mod,
    ir.Min: np.minimum,
    ir.Max: np.maximum,
    ir.EQ: np.equal,
    ir.NE: np.not_equal,
    ir.LT: np.less,
    ir.LE: np.less_equal,
    ir.GT: np.greater,
    ir.GE: np.greater_equal,
    ir.And: np.logical_and,
    ir.Or: np.logical_or,
}
_IF_THEN_ELSE = ir.Op.get("tir.if_then_else")
_XOR = ir.Op.get("tir.bitwise_xor")


def evaluate_on_arrays(expr: ir.PrimExpr, values: Mapping[ir.Var, Values]) -> Values:
    """The values of an integer or boolean expression for given values of its variables."""

    def visit(node: ir.PrimExpr) -> Values:
        match node:
            case ir.IntImm(value=value):
                return np.asarray(value, np.bool_ if node.dtype.is_bool else np.int64)
            case ir.Var() if node in values:
                return values[node]
            case ir.Cast(dtype=dtype, value=value) if dtype.is_int and dtype.bits >= 32:
                return np.asarray(visit(value), np.int64)
            case ir.Not(a=a):
                return np.logical_not(visit(a))
            case ir.Select(condition=condition, true_value=yes, false_value=no):
                return np.where(visit(condition), visit(yes), visit(no))
            case ir.Call(op=op, args=(condition, yes, no)) if op is _IF_THEN_ELSE:
                return np.where(visit(condition), visit(yes), visit(no))
            case ir.Call(op=op, args=(a, b)) if op is _XOR:
                return np.bitwise_xor(visit(a), visit(b))
            case ir.BinaryOp(a=a, b=b) if type(node) in _BINARY:
                return _BINARY[type(node)](visit(a), visit(b))
        raise ArithError(f"cannot evaluate {node} on arrays: only integer arithmetic is possible")

    return visit(expr)

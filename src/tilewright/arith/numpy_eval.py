"""Evaluating index expressions and conditions on NumPy arrays, all elements at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArithError
from tilewright.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Op,
    Or,
    PrimExpr,
    Select,
    Sub,
    Var,
)

Values: TypeAlias = npt.NDArray[Any]


def _truncated_quotient(a: Values, b: Values) -> Values:
    quotient: Values = np.abs(a) // np.abs(b) * (np.sign(a) * np.sign(b))
    return quotient


def _truncated_remainder(a: Values, b: Values) -> Values:
    remainder: Values = a - b * _truncated_quotient(a, b)
    return remainder


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    Add: np.add,
    Sub: np.subtract,
    Mul: np.multiply,
    Div: _truncated_quotient,
    Mod: _truncated_remainder,
    FloorDiv: np.floor_divide,
    FloorMod: np.mod,
    Min: np.minimum,
    Max: np.maximum,
    EQ: np.equal,
    NE: np.not_equal,
    LT: np.less,
    LE: np.less_equal,
    GT: np.greater,
    GE: np.greater_equal,
    And: np.logical_and,
    Or: np.logical_or,
}
_IF_THEN_ELSE = Op.get("tir.if_then_else")


def evaluate_on_arrays(expr: PrimExpr, values: Mapping[Var, Values]) -> Values:
    """The values of an integer or boolean expression for given values of its variables."""

    def visit(node: PrimExpr) -> Any:
        match node:
            case IntImm(value=value):
                return np.asarray(value, np.bool_ if node.dtype.is_bool else np.int64)
            case Var() if node in values:
                return values[node]
            case Cast(dtype=dtype, value=value) if dtype.is_int and dtype.bits >= 32:
                return np.asarray(visit(value), np.int64)
            case Not(a=a):
                return np.logical_not(visit(a))
            case Select(condition=condition, true_value=yes, false_value=no):
                return np.where(visit(condition), visit(yes), visit(no))
            case Call(op=op, args=(condition, yes, no)) if op is _IF_THEN_ELSE:
                return np.where(visit(condition), visit(yes), visit(no))
            case BinaryOp(a=a, b=b) if type(node) in _BINARY:
                return _BINARY[type(node)](visit(a), visit(b))
        raise ArithError(f"cannot evaluate {node} on arrays: only integer arithmetic is possible")

    result: Values = visit(expr)
    return result

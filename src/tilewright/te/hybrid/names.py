"""Functions that a hybrid script may call: each as IR, and as plain Python on NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir import ForKind, cast, convert, intrinsics as ir_math, maximum, minimum, truncdiv

LOOP_KINDS: dict[str, ForKind] = {
    "range": ForKind.SERIAL,
    "serial": ForKind.SERIAL,
    "unroll": ForKind.UNROLLED,
    "parallel": ForKind.PARALLEL,
    "vectorize": ForKind.VECTORIZED,
}
CONST_RANGE = "const_range"
BIND = "bind"
OUTPUT_TENSOR = "output_tensor"
ALLOCATE = "allocate"

CASTS = [
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bool",
]


def _cast_to(dtype: str) -> Callable[[Any], Any]:
    return lambda value: cast(dtype, convert(value))


def _ceil_div(a: Any, b: Any) -> Any:
    return (a + b - 1) // b


def _fold(pick: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def chosen(*values: Any) -> Any:
        result = values[0]
        for value in values[1:]:
            result = pick(result, value)
        return result

    return chosen


# name -> the function that builds the expression
AS_IR: dict[str, Callable[..., Any]] = {
    "log": ir_math.log,
    "exp": ir_math.exp,
    "sigmoid": ir_math.sigmoid,
    "tanh": ir_math.tanh,
    "sqrt": ir_math.sqrt,
    "rsqrt": ir_math.rsqrt,
    "power": ir_math.power,
    "popcount": ir_math.popcount,
    "round": ir_math.round,
    "floor": ir_math.floor,
    "ceil": ir_math.ceil,
    "abs": ir_math.abs,
    "sin": ir_math.sin,
    "cos": ir_math.cos,
    "erf": ir_math.erf,
    "likely": ir_math.likely,
    "max": _fold(maximum),
    "min": _fold(minimum),
    "ceil_div": _ceil_div,
    "div": truncdiv,
    **{dtype: _cast_to(dtype) for dtype in CASTS},
}


def _np_popcount(x: Any) -> int:
    return bin(int(x) & ((1 << (np.asarray(x).dtype.itemsize * 8)) - 1)).count("1")


# the same names when a script runs as plain Python
AS_PYTHON: dict[str, Any] = {
    "serial": range,
    "unroll": range,
    "parallel": range,
    "vectorize": range,
    CONST_RANGE: range,
    BIND: lambda tag, extent: range(extent),
    OUTPUT_TENSOR: lambda shape, dtype: np.zeros(shape, dtype=dtype),
    ALLOCATE: lambda shape, dtype, scope="global": np.zeros(shape, dtype=dtype),
    "log": np.log,
    "exp": np.exp,
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "power": np.power,
    "popcount": _np_popcount,
    "floor": np.floor,
    "ceil": np.ceil,
    "sin": np.sin,
    "cos": np.cos,
    "erf": math.erf,
    "likely": lambda condition: condition,
    "ceil_div": lambda a, b: -(-a // b),
    "div": lambda a, b: int(a / b),
    **{dtype: getattr(np, dtype if dtype != "bool" else "bool_") for dtype in CASTS},
}

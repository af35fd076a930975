"""Functions that a hybrid script may call: each as IR, and as plain Python on NumPy arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir import ForKind, cast, intrinsics as ir_math, maximum, minimum, truncdiv

LOOP_KINDS: dict[str, ForKind] = {
    "range": ForKind.SERIAL,
    "serial": ForKind.SERIAL,
    "unroll": ForKind.UNROLLED,
    "parallel": ForKind.PARALLEL,
    "vectorize": ForKind.VECTORIZED,
}
_INTRINSICS = (
    "log", "exp", "sigmoid", "tanh", "sqrt", "rsqrt", "power", "popcount", "round", "floor", "ceil",
    "abs", "sin", "cos", "erf", "likely",
)  # fmt: skip
CONST_RANGE = "const_range"
BIND = "bind"
OUTPUT_TENSOR = "output_tensor"
ALLOCATE = "allocate"

CASTS = (
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
    "bool",
)


# name -> the function that builds the expression
AS_IR: dict[str, Callable[..., Any]] = {
    **{name: getattr(ir_math, name) for name in _INTRINSICS},
    "max": lambda *values: functools.reduce(maximum, values),
    "min": lambda *values: functools.reduce(minimum, values),
    "ceil_div": lambda a, b: (a + b - 1) // b,
    "div": truncdiv,
    **{dtype: functools.partial(cast, dtype) for dtype in CASTS},
}


def _np_popcount(x: Any) -> int:
    return bin(int(x) & ((1 << (np.asarray(x).dtype.itemsize * 8)) - 1)).count("1")


_UFUNCS = ("log", "exp", "tanh", "sqrt", "power", "floor", "ceil", "sin", "cos")
# the same names when a script runs as plain Python
AS_PYTHON: dict[str, Any] = {
    **dict.fromkeys((*LOOP_KINDS, CONST_RANGE), range),
    BIND: lambda tag, extent: range(extent),
    OUTPUT_TENSOR: lambda shape, dtype: np.zeros(shape, dtype=dtype),
    ALLOCATE: lambda shape, dtype, scope="global": np.zeros(shape, dtype=dtype),
    **{name: getattr(np, name) for name in _UFUNCS},
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "popcount": _np_popcount,
    "erf": math.erf,
    "likely": lambda condition: condition,
    "ceil_div": lambda a, b: -(-a // b),
    "div": lambda a, b: int(a / b),
    **{dtype: np.dtype(dtype).type for dtype in CASTS},
}

"""Values of builtin operators and extern functions.

Float functions are computed in float64 and rounded once, so the result is the best one of its type.
`register_extern` teaches the oracle C functions and LLVM intrinsics that a program calls by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tilewright.errors import RegistryError
from tilewright.ir import DType
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.testing.oracle.arithmetic import Value, widen

Function = Callable[..., Value]


def _round_half_away(x: Value) -> Value:
    whole = np.trunc(x)
    rounded = whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1.0, x), 0.0)
    return np.copysign(rounded, x)  # what is rounded to zero keeps its sign


def _vectorized(function: Callable[[float], float]) -> Function:
    """A scalar function of the standard library for scalars and arrays alike."""
    lifted = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(lifted(x), np.float64)[()]


# Functions from float64 to float64.
_FLOAT_FUNCTIONS: dict[str, Function] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: np.power(10.0, x),
    "expm1": np.expm1,
    "erf": _vectorized(math.erf),
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": _round_half_away,
    "nearbyint": np.rint,
    "fabs": np.abs,
    "pow": np.power,
    "fmod": np.fmod,
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "hypot": np.hypot,
    "ldexp": lambda x, exponent: np.ldexp(x, exponent.astype(np.int32)),
}
_FLOAT_TESTS: dict[str, Function] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}
_BITWISE: dict[str, Function] = {
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "bitwise_not": lambda a: ~a,
    "shift_left": lambda a, b: a << b,
    "shift_right": lambda a, b: a >> b,
}


def builtin(name: str, argument: DType, result: DType) -> Function | None:
    """The function of the operator `tir.<name>`, or None if it is not a plain function."""
    kind = None if result.is_handle or result == "void" else to_numpy(result.element_of)
    if name in _FLOAT_FUNCTIONS:
        return _in_float64(_FLOAT_FUNCTIONS[name], kind)
    if name in _FLOAT_TESTS:
        return _in_float64(_FLOAT_TESTS[name], kind)
    if name in _BITWISE:
        return _in_integers(_BITWISE[name], argument, kind)
    special = _SPECIAL.get(name)
    return None if special is None else special(argument, kind)


def _in_float64(function: Function, kind: Any) -> Function:
    def compute(*args: Value) -> Value:
        return function(*(arg.astype(np.float64) for arg in args)).astype(kind)

    return compute


def _in_integers(function: Function, argument: DType, kind: Any) -> Function:
    def compute(*args: Value) -> Value:
        return function(*(widen(arg, argument) for arg in args)).astype(kind)

    return compute


def _next_after(argument: DType, kind: Any) -> Function:
    return lambda x, y: np.nextafter(x, y).astype(kind)


def _fused_multiply_add(argument: DType, kind: Any) -> Function:
    if argument.bits == 64:
        return lambda a, b, c: np.asarray(_exact_multiply_add(a, b, c), np.float64)[()]

    def compute(a: Value, b: Value, c: Value) -> Value:
        product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
        return _sum_rounded_to_odd(product, addend).astype(kind)

    return compute


def _sum_rounded_to_odd(a: Value, b: Value) -> Value:
    """The float64 sum, odd in its last bit when inexact, so that rounding it again is exact."""
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    bits = total.view(np.int64)
    towards_error = np.where((error > 0) == (total > 0), np.int64(1), np.int64(-1))
    adjust = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    return np.where(adjust, bits + towards_error, bits).view(np.float64)[()]


def _exact_float64_multiply_add(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    total = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(total) if total else a * b + c  # a zero keeps its sign
    except OverflowError:
        return math.copysign(math.inf, total)


_exact_multiply_add = np.frompyfunc(_exact_float64_multiply_add, 3, 1)


def _population_count(argument: DType, kind: Any) -> Function:
    unsigned = np.dtype(f"u{argument.itemsize}")
    return lambda x: np.bitwise_count(x.view(unsigned)).astype(kind)


def _leading_zeros(argument: DType, kind: Any) -> Function:
    bits, unsigned = argument.bits, np.dtype(f"u{argument.itemsize}")

    def compute(x: Value) -> Value:
        rest = x.view(unsigned)
        for shift in (1, 2, 4, 8, 16, 32):
            if shift < bits:
                rest = rest | (rest >> unsigned.type(shift))
        return (bits - np.bitwise_count(rest).astype(np.int32)).astype(kind)

    return compute


def _multiply_shift(argument: DType, kind: Any) -> Function:
    """`round(x * y * 2**(s - q))`: Q`q` fixed point and a shift to the left, ties upwards."""

    def compute(x: Value, y: Value, q: Value, s: Value) -> Value:
        total = q.astype(np.int64) - s.astype(np.int64)
        product = x.astype(np.int64) * y.astype(np.int64)
        right = np.maximum(total, 1)
        rounded = (product + (np.int64(1) << (right - 1))) >> right
        return np.where(total > 0, rounded, product << np.maximum(-total, 0)).astype(kind)[()]

    return compute


def _multiply_shift_per_axis(argument: DType, kind: Any) -> Function:
    def compute(
        x: Value, y: Value, left: Value, right: Value, q: Value, left_on: Value, right_on: Value
    ) -> Value:
        wide = x.astype(np.int64)
        wide = np.where(left_on != 0, wide << left.astype(np.int64), wide)
        total = q.astype(np.int64) + np.where(right_on != 0, right.astype(np.int64), 0)
        product = wide * y.astype(np.int64) + (np.int64(1) << (total - 1))
        return (product >> total).astype(kind)[()]

    return compute


def _reinterpret(argument: DType, kind: Any) -> Function:
    def compute(x: Value) -> Value:
        if isinstance(x, np.ndarray):
            return np.ascontiguousarray(x).view(kind)
        return x.view(kind)

    return compute


def _large_uint(argument: DType, kind: Any) -> Function:
    return lambda low, high: (
        (high.astype(np.uint64) << np.uint64(32)) | (low.astype(np.uint64) & np.uint64(0xFFFFFFFF))
    ).astype(kind)


def _lanes(take: Callable[[Value], Value]) -> Callable[[DType, Any], Function]:
    return lambda argument, kind: take


def _low_half(x: Value) -> Value:
    return x[..., : x.shape[-1] // 2]


def _high_half(x: Value) -> Value:
    return x[..., x.shape[-1] // 2 :]


def _dot_of_bytes(argument: DType, kind: Any) -> Function:
    def compute(a: Value, b: Value, total: Value) -> Value:
        wide_a, wide_b = a.astype(np.int64), b.astype(np.int64)
        return (np.sum(wide_a * wide_b, axis=-1) + total.astype(np.int64)).astype(kind)

    return compute


def _combine(argument: DType, kind: Any) -> Function:
    def compute(low: Value, high: Value) -> Value:
        return np.concatenate(np.broadcast_arrays(low, high), axis=-1)

    return compute


# Operators whose function depends on the type of the argument or of the result.
_SPECIAL: dict[str, Callable[[DType, Any], Function]] = {
    "nextafter": _next_after,
    "fma": _fused_multiply_add,
    "popcount": _population_count,
    "clz": _leading_zeros,
    "q_multiply_shift": _multiply_shift,
    "q_multiply_shift_per_axis": _multiply_shift_per_axis,
    "reinterpret": _reinterpret,
    "large_uint_imm": _large_uint,
    "vectorlow": _lanes(_low_half),
    "vectorhigh": _lanes(_high_half),
    "vectorcombine": _combine,
    "dp4a": _dot_of_bytes,
    "likely": _lanes(lambda x: x),
    "undef": lambda argument, kind: lambda: kind.type(0),
}

_externs: dict[str, Function] = {}


def register_extern(name: str, function: Function, *, override: bool = False) -> None:
    """Define the extern function `name` for the oracle.

    It receives NumPy scalars, arrays for vectors, a flat NumPy array for a pointer, and strings.
    """
    if name in _externs and not override:
        raise RegistryError(
            f"extern function {name!r} is already registered; pass override=True to replace it"
        )
    _externs[name] = function


def find_extern(name: str) -> Function | None:
    """The registered extern function `name`, or the C math function of that name."""
    found = _externs.get(name)
    if found is not None:
        return found
    for suffix, kind in (("", np.float64), ("f", np.float32)):
        function = _FLOAT_FUNCTIONS.get(name[: len(name) - len(suffix)])
        if name.endswith(suffix) and function is not None:
            return _in_float64(function, np.dtype(kind))
    return None

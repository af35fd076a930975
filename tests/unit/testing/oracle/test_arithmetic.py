"""Operators and intrinsics of the oracle against exact Python arithmetic."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from tilewright.ir import (
    Add,
    BinaryOp,
    Cast,
    Div,
    DType,
    Evaluate,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    PrimFunc,
    Sub,
    Var,
    const,
    free_vars,
    intrinsics,
    max_value_of,
    min_value_of,
    wrap_int,
)
from tilewright.testing import oracle


def evaluate(expr: PrimExpr, values: dict[Var, Any]) -> Any:
    body = Evaluate(intrinsics.ret(expr))
    return oracle.run(PrimFunc(tuple(values), body), *values.values())


def _truncated(a: int, b: int) -> int:
    return int(Fraction(a, b))


INTEGER_OPERATORS: dict[type[BinaryOp], Callable[[int, int], int]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    Div: _truncated,
    Mod: lambda a, b: a - b * _truncated(a, b),
    FloorDiv: lambda a, b: a // b,
    FloorMod: lambda a, b: a % b,
    Min: min,
    Max: max,
}
DIVISIONS = (Div, Mod, FloorDiv, FloorMod)
INTEGER_TYPES = ["int4", "int8", "int16", "int32", "int64", "uint4", "uint8", "uint32", "uint64"]


@pytest.mark.parametrize("dtype", INTEGER_TYPES)
@given(data=st.data())
def test_integer_operators_wrap(dtype: str, data: st.DataObject) -> None:
    kind = DType(dtype)
    numbers = st.integers(int(min_value_of(kind)), int(max_value_of(kind)))
    x, y, a, b = Var("x", kind), Var("y", kind), data.draw(numbers), data.draw(numbers)
    for operator, exact in INTEGER_OPERATORS.items():
        if operator in DIVISIONS and b == 0:
            continue
        result = evaluate(operator(x, y), {x: a, y: b})
        assert int(result) == wrap_int(exact(a, b), kind), (operator, a, b)


FLOAT_TYPES = {
    "float64": np.float64,
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}


@pytest.mark.parametrize("dtype", FLOAT_TYPES)
@pytest.mark.parametrize("operator", [Add, Sub, Mul, Div])
@given(data=st.data())
def test_float_operators_round_correctly(
    dtype: str, operator: type[BinaryOp], data: st.DataObject
) -> None:
    kind, scalar = DType(dtype), FLOAT_TYPES[dtype]
    numbers = st.floats(0.0625, 100.0).map(lambda value: float(scalar(value)))
    x, y, a, b = Var("x", kind), Var("y", kind), data.draw(numbers), data.draw(numbers)
    result = evaluate(operator(x, y), {x: a, y: b})
    assert result.dtype == np.dtype(scalar)
    exact = {Add: Fraction.__add__, Sub: Fraction.__sub__, Mul: Fraction.__mul__}.get(
        operator, Fraction.__truediv__
    )(Fraction(a), Fraction(b))
    error = abs(Fraction(float(result)) - exact)
    step = Fraction(float(np.spacing(result)) if dtype != "bfloat16" else abs(float(result)) / 128)
    assert error <= abs(step) / 2


def test_bfloat16_sum_rounds_to_nearest_even() -> None:
    x, y = Var("x", DType("bfloat16")), Var("y", DType("bfloat16"))
    assert float(evaluate(x + y, {x: 256.0, y: 1.0})) == 256.0
    assert float(evaluate(x + y, {x: 258.0, y: 1.0})) == 260.0


def _bits(value: float) -> int:
    return int(struct.unpack("I", struct.pack("f", value))[0])


INT32 = DType("int32")
CASES: list[tuple[str, PrimExpr, Any]] = [
    (
        "shift right keeps the sign",
        intrinsics.shift_right(Var("v"), const(2)),
        wrap_int(-9 >> 2, INT32),
    ),
    ("shift left", intrinsics.shift_left(Var("v"), const(3)), -72),
    ("not", intrinsics.bitwise_not(Var("v")), 8),
    ("and", intrinsics.bitwise_and(Var("v"), const(0xFF)), 0xF7),
    ("xor", intrinsics.bitwise_xor(Var("v"), const(-1)), 8),
    ("popcount", intrinsics.popcount(Var("v")), 31),
    ("clz of a negative number", intrinsics.clz(Var("v")), 0),
    ("cast to int8", Cast(DType("int8"), Var("v") * 100), wrap_int(-900, DType("int8"))),
    ("cast to uint8", Cast(DType("uint8"), Var("v")), 247),
    ("cast to bool", Cast(DType("bool"), Var("v")), True),
    ("cast to float", Cast(DType("float32"), Var("v")), -9.0),
    ("float to int", Cast(INT32, Cast(DType("float32"), Var("v")) * 0.3), -2),
    ("reinterpret", intrinsics.reinterpret("float32", Var("v")), None),
    (
        "q_multiply_shift",
        intrinsics.q_multiply_shift(Var("v"), const(1 << 30), const(31), const(-1)),
        -2,
    ),
    ("abs", intrinsics.abs(Var("v")), 9),
]


@pytest.mark.parametrize(("label", "expr", "expected"), CASES, ids=[case[0] for case in CASES])
def test_integer_intrinsics(label: str, expr: PrimExpr, expected: Any) -> None:
    result = evaluate(expr, {free_vars(expr)[0]: -9})
    if expected is None:
        assert _bits(float(result)) == wrap_int(-9, DType("uint32")) or math.isnan(float(result))
    else:
        assert result == expected


@pytest.mark.parametrize("value", [0, 1, 255, 2**31, 2**63 - 1])
def test_leading_zeros(value: int) -> None:
    x = Var("x", DType("int64"))
    assert evaluate(intrinsics.clz(x), {x: value}) == 64 - value.bit_length()


@pytest.mark.parametrize(
    ("build", "exact"),
    [
        (intrinsics.exp, math.exp),
        (intrinsics.log, math.log),
        (intrinsics.tanh, math.tanh),
        (intrinsics.erf, math.erf),
        (intrinsics.sqrt, math.sqrt),
        (intrinsics.rsqrt, lambda x: 1 / math.sqrt(x)),
        (intrinsics.sigmoid, lambda x: 1 / (1 + math.exp(-x))),
        (intrinsics.floor, math.floor),
        (intrinsics.ceil, math.ceil),
        (intrinsics.trunc, math.trunc),
    ],
)
@given(value=st.floats(0.015625, 50.0, width=32))
def test_float_functions_are_rounded_once(
    build: Callable[[Any], PrimExpr], exact: Callable[[float], float], value: float
) -> None:
    x = Var("x", DType("float32"))
    result = evaluate(build(x), {x: value})
    assert result.dtype == np.float32
    assert abs(float(result) - exact(value)) <= np.spacing(np.abs(result)) * 0.5000001


@pytest.mark.parametrize(("value", "away", "even"), [(0.5, 1, 0), (1.5, 2, 2), (-2.5, -3, -2)])
def test_rounding_of_halves(value: float, away: float, even: float) -> None:
    x = Var("x", DType("float32"))
    assert evaluate(intrinsics.round(x), {x: value}) == away
    assert evaluate(intrinsics.nearbyint(x), {x: value}) == even


def test_minima_and_maxima_with_nan_are_nan() -> None:
    x, y = Var("x", DType("float32")), Var("y", DType("float32"))
    for node in (Min, Max):
        for a, b in ((math.nan, 1.0), (1.0, math.nan), (math.nan, math.nan)):
            assert math.isnan(evaluate(node(x, y), {x: a, y: b}))
        assert evaluate(node(x, y), {x: 1.0, y: 1.0}) == 1.0


@given(x=st.integers(-(2**31), 2**31 - 1), y=st.integers(2**30, 2**31 - 1), s=st.integers(-8, 2))
def test_fixed_point_multiplication(x: int, y: int, s: int) -> None:
    a, b = Var("a"), Var("b")
    expr = intrinsics.q_multiply_shift(a, b, const(31), const(s))
    exact = math.floor(Fraction(x * y, 1) / Fraction(2) ** (31 - s) + Fraction(1, 2))
    assert int(evaluate(expr, {a: x, b: y})) == wrap_int(exact, INT32)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@given(data=st.data())
def test_fused_multiply_add_rounds_once(dtype: str, data: st.DataObject) -> None:
    scalar: Any = FLOAT_TYPES[dtype]
    numbers = st.floats(-100.0, 100.0).map(lambda value: float(scalar(value)))
    a, b, c = (data.draw(numbers) for _ in range(3))
    x, y, z = (Var(name, DType(dtype)) for name in "xyz")
    result = evaluate(intrinsics.fma(x, y, z), {x: a, y: b, z: c})
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    nearest = min(
        (np.nextafter(result, scalar(-np.inf)), result, np.nextafter(result, scalar(np.inf))),
        key=lambda candidate: abs(Fraction(float(candidate)) - exact),
    )
    assert abs(Fraction(float(result)) - exact) == abs(Fraction(float(nearest)) - exact)

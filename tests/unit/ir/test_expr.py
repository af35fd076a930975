"""Building expressions: types meet, constants fold, mistakes are explained."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from tilewright.errors import IRError
from tilewright.ir import (
    EQ,
    FALSE,
    INT32,
    TRUE,
    Add,
    And,
    Broadcast,
    Cast,
    DType,
    FloatImm,
    IntImm,
    IterType,
    IterVar,
    Mul,
    Not,
    PrimExpr,
    Ramp,
    Select,
    Sub,
    Var,
    cast,
    const,
    constant_value,
    convert,
    equal,
    floordiv,
    floormod,
    intrinsics,
    logical_and,
    logical_not,
    logical_or,
    match_types,
    max_value_of,
    maximum,
    min_value_of,
    minimum,
    structural_equal,
    truncdiv,
    truncmod,
    wrap_int,
)

x, y = Var("x"), Var("y")


def typed(dtype: str) -> Var:
    return Var(dtype, DType(dtype))


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        ("int32", "int64", "int64"),
        ("uint8", "int32", "int32"),
        ("uint32", "int64", "int64"),
        ("float16", "int32", "float16"),
        ("float16", "float32", "float32"),
        ("float16", "bfloat16", "float32"),
        ("float8_e4m3fn", "float8_e5m2", "float32"),
        ("bool", "int8", "int8"),
        ("float32", "float64", "float64"),
        ("int32", "float32x4", "float32x4"),
        ("int8x4", "int32", "int32x4"),
    ],
)
def test_operands_meet_in_one_type(left: str, right: str, common: str) -> None:
    for a, b in ((left, right), (right, left)):
        first, second = match_types(typed(a), typed(b))
        assert first.dtype == second.dtype == common


def test_literals_take_the_type_of_the_variable_where_they_fit() -> None:
    assert (typed("int8") + 1).dtype == "int8"
    assert (typed("int8") + 1000).dtype == "int32"
    assert (typed("int64") * 3).dtype == "int64"
    assert (typed("float16") * 0.5).dtype == "float16"
    assert (typed("float32x4") + 1).dtype == "float32x4"
    assert (x + 1.5).dtype == "float32"
    assert (typed("uint8") - 1).dtype == "uint8"


@pytest.mark.parametrize(("a", "b"), [("handle", "int32"), ("int32x4", "int32x8")])
def test_types_that_never_meet(a: str, b: str) -> None:
    with pytest.raises(IRError, match=r"no common type|different numbers of lanes"):
        match_types(typed(a), typed(b))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(1, "int32"), (True, "bool"), (1.5, "float32"), (2**31, "int64"), (-(2**31), "int32")],
)
def test_types_of_literals(value: Any, dtype: str) -> None:
    assert const(value).dtype == convert(value).dtype == dtype


@pytest.mark.parametrize(
    ("value", "dtype", "values"),
    [
        (200, "int8", "integers from -128 to 127"),
        (-1, "uint8", "integers from 0 to 255"),
        (256, "uint8x4", "integers from 0 to 255"),
        (2, "bool", "integers from 0 to 1"),
        (8, "int4", "integers from -8 to 7"),
        (1.5, "int32", "integers from -2147483648 to 2147483647"),
        (2**64, "int64", "integers from -9223372036854775808 to 9223372036854775807"),
        (float("nan"), "int64", "integers from -9223372036854775808 to 9223372036854775807"),
        (float("inf"), "int64", "integers from -9223372036854775808 to 9223372036854775807"),
        (70000, "float16", "numbers from -65504.0 to 65504.0"),
        (-1e39, "float32", "numbers from -3.4028234663852886e+38 to 3.4028234663852886e+38"),
        (449, "float8_e4m3fn", "numbers from -448.0 to 448.0"),
    ],
)
def test_constants_that_do_not_fit(value: Any, dtype: str, values: str) -> None:
    element = DType(dtype).element_of
    message = f"the constant {value!r} does not fit dtype {element}, whose values are {values}"
    with pytest.raises(IRError) as caught:
        const(value, dtype)
    assert str(caught.value) == message


def test_constants_at_the_edge() -> None:
    for dtype in ("int4", "int8", "uint8", "int64", "uint64", "bool"):
        for value in (min_value_of(DType(dtype)), max_value_of(DType(dtype))):
            assert constant_value(const(value, dtype)) == value
    assert constant_value(const(3.4028235e38, "float32")) == 3.4028235e38  # rounds to the largest
    assert constant_value(const(float("-inf"), "float16")) == float("-inf")


def test_folding_and_casts_wrap() -> None:
    assert constant_value(const(100, "int8") + const(100, "int8")) == -56
    assert constant_value(cast("uint8", const(-1))) == 255
    assert constant_value(const(1, "uint8") << 7 << 1) == 0
    assert constant_value(const(60000.0, "float16") + const(60000.0, "float16")) == float("inf")
    overflowing = cast("float16", const(1e10, "float32"))
    assert isinstance(overflowing, Cast)  # what it yields is for the hardware to say


@pytest.mark.parametrize(
    ("a", "b", "quotient"),
    [
        (1.0, 1e-50, float("inf")),
        (-1.0, 1e-50, float("-inf")),
        (1.0, -1e-50, float("-inf")),
        (0.0, 1e-50, float("nan")),
        (1.0, 0.0, float("inf")),
        (1e-50, 3.0, 0.0),
    ],
)
def test_quotients_of_tiny_constants(a: float, b: float, quotient: float) -> None:
    found = constant_value(const(a, "float32") / const(b, "float32"))
    np.testing.assert_equal(found, quotient)


def test_const() -> None:
    assert const(3.0, "int32").value == 3  # type: ignore[attr-defined]
    assert const(1, "int32") is const(1, "int32")
    vector = const(1, "int8x4")
    assert isinstance(vector, Broadcast)
    assert vector.dtype == "int8x4"
    with pytest.raises(IRError, match="a constant of type handle cannot be made from 1"):
        const(1, "handle")
    with pytest.raises(IRError, match="cannot use None of type NoneType as an expression"):
        convert(None)
    assert convert(np.float32(0.5)).dtype == "float32"


INT32_NUMBERS = st.integers(-(2**31), 2**31 - 1)
FOLDS: dict[Callable[[Any, Any], PrimExpr], Callable[[int, int], int]] = {
    operator.add: lambda a, b: a + b,
    operator.sub: lambda a, b: a - b,
    operator.mul: lambda a, b: a * b,
    floordiv: lambda a, b: a // b,
    floormod: lambda a, b: a % b,
    truncdiv: lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    truncmod: lambda a, b: a - b * (abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)),
    minimum: min,
    maximum: max,
}


@given(a=INT32_NUMBERS, b=INT32_NUMBERS.filter(bool))
def test_integers_fold_as_the_machine_computes(a: int, b: int) -> None:
    for build, exact in FOLDS.items():
        folded = build(const(a), const(b))
        assert isinstance(folded, IntImm)
        assert folded.value == wrap_int(exact(a, b), INT32)
    assert bool(const(a) < const(b)) is (a < b)
    assert bool(equal(const(a), const(b))) is (a == b)


FLOATS = st.floats(-1e4, 1e4, width=32)


@pytest.mark.parametrize(
    ("dtype", "scalar"),
    [("float32", np.float32), ("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)],
)
@given(a=FLOATS, b=FLOATS)
def test_floats_fold_as_the_machine_computes(dtype: str, scalar: Any, a: float, b: float) -> None:
    first, second = const(a, dtype), const(b, dtype)
    with np.errstate(all="ignore"):
        sums = (first + second, scalar(a) + scalar(b)), (first * second, scalar(a) * scalar(b))
        for folded, exact in sums:
            assert isinstance(folded, FloatImm)
            assert scalar(folded.value) == exact or np.isinf(exact)


def test_neutral_elements_vanish() -> None:
    assert x + 0 is x
    assert 0 + x is x
    assert x - 0 is x
    assert x * 1 is x
    assert 1 * x is x
    assert x // 1 is x
    assert (x * 0) is const(0)
    assert (x % 1) is const(0)
    assert minimum(x, x) is x
    f = typed("float32")
    assert isinstance(f * 0.0, Mul)  # not 0 for NaN and infinity
    assert f / 1.0 is f


def test_negation_is_a_product_so_that_zero_keeps_its_sign() -> None:
    assert structural_equal(-x, Mul(x, const(-1)))
    assert (-const(3)).value == -3  # type: ignore[attr-defined]


def test_divisions_that_are_mistakes() -> None:
    with pytest.raises(IRError, match=r"`/` on integers \(x / 2\) is ambiguous: use `//`"):
        x / 2
    with pytest.raises(IRError, match=r"division by zero in FloorMod\(x, 0\)"):
        x % 0
    with pytest.raises(IRError, match="FloorDiv needs integers, got float32"):
        typed("float32") // 2.0


def test_bitwise_operators() -> None:
    assert (const(6) & const(3)) is const(2)
    assert (const(-9) >> const(1)) is const(-5)
    assert (x & 3).dtype == "int32"
    assert (~const(5)).dtype == "int32"
    assert isinstance(~(x < 3), Not)
    with pytest.raises(IRError, match=r"tir.shift_left of int32 by 40: expected 0 to 31"):
        x << 40
    with pytest.raises(IRError, match=r"tir.bitwise_and needs integers, got float32"):
        typed("float32") & 1


def test_logic_folds() -> None:
    condition = x < 3
    assert logical_and() is TRUE
    assert logical_or() is FALSE
    assert logical_and(condition, True) is condition
    assert logical_and(condition, False) is FALSE
    assert logical_or(condition, False) is condition
    assert logical_or(condition, True) is TRUE
    assert isinstance(logical_and(condition, y < 3), And)
    assert logical_not(logical_not(condition)) is condition
    assert logical_not(TRUE) is FALSE
    with pytest.raises(IRError, match="expected a bool, got int32 in `x`"):
        logical_and(x)


def test_symbolic_truth_is_refused() -> None:
    with pytest.raises(IRError, match="the symbolic expression `x < 3` has no truth value"):
        bool(x < 3)
    assert bool(const(1) == const(1))
    assert isinstance(x == y, EQ)
    nothing: Any = None
    assert not isinstance(x == nothing, PrimExpr)


def test_casts() -> None:
    assert cast("int32", x) is x
    assert cast("float32", const(3)).value == 3.0  # type: ignore[attr-defined]
    assert cast("int8", const(300)).value == 44  # type: ignore[attr-defined]
    assert cast("bool", const(7)) is TRUE
    assert isinstance(x.astype("float16"), Cast)
    spread = cast("float32x4", x)
    assert isinstance(spread, Broadcast)
    assert spread.dtype == "float32x4"
    with pytest.raises(IRError, match="cannot cast int32x4 to int32: the number of lanes differs"):
        cast("int32", Broadcast(x, 4))


def test_vector_types() -> None:
    assert Ramp(x, const(1), 8).dtype == "int32x8"
    assert Ramp(Broadcast(x, 2), Broadcast(const(1), 2), 4).dtype == "int32x8"
    assert (Ramp(x, const(1), 8) < 3).dtype == "boolx8"
    assert Select(x < 3, typed("float16"), typed("float16")).dtype == "float16"


def test_iterators_stand_for_their_variable() -> None:
    axis = IterVar(None, x, IterType.DATA_PAR)
    total = axis + 1
    assert isinstance(total, Add)
    assert total.a is x
    assert isinstance(axis - y, Sub)


def test_intrinsics_convert_and_check() -> None:
    assert intrinsics.exp(x).dtype == "float32"
    assert intrinsics.floor(x) is x
    assert intrinsics.isnan(x) is FALSE
    assert intrinsics.if_then_else(TRUE, x, y) is x
    assert intrinsics.if_then_else(x < 3, x, 0.5).dtype == "float32"
    assert intrinsics.abs(const(-3)).value == 3  # type: ignore[attr-defined]
    assert intrinsics.infinity("float16").value == float("inf")  # type: ignore[attr-defined]
    with pytest.raises(IRError, match=r"tir.pow takes 2 arguments, got 1"):
        intrinsics.call_intrin("float32", "tir.pow", 1.0)
    with pytest.raises(IRError, match="cannot reinterpret int32 as float16: sizes differ"):
        intrinsics.reinterpret("float16", x)
    with pytest.raises(IRError, match="if_then_else needs a bool condition, got int32"):
        intrinsics.if_then_else(x, 1, 2)

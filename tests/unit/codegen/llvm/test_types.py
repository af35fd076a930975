"""How types and constants are written."""

from __future__ import annotations

import pytest

from tilewright.codegen.llvm.types import float_constant, memory_type, stride_type, value_type
from tilewright.errors import CodegenError
from tilewright.ir import DType


@pytest.mark.parametrize(
    ("dtype", "value", "memory"),
    [
        ("bool", "i1", "i8"),
        ("boolx4", "<4 x i1>", "<4 x i8>"),
        ("int4", "i4", "i8"),
        ("uint8x3", "<3 x i8>", "<3 x i8>"),
        ("int64", "i64", "i64"),
        ("float16", "half", "half"),
        ("bfloat16x2", "<2 x i16>", "<2 x i16>"),
        ("float8_e4m3fn", "i8", "i8"),
        ("float64x8", "<8 x double>", "<8 x double>"),
        ("handle", "ptr", "ptr"),
    ],
)
def test_types(dtype: str, value: str, memory: str) -> None:
    assert value_type(DType(dtype)) == value
    assert memory_type(DType(dtype)) == memory


def test_vector_elements_lie_without_gaps() -> None:
    assert stride_type(DType("float32x3")) == "[3 x float]"
    assert stride_type(DType("boolx2")) == "[2 x i8]"
    assert stride_type(DType("int16")) == "i16"


def test_void_is_no_type_of_a_value() -> None:
    with pytest.raises(CodegenError, match="LLVM has no type for dtype void"):
        value_type(DType("void"))


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1.0, "float64", "0x3FF0000000000000"),
        (0.1, "float32", "0x3FB99999A0000000"),  # rounded to single precision first
        (1e300, "float32", "0x7FF0000000000000"),
        (-1e300, "float32", "0xFFF0000000000000"),
        (1.5, "float16", "0xH3E00"),
        (1e6, "float16", "0xH7C00"),
        (-1e6, "float16", "0xHFC00"),
        (float("nan"), "bfloat16", "32704"),
        (float("-inf"), "bfloat16", "65408"),
        (1.00390625, "bfloat16", "16256"),  # a tie goes to even
        (1.01171875, "bfloat16", "16258"),
        (448.0, "float8_e4m3fn", "126"),
        (-1.5, "float8_e5m2", "190"),
    ],
)
def test_float_constants(value: float, dtype: str, text: str) -> None:
    assert float_constant(value, DType(dtype)) == text


def test_constants_have_a_float_type() -> None:
    with pytest.raises(CodegenError, match="no constant of dtype int32"):
        float_constant(1.0, DType("int32"))

"""Data types: spelling, structure, limits, NumPy counterparts."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.errors import IRError
from tilewright.ir import DType, max_value_of, min_value_of
from tilewright.ir.numpy_bridge import from_numpy, to_numpy

HELD = {
    "float32": "float8_e4m3fn float8_e5m2 float16 bfloat16 float32 int8 uint8 int16 uint16",
    "float64": "float16 float32 float64 int32 uint32",
    "int32": "int8 uint8 int16 uint16 int32",
    "uint32": "uint8 uint16 uint32",
    "int64": "int32 uint32",
    "float16": "float16",
}
NOT_HELD = {
    "float32": "int32 uint32 float64 handle",
    "float64": "int64 uint64",
    "int32": "uint32 float16 int64 bool",
    "uint32": "int8 int16 uint64",
    "float16": "bfloat16 int8 float32",
}


@pytest.mark.parametrize("dtype", HELD)
def test_numbers_of_other_types(dtype: str) -> None:
    for held in HELD[dtype].split():
        assert DType(dtype).holds(DType(held)), held
    for other in NOT_HELD.get(dtype, "").split():
        assert not DType(dtype).holds(DType(other)), other


@pytest.mark.parametrize(
    ("spelling", "code", "bits", "lanes", "itemsize"),
    [
        ("int32", "int", 32, 1, 4),
        ("int", "int", 32, 1, 4),
        ("float", "float", 32, 1, 4),
        ("uint8x16", "uint", 8, 16, 1),
        ("int4", "int", 4, 1, 1),
        ("float16x8", "float", 16, 8, 2),
        ("bfloat16", "bfloat", 16, 1, 2),
        ("float8_e4m3fn", "float", 8, 1, 1),
        ("e5m2_float8", "float", 8, 1, 1),
        ("bool", "bool", 1, 1, 1),
        ("uint1", "bool", 1, 1, 1),
        ("boolx4", "bool", 1, 4, 1),
        ("handle", "handle", 64, 1, 8),
        ("void", "void", 0, 1, 1),
    ],
)
def test_structure(spelling: str, code: str, bits: int, lanes: int, itemsize: int) -> None:
    dtype = DType(spelling)
    assert (dtype.code, dtype.bits, dtype.lanes, dtype.itemsize) == (code, bits, lanes, itemsize)


def test_a_dtype_is_one_object_and_a_string() -> None:
    assert DType("int") is DType("int32") is DType("int32x1") is DType(DType("int32"))
    assert DType("uint1") is DType("bool")
    assert DType("float32") == "float32"
    assert {str(DType("int8")): 1}[DType("int8")] == 1
    for again in (pickle.loads(pickle.dumps(DType("int8x4"))), copy.deepcopy(DType("int8x4"))):
        assert again == "int8x4"
        assert again.lanes == 4


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("flaot32", "unknown dtype 'flaot32': expected for example 'float32', 'int8' or 'bool'"),
        ("int32\n", "unknown dtype 'int32\\n': expected for example 'float32', 'int8' or 'bool'"),
        ("int7", "dtype 'int7': int comes in 1, 4, 8, 16, 32, 64 bits"),
        ("float8", "dtype 'float8': 8-bit floats are 'float8_e4m3fn' and 'float8_e5m2'"),
        ("float8_e3m4", "dtype 'float8_e3m4': 8-bit floats are 'float8_e4m3fn' and 'float8_e5m2'"),
        ("float32x0", "dtype 'float32x0': the number of lanes must be positive"),
    ],
)
def test_bad_spelling(spelling: str, message: str) -> None:
    with pytest.raises(IRError) as caught:
        DType(spelling)
    assert str(caught.value) == message


def test_lanes() -> None:
    vector = DType("float8_e4m3fn").with_lanes(4)
    assert vector == "float8_e4m3fnx4"
    assert vector.element_of is DType("float8_e4m3fn")
    assert vector.with_lanes(4) is vector
    assert DType("boolx8").element_of is DType("bool")
    assert vector.is_vector
    assert not DType("int8").is_vector


@pytest.mark.parametrize(
    ("spelling", "accumulator"),
    [
        ("float16", "float32"),
        ("bfloat16x8", "float32x8"),
        ("float8_e4m3fn", "float32"),
        ("int8", "int32"),
        ("uint16", "uint32"),
        ("float64", "float64"),
        ("int64", "int64"),
        ("bool", "bool"),
        ("handle", "handle"),
    ],
)
def test_narrow_types_are_accumulated_in_32_bits(spelling: str, accumulator: str) -> None:
    assert DType(spelling).accumulator is DType(accumulator)


def test_kinds() -> None:
    kinds = {
        "int8": {"is_int", "is_integral"},
        "uint8": {"is_uint", "is_integral"},
        "bfloat16": {"is_float"},
        "float64": {"is_float"},
        "bool": {"is_bool"},
        "handle": {"is_handle"},
    }
    tests = ["is_int", "is_uint", "is_integral", "is_float", "is_bool", "is_handle"]
    for spelling, expected in kinds.items():
        assert {test for test in tests if getattr(DType(spelling), test)} == expected


@pytest.mark.parametrize("spelling", ["int8", "int16", "int64", "uint8", "uint64"])
def test_integer_limits(spelling: str) -> None:
    info = np.iinfo(spelling)
    assert (min_value_of(DType(spelling)), max_value_of(DType(spelling))) == (info.min, info.max)


@pytest.mark.parametrize(
    ("spelling", "scalar"),
    [
        ("float64", np.float64),
        ("float32", np.float32),
        ("float16", np.float16),
        ("bfloat16", ml_dtypes.bfloat16),
        ("float8_e4m3fn", ml_dtypes.float8_e4m3fn),
        ("float8_e5m2", ml_dtypes.float8_e5m2),
    ],
)
def test_float_limits(spelling: str, scalar: Any) -> None:
    limit = float(ml_dtypes.finfo(scalar).max)  # type: ignore[no-untyped-call]
    assert max_value_of(DType(spelling)) == limit
    assert min_value_of(DType(spelling)) == -limit


def test_handles_have_no_limits() -> None:
    with pytest.raises(IRError, match="dtype handle has no largest value"):
        max_value_of(DType("handle"))


@pytest.mark.parametrize(
    "spelling",
    [
        "bool",
        "int4",
        "uint4",
        "int8",
        "uint16",
        "int64",
        "float16",
        "float32",
        "float64",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
    ],
)
def test_numpy_and_back(spelling: str) -> None:
    kind = to_numpy(spelling)
    assert kind.itemsize == DType(spelling).itemsize
    assert from_numpy(kind) is DType(spelling)


def test_types_without_a_counterpart() -> None:
    with pytest.raises(IRError, match="NumPy has no vector type int8x4; use int8 per lane"):
        to_numpy("int8x4")
    with pytest.raises(IRError, match="NumPy has no type for handle"):
        to_numpy("handle")
    with pytest.raises(IRError, match="NumPy dtype 'complex64' has no counterpart in TensorIR"):
        from_numpy(np.complex64)
    with pytest.raises(IRError, match="not in the byte order of this machine"):
        from_numpy(">f4" if np.little_endian else "<f4")

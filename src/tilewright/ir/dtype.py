"""Data types: interned strings that know their own structure.

A `DType` *is* the string a user writes (`expr.dtype == "float32"` holds), so it compares, hashes
and prints as one; code, bits and lanes are attributes, computed once for each distinct type.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from tilewright.errors import IRError

__all__ = [
    "DType", "min_value_of", "max_value_of", "BOOL", "INT32", "INT64", "FLOAT32", "HANDLE", "VOID",
]  # fmt: skip

_PATTERN: Final = re.compile(
    r"(?P<code>bool|handle|void|bfloat|uint|int|float)(?P<bits>\d+)?(?P<fp8>_e\dm\d(?:fn)?)?"
    r"(?:x(?P<lanes>\d+))?"
)
_ALIASES: Final = {"e4m3_float8": "float8_e4m3fn", "e5m2_float8": "float8_e5m2", "uint1": "bool"}
_FLOAT8_VARIANTS: Final = ("_e4m3fn", "_e5m2")
_ALLOWED_BITS: Final[dict[str, tuple[int, ...]]] = {
    "int": (1, 4, 8, 16, 32, 64),
    "uint": (1, 4, 8, 16, 32, 64),
    "float": (8, 16, 32, 64),
    "bfloat": (16,),
}
# Largest finite magnitude of each scalar floating type.
_FLOAT_MAX: Final[dict[str, float]] = {
    "float64": 1.7976931348623157e308,
    "float32": 3.4028234663852886e38,
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float8_e4m3fn": 448.0,
    "float8_e5m2": 57344.0,
}
_interned: dict[str, DType] = {}
_relaned: dict[tuple[DType, int], DType] = {}  # a type with another number of lanes


class DType(str):
    """A data type such as `float32`, `int8x16`, `bool` or `handle`."""

    __slots__ = (
        "bits", "code", "is_bool", "is_float", "is_handle", "is_int", "is_integral", "is_uint",
        "lanes", "variant",
    )  # fmt: skip
    code: str  # "int", "uint", "float", "bfloat", "bool", "handle" or "void"
    bits: int  # of one lane
    lanes: int
    variant: str  # "" or the float8 flavour, e.g. "_e4m3fn"
    # Attributes rather than properties, since everything that builds expressions asks for them.
    is_float: bool
    is_int: bool  # signed integers only
    is_uint: bool
    is_integral: bool  # signed or unsigned integers, not bool
    is_bool: bool
    is_handle: bool

    def __new__(cls, spelling: str) -> DType:
        found = _interned.get(spelling)
        return found if found is not None else _parse(spelling)

    @property
    def element_of(self) -> DType:
        """The type of one lane."""
        return self if self.lanes == 1 else self.with_lanes(1)

    @property
    def is_vector(self) -> bool:
        return self.lanes > 1

    @property
    def itemsize(self) -> int:
        """Bytes that one lane takes in memory (a 4-bit integer takes one)."""
        return max(1, (self.bits + 7) // 8)

    @property
    def nbytes(self) -> int:
        """Bytes that all lanes take in memory."""
        return self.itemsize * self.lanes

    @property
    def accumulator(self) -> DType:
        """The type in which sums of this one are accumulated: narrow types get 32 bits."""
        if self.bits >= 32 or not (self.is_float or self.is_integral):
            return self
        return DType(f"{'float' if self.is_float else self.code}32").with_lanes(self.lanes)

    def holds(self, other: DType) -> bool:
        """Whether this type, of 32 bits or more, has all numbers of another one."""
        if other == self:
            return True
        if self.bits < 32 or not (other.is_float or other.is_integral):
            return False
        if self.is_float:  # of 24 or 53 digits
            digits = 24 if self.bits == 32 else 53
            return other.bits < (self.bits if other.is_float else digits + other.is_int)
        if self.is_int:
            return other.is_integral and other.bits < self.bits
        return self.is_uint and other.is_uint and other.bits < self.bits

    def with_lanes(self, lanes: int) -> DType:
        """The same element type with another number of lanes."""
        if lanes == self.lanes:
            return self
        found = _relaned.get((self, lanes))
        if found is None:
            scalar = self.partition("x")[0]
            found = DType(scalar if lanes == 1 else f"{scalar}x{lanes}")
            _relaned[self, lanes] = found
        return found


def _parse(spelling: str) -> DType:
    text = _ALIASES.get(spelling, spelling)
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise IRError(
            f"unknown dtype {spelling!r}: expected for example 'float32', 'int8' or 'bool'"
        )
    code, variant = match["code"], match["fp8"] or ""
    lanes = int(match["lanes"] or 1)
    bits = (
        int(match["bits"]) if match["bits"] else {"bool": 1, "handle": 64, "void": 0}.get(code, 32)
    )
    _check_shape(spelling, code, bits, variant, lanes)
    base = code if code in ("bool", "handle", "void") else f"{code}{bits}{variant}"
    canonical = base if lanes == 1 else f"{base}x{lanes}"
    dtype = _interned.get(canonical)
    if dtype is None:
        dtype = str.__new__(DType, canonical)
        dtype.code, dtype.bits, dtype.lanes, dtype.variant = code, bits, lanes, variant
        dtype.is_float = code in ("float", "bfloat")
        dtype.is_int, dtype.is_uint = code == "int", code == "uint"
        dtype.is_integral = dtype.is_int or dtype.is_uint
        dtype.is_bool, dtype.is_handle = code == "bool", code == "handle"
        _interned[canonical] = dtype
    _interned[spelling] = dtype
    return dtype


def _check_shape(spelling: str, code: str, bits: int, variant: str, lanes: int) -> None:
    allowed = _ALLOWED_BITS.get(code)
    if allowed is not None and bits not in allowed:
        raise IRError(f"dtype {spelling!r}: {code} comes in {', '.join(map(str, allowed))} bits")
    if bool(variant) != (code == "float" and bits == 8) or (
        variant and variant not in _FLOAT8_VARIANTS
    ):
        raise IRError(f"dtype {spelling!r}: 8-bit floats are 'float8_e4m3fn' and 'float8_e5m2'")
    if lanes < 1:
        raise IRError(f"dtype {spelling!r}: the number of lanes must be positive")


def has_infinity(dtype: DType) -> bool:
    """True for the floats that have infinities."""
    return dtype.is_float and dtype.variant != "_e4m3fn"


@functools.cache
def min_value_of(dtype: DType) -> int | float:
    """The smallest value of a scalar type (for floats the lowest finite one)."""
    if dtype.is_int:
        return -(1 << (dtype.bits - 1))
    if dtype.is_uint or dtype.is_bool:
        return 0
    return -_float_max(dtype)


@functools.cache
def max_value_of(dtype: DType) -> int | float:
    """The largest value of a scalar type (for floats the largest finite one)."""
    if dtype.is_int:
        return (1 << (dtype.bits - 1)) - 1
    if dtype.is_uint or dtype.is_bool:
        return (1 << dtype.bits) - 1
    return _float_max(dtype)


def _float_max(dtype: DType) -> float:
    limit = _FLOAT_MAX.get(dtype.element_of)
    if limit is None:
        raise IRError(f"dtype {dtype!s} has no largest value")
    return limit


BOOL: Final = DType("bool")
INT32: Final = DType("int32")
INT64: Final = DType("int64")
FLOAT32: Final = DType("float32")
HANDLE: Final = DType("handle")
VOID: Final = DType("void")

"""Conversions between types.

bfloat16 and the eight-bit floats are converted with integer instructions: LLVM would call a support
library that is not there, or knows nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tilewright.codegen.llvm.emitter import Value
from tilewright.codegen.llvm.types import float_constant, value_type
from tilewright.codegen.llvm.values import ValueBuilder, zero_of
from tilewright.ir import FLOAT32, INT32, DType

Resize = Callable[[ValueBuilder, Value, int], Value]


def cast(builder: ValueBuilder, value: Value, source: DType, target: DType) -> Value:
    """`value` converted from `source` to `target`."""
    if source is target:
        return value
    if source.is_float and target.is_float:
        return _float_to_float(builder, value, source, target)
    if is_storage_only(source):
        widened = _float_to_float(builder, value, source, FLOAT32.with_lanes(source.lanes))
        return cast(builder, widened, FLOAT32.with_lanes(source.lanes), target)
    if is_storage_only(target):
        middle = FLOAT32.with_lanes(target.lanes)
        return _float_to_float(builder, cast(builder, value, source, middle), middle, target)
    return _convert(builder, _opcode(source, target), value, target)


def is_storage_only(dtype: DType) -> bool:
    """True for floats that no machine computes with: bfloat16 and the 8-bit ones."""
    return dtype.is_float and (dtype.code == "bfloat" or dtype.bits == 8)


def _convert(builder: ValueBuilder, opcode: str, value: Value, target: DType) -> Value:
    if opcode == "nonzero":
        is_integer = value.type.split(" x ")[-1].startswith(("i", "ptr"))
        test = "icmp ne" if is_integer else "fcmp une"
        return builder.compare(test, value, zero_of(value.type))
    if opcode == "same":
        return value
    return builder.convert(opcode, value, value_type(target))


def _opcode(source: DType, target: DType) -> str:
    if target.is_bool:
        return "nonzero"
    if source.is_handle or target.is_handle:
        if source.is_handle and target.is_handle:
            return "same"
        return "ptrtoint" if source.is_handle else "inttoptr"
    if source.is_float:
        return "fptosi" if target.is_int else "fptoui"
    if target.is_float:
        return "sitofp" if source.is_int else "uitofp"
    if source.bits == target.bits:
        return "same"
    if source.bits > target.bits:
        return "trunc"
    return "sext" if source.is_int else "zext"


def _float_to_float(builder: ValueBuilder, value: Value, source: DType, target: DType) -> Value:
    single = FLOAT32.with_lanes(source.lanes)
    if source.element_of in _WIDEN:
        widened = _WIDEN[source.element_of](builder, value, source.lanes)
        return cast(builder, widened, single, target)
    if target.element_of in _NARROW:
        return _NARROW[target.element_of](
            builder, cast(builder, value, source, single), source.lanes
        )
    if target.bits > source.bits:
        return builder.convert("fpext", value, value_type(target))
    if source.bits == 64 and target.bits == 16:
        value = _narrow_to_odd(builder, value, source.lanes)
    return builder.convert("fptrunc", value, value_type(target))


def _narrow_to_odd(builder: ValueBuilder, value: Value, lanes: int) -> Value:
    """float64 to float32, inexact results rounded to an odd last bit.

    Another rounding to far fewer bits then ends where one rounding would have; few machines have an
    instruction for that, and LLVM would call a support library.
    """
    single, wide = value_type(FLOAT32.with_lanes(lanes)), value_type(INT32.with_lanes(lanes))
    nearest = builder.convert("fptrunc", value, single)
    back = builder.convert("fpext", nearest, value.type)
    bits = builder.convert("bitcast", nearest, wide)
    double = DType("float64").with_lanes(lanes)
    too_far = builder.compare(
        "fcmp ogt",
        builder.intrinsic("fabs", double, back),
        builder.intrinsic("fabs", double, value),
    )
    one, minus_one = (builder.splat_text(text, wide) for text in ("1", "-1"))
    moved = builder.int_op("add", bits, builder.select(too_far, minus_one, one))
    is_even = _test(builder, "eq", _ints(builder, "and", bits, 1), 0)
    inexact = builder.compare("fcmp one", back, value)
    both = builder.int_op("and", is_even, inexact)
    return builder.convert("bitcast", builder.select(both, moved, bits), single)


def _ints(builder: ValueBuilder, opcode: str, value: Value, constant: int) -> Value:
    return builder.int_op(opcode, value, builder.splat_text(str(constant), value.type))


def _bits(builder: ValueBuilder, value: Value, dtype: DType) -> Value:
    return builder.convert("bitcast", value, value_type(dtype))


def _test(builder: ValueBuilder, test: str, value: Value, constant: int) -> Value:
    return builder.compare(f"icmp {test}", value, builder.splat_text(str(constant), value.type))


def _widen_bfloat16(builder: ValueBuilder, value: Value, lanes: int) -> Value:
    wide = builder.convert("zext", value, value_type(INT32.with_lanes(lanes)))
    return _bits(builder, _ints(builder, "shl", wide, 16), FLOAT32.with_lanes(lanes))


def _narrow_bfloat16(builder: ValueBuilder, value: Value, lanes: int) -> Value:
    bits = _bits(builder, value, INT32.with_lanes(lanes))
    upper = _ints(builder, "lshr", bits, 16)
    odd = _ints(builder, "and", upper, 1)
    biased = builder.int_op("add", bits, _ints(builder, "add", odd, 0x7FFF))
    rounded = _ints(builder, "lshr", biased, 16)
    quiet = _ints(builder, "or", upper, 0x40)
    is_nan = builder.compare("fcmp uno", value, value)
    chosen = builder.select(is_nan, quiet, rounded)
    return builder.convert("trunc", chosen, value_type(DType("bfloat16").with_lanes(lanes)))


# (exponent bits, mantissa bits, bias, has infinity) of the 8-bit formats
_FLOAT8_FORMATS = {"float8_e4m3fn": (4, 3, 7, False), "float8_e5m2": (5, 2, 15, True)}


def _widen_float8(name: str, builder: ValueBuilder, value: Value, lanes: int) -> Value:
    """Shift exponent and mantissa into place, then rescale, which also gets subnormals right."""
    _, mantissa, bias, has_infinity = _FLOAT8_FORMATS[name]
    wide_type, single = INT32.with_lanes(lanes), FLOAT32.with_lanes(lanes)
    wide = builder.convert("zext", value, value_type(wide_type))
    magnitude = _ints(builder, "and", wide, 0x7F)
    sign = _ints(builder, "shl", _ints(builder, "and", wide, 0x80), 24)
    shifted = _ints(builder, "shl", magnitude, 23 - mantissa)
    scaled = _float_op(builder, "fmul", _bits(builder, shifted, single), 2.0 ** (127 - bias))
    bits = _bits(builder, scaled, wide_type)
    if has_infinity:
        special = _test(builder, "ugt", magnitude, 0x7B)
        full = _ints(builder, "or", shifted, 0x7F800000)
        bits = builder.select(special, full, bits)
    else:
        special = _test(builder, "eq", magnitude, 0x7F)
        bits = _chosen(builder, special, 0x7FC00000, bits)
    return _bits(builder, builder.int_op("or", bits, sign), single)


def _narrow_float8(name: str, builder: ValueBuilder, value: Value, lanes: int) -> Value:
    """Round to nearest even; normal numbers by adding to the bits, subnormals by a magic addend."""
    _, mantissa, bias, has_infinity = _FLOAT8_FORMATS[name]
    wide_type, single = INT32.with_lanes(lanes), FLOAT32.with_lanes(lanes)
    bits = _bits(builder, value, wide_type)
    sign = _ints(builder, "and", _ints(builder, "lshr", bits, 24), 0x80)
    magnitude = _ints(builder, "and", bits, 0x7FFFFFFF)
    drop = 23 - mantissa
    odd = _ints(builder, "and", _ints(builder, "lshr", magnitude, drop), 1)
    half = _ints(builder, "add", odd, (1 << (drop - 1)) - 1)
    rounded = _ints(builder, "lshr", builder.int_op("add", magnitude, half), drop)
    normal = _ints(builder, "sub", rounded, (127 - bias) << mantissa)
    magic = 2.0 ** (24 - bias - mantissa)  # its last mantissa bit is the subnormals' unit
    added = _float_op(builder, "fadd", _bits(builder, magnitude, single), magic)
    magic_bits = (24 - bias - mantissa + 127) << 23
    subnormal = _ints(builder, "sub", _bits(builder, added, wide_type), magic_bits)
    is_small = _test(builder, "ult", magnitude, (127 - bias + 1) << 23)
    result = builder.select(is_small, subnormal, normal)
    largest, overflow = (0x7B, 0x7C) if has_infinity else (0x7E, 0x7F)
    too_big = _test(builder, "ugt", result, largest)
    result = _chosen(builder, too_big, overflow, result)
    result = _chosen(builder, _test(builder, "ugt", magnitude, 0x7F800000), 0x7F, result)
    if not has_infinity:
        result = _chosen(builder, _test(builder, "eq", magnitude, 0x7F800000), 0x7F, result)
    byte = value_type(DType("uint8").with_lanes(lanes))
    return builder.convert("trunc", builder.int_op("or", result, sign), byte)


def _float_op(builder: ValueBuilder, opcode: str, value: Value, constant: float) -> Value:
    number = builder.splat_text(float_constant(constant, FLOAT32), value.type)
    return builder.emitter.pure(value.type, f"{opcode} {value}, {number.text}", (value,))


def _chosen(builder: ValueBuilder, test: Value, constant: int, value: Value) -> Value:
    """A constant where a test holds."""
    return builder.select(test, builder.splat_text(str(constant), value.type), value)


_WIDEN: dict[str, Resize] = {
    "bfloat16": _widen_bfloat16,
    **{name: partial(_widen_float8, name) for name in _FLOAT8_FORMATS},
}
_NARROW: dict[str, Resize] = {
    "bfloat16": _narrow_bfloat16,
    **{name: partial(_narrow_float8, name) for name in _FLOAT8_FORMATS},
}

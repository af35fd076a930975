"""Builders for calls of builtin operators: `exp(x)`, `if_then_else(c, a, b)`, `call_extern(...)`.

`tir`, `te` and script all hand out these functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.errors import IRError
from tilewright.ir.arithmetic import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    cast,
    const,
    convert,
    match_types,
    maximum,
    shift_left,
    shift_right,
    subtract,
)
from tilewright.ir.buffer import Buffer, BufferLoad
from tilewright.ir.dtype import BOOL, HANDLE, INT32, DType, has_infinity, max_value_of, min_value_of
from tilewright.ir.expr import Call, FloatImm, IntImm, PrimExpr
from tilewright.ir.op import Op
from tilewright.ir.operators import ExprLike
from tilewright.support.names import named
from tilewright.support.text import counted

__all__ = [
    "call_intrin", "exp", "exp2", "exp10", "expm1", "erf", "log", "log2", "log10", "log1p",
    "tanh", "sigmoid", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "asinh", "acosh", "atanh", "floor", "ceil", "trunc", "round", "nearbyint", "fabs",
    "popcount", "abs", "isnan", "isinf", "isfinite", "pow", "power", "fmod", "atan2",
    "copysign", "nextafter", "hypot", "ldexp", "fma", "clz", "if_then_else", "likely",
    "min_value", "max_value", "lower_limit", "upper_limit", "infinity", "reinterpret",
    "q_multiply_shift", "q_multiply_shift_per_axis", "call_extern", "call_pure_extern",
    "call_llvm_intrin", "call_llvm_pure_intrin", "call_packed", "tvm_call_packed", "address_of",
    "ret", "assume", "undef", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor",
    "shift_left", "shift_right",
]  # fmt: skip


def call_intrin(dtype: str, op_name: str, *args: ExprLike | str) -> Call:
    """A call of a registered operator with an explicit result type."""
    op = Op.get(op_name)
    if op.num_inputs is not None and len(args) != op.num_inputs:
        raise IRError(f"{op.name} takes {counted(op.num_inputs, 'argument')}, got {len(args)}")
    return Call(DType(dtype), op, tuple(convert(arg) for arg in args))


def _float_unary(name: str) -> Callable[[ExprLike], PrimExpr]:
    op_name = f"tir.{name}"

    def build(x: ExprLike) -> PrimExpr:
        value = convert(x)
        if value.dtype.is_integral:
            value = cast(DType("float32").with_lanes(value.dtype.lanes), value)
        return call_intrin(value.dtype, op_name, value)

    return named(
        build, name, f"`{name}` of a float, lane by lane; integers are converted to float32."
    )


exp, exp2, exp10, expm1, erf = map(_float_unary, ("exp", "exp2", "exp10", "expm1", "erf"))
log, log2, log10, log1p = map(_float_unary, ("log", "log2", "log10", "log1p"))
tanh, sigmoid, sqrt, rsqrt = map(_float_unary, ("tanh", "sigmoid", "sqrt", "rsqrt"))
sin, cos, tan, asin, acos, atan = map(_float_unary, ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, asinh, acosh, atanh = map(_float_unary, ("sinh", "cosh", "asinh", "acosh", "atanh"))


def _same_type_unary(name: str) -> Callable[[ExprLike], PrimExpr]:
    op_name = f"tir.{name}"

    def build(x: ExprLike) -> PrimExpr:
        value = convert(x)
        return call_intrin(value.dtype, op_name, value)

    return named(build, name, f"`{name}` of a number, lane by lane.")


def _rounding(name: str) -> Callable[[ExprLike], PrimExpr]:
    build = _same_type_unary(name)

    def build_rounding(x: ExprLike) -> PrimExpr:
        value = convert(x)
        return value if value.dtype.is_integral else build(value)

    return named(build_rounding, name, f"`{name}` of a float; integers are rounded already.")


floor, ceil, trunc = map(_rounding, ("floor", "ceil", "trunc"))
round, nearbyint = map(_rounding, ("round", "nearbyint"))
fabs, popcount = map(_same_type_unary, ("fabs", "popcount"))


def abs(x: ExprLike) -> PrimExpr:
    """The magnitude of a number."""
    value = convert(x)
    if value.dtype.is_float:
        return fabs(value)
    return value if value.dtype.is_uint else maximum(value, subtract(0, value))


def _float_test(name: str, of_integer: bool) -> Callable[[ExprLike], PrimExpr]:
    op_name = f"tir.{name}"

    def build(x: ExprLike) -> PrimExpr:
        value = convert(x)
        result = BOOL.with_lanes(value.dtype.lanes)
        if not value.dtype.is_float:
            return const(of_integer, result)
        return call_intrin(result, op_name, value)

    return named(build, name, f"`{name}` of a float, lane by lane.")


isnan = _float_test("isnan", False)
isinf = _float_test("isinf", False)
isfinite = _float_test("isfinite", True)


def _binary(name: str) -> Callable[[ExprLike, ExprLike], PrimExpr]:
    op_name = f"tir.{name}"

    def build(x: ExprLike, y: ExprLike) -> PrimExpr:
        a, b = match_types(x, y)
        return call_intrin(a.dtype, op_name, a, b)

    return named(build, name, f"`{name}` of two numbers of one type, lane by lane.")


pow = power = _binary("pow")
fmod, atan2, hypot = map(_binary, ("fmod", "atan2", "hypot"))
copysign, nextafter = map(_binary, ("copysign", "nextafter"))


def ldexp(x: ExprLike, exponent: ExprLike) -> PrimExpr:
    """`x * 2**exponent` with an int32 exponent."""
    value = convert(x)
    return call_intrin(value.dtype, "tir.ldexp", value, exponent)


def fma(a: ExprLike, b: ExprLike, c: ExprLike) -> PrimExpr:
    """`a * b + c` with one rounding."""
    x, y = match_types(a, b)
    _, z = match_types(x, c)
    return call_intrin(x.dtype, "tir.fma", x, y, z)


def clz(x: ExprLike) -> PrimExpr:
    """The number of leading zero bits of an integer, as int32."""
    value = convert(x)
    return call_intrin(INT32.with_lanes(value.dtype.lanes), "tir.clz", value)


def if_then_else(cond: ExprLike, t: ExprLike, f: ExprLike) -> PrimExpr:
    """`t` where `cond` holds, else `f`; only the chosen side is evaluated."""
    condition = convert(cond)
    if not condition.dtype.is_bool:
        raise IRError(f"if_then_else needs a bool condition, got {condition.dtype!s}")
    then_value, else_value = match_types(t, f)
    if isinstance(condition, IntImm):
        return then_value if condition.value else else_value
    return call_intrin(then_value.dtype, "tir.if_then_else", condition, then_value, else_value)


def likely(cond: ExprLike) -> PrimExpr:
    """`cond`, marked as a bound check that loop partitioning should remove."""
    condition = convert(cond)
    return (
        condition if isinstance(condition, IntImm) else call_intrin(BOOL, "tir.likely", condition)
    )


def min_value(dtype: str) -> PrimExpr:
    """The smallest (finite) value of a type."""
    return const(min_value_of(DType(dtype)), dtype)


def max_value(dtype: str) -> PrimExpr:
    """The largest (finite) value of a type."""
    return const(max_value_of(DType(dtype)), dtype)


def lower_limit(dtype: str) -> PrimExpr:
    """A value that no other is below: minus infinity where the type has it, else the smallest."""
    return const(-math.inf, dtype) if has_infinity(DType(dtype)) else min_value(dtype)


def upper_limit(dtype: str) -> PrimExpr:
    """A value that no other is above: infinity where the type has it, else the largest."""
    return const(math.inf, dtype) if has_infinity(DType(dtype)) else max_value(dtype)


def infinity(dtype: str) -> PrimExpr:
    """Positive infinity of a float type."""
    if not DType(dtype).is_float:
        raise IRError(f"dtype {dtype!s} has no infinity")
    return FloatImm(DType(dtype), float("inf"))


def reinterpret(dtype: str, value: ExprLike) -> PrimExpr:
    """The bits of `value` as another type of the same total size."""
    source, target = convert(value), DType(dtype)
    if source.dtype.bits * source.dtype.lanes != target.bits * target.lanes:
        raise IRError(f"cannot reinterpret {source.dtype!s} as {target!s}: sizes differ")
    return source if source.dtype is target else call_intrin(target, "tir.reinterpret", source)


def q_multiply_shift(x: ExprLike, y: ExprLike, q: ExprLike, s: ExprLike) -> PrimExpr:
    """`round(x * y * 2**(s - q))`: `y` in Q`q` fixed point, shifted left, rounding half up."""
    return call_intrin(convert(x).dtype, "tir.q_multiply_shift", x, y, q, s)


def q_multiply_shift_per_axis(
    x: ExprLike,
    y: ExprLike,
    ls: ExprLike,
    rs: ExprLike,
    q: ExprLike,
    is_lshift_required: ExprLike,
    is_rshift_required: ExprLike,
) -> PrimExpr:
    """`round(x * 2**ls * y * 2**(-q - rs))`, where shifts that are not required count as zero."""
    flags = (is_lshift_required, is_rshift_required)
    return call_intrin(convert(x).dtype, "tir.q_multiply_shift_per_axis", x, y, ls, rs, q, *flags)


def call_extern(dtype: str, func_name: str, *args: ExprLike | str | Buffer) -> Call:
    """A call of a C function that may have effects."""
    # A whole buffer is passed as a pointer to its first element.
    pointers = (arg.access_ptr("rw") if isinstance(arg, Buffer) else arg for arg in args)
    return call_intrin(dtype, "tir.call_extern", func_name, *pointers)


def call_pure_extern(dtype: str, func_name: str, *args: ExprLike | str) -> Call:
    """A call of a C function without effects."""
    return call_intrin(dtype, "tir.call_pure_extern", func_name, *args)


def call_llvm_intrin(dtype: str, name: str, *args: ExprLike) -> Call:
    """A call of an LLVM intrinsic by name, e.g. "llvm.prefetch"."""
    return call_intrin(dtype, "tir.call_llvm_intrin", name, *args)


def call_llvm_pure_intrin(dtype: str, name: str, *args: ExprLike) -> Call:
    """A call of an LLVM intrinsic without effects by name."""
    return call_intrin(dtype, "tir.call_llvm_pure_intrin", name, *args)


def call_packed(name: str, *args: ExprLike | str | Buffer) -> Call:
    """A call of a registered global function (see `tilewright.register_func`).

    It takes numbers, texts and buffers, which arrive as arrays, and may return an integer.
    """
    return call_intrin(INT32, "tir.call_packed", name, *map(_described, args))


def tvm_call_packed(name: str, *args: ExprLike | str | Buffer) -> Call:
    """The same as `call_packed`, under the name that lowered code of TVM has."""
    return call_intrin(INT32, "tir.tvm_call_packed", name, *map(_described, args))


def _described(arg: ExprLike | str | Buffer) -> ExprLike | str:
    """A whole buffer is passed together with its shape and type."""
    if not isinstance(arg, Buffer):
        return arg
    return call_intrin(
        HANDLE,
        "tir.tvm_stack_make_array",
        arg.data,
        call_intrin(HANDLE, "tir.tvm_stack_make_shape", *arg.shape),
        call_intrin(HANDLE, "tir.tvm_stack_make_shape", *arg.strides) if arg.strides else 0,
        len(arg.shape),
        const(0, arg.dtype),
        0 if arg.elem_offset is None else arg.elem_offset,
    )


def address_of(load: BufferLoad) -> Call:
    """The address of a buffer element."""
    return call_intrin(HANDLE, "tir.address_of", load)


def ret(value: ExprLike) -> Call:
    """Return from the function."""
    return call_intrin(convert(value).dtype, "tir.ret", value)


def assume(condition: ExprLike) -> Call:
    """Promise that `condition` holds."""
    return call_intrin(BOOL, "tir.assume", condition)


def undef(dtype: str) -> Call:
    """Any value of a type, chosen freely."""
    return call_intrin(dtype, "tir.undef")

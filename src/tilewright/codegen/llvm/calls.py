"""Calls of builtin operators: a table from operator to the function that emits it."""

from __future__ import annotations

import re
from collections.abc import Callable

from tilewright.codegen.llvm import casts, memory
from tilewright.codegen.llvm.emitter import Value
from tilewright.codegen.llvm.index import IndexBuilder
from tilewright.codegen.llvm.speculation import can_speculate
from tilewright.codegen.llvm.types import value_type
from tilewright.codegen.llvm.values import mangled, mask_type
from tilewright.codegen.llvm.vector_math import MATH_FUNCTIONS
from tilewright.errors import CodegenError
from tilewright.ir import (
    INT32,
    BufferLoad,
    Call,
    CallEffect,
    DType,
    IntImm,
    Op,
    PrimExpr,
    StringImm,
)

CallEmitter = Callable[[IndexBuilder, Call], Value]

CALL_EMITTERS: dict[str, CallEmitter] = {}


def _emits(*names: str) -> Callable[[CallEmitter], CallEmitter]:
    def register(emit: CallEmitter) -> CallEmitter:
        for name in names:
            CALL_EMITTERS[f"tir.{name}"] = emit
        return emit

    return register


def _name_of(call: Call) -> str:
    assert isinstance(call.op, Op)
    return call.op.name.removeprefix("tir.")


@_emits(*(name for name in MATH_FUNCTIONS if f"tir.{name}" != "tir.rint"))
def _math(builder: IndexBuilder, call: Call) -> Value:
    """A math function; float8 has none, since it is legalised before."""
    args = [builder.value(arg) for arg in call.args]
    symbol = builder.context.math(_name_of(call), call.dtype)
    type_ = value_type(call.dtype)
    return builder.emitter.pure(type_, f"call {type_} {symbol}({', '.join(map(str, args))})", args)


_INT_OPCODES = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "shift_left": "shl"}


@_emits(*_INT_OPCODES)
def _bitwise(builder: IndexBuilder, call: Call) -> Value:
    a, b = (builder.value(arg) for arg in call.args)
    return builder.int_op(_INT_OPCODES[_name_of(call)], a, b)


@_emits("shift_right")
def _shift_right(builder: IndexBuilder, call: Call) -> Value:
    a, b = (builder.value(arg) for arg in call.args)
    return builder.int_op("ashr" if call.dtype.is_int else "lshr", a, b)


@_emits("bitwise_not")
def _bitwise_not(builder: IndexBuilder, call: Call) -> Value:
    value = builder.value(call.args[0])
    return builder.int_op("xor", value, builder.splat_text("-1", value.type))


@_emits("if_then_else")
def _if_then_else(builder: IndexBuilder, call: Call) -> Value:
    condition_expr, then_expr, else_expr = call.args
    condition = builder.value(condition_expr)
    if condition.type != "i1" or (can_speculate(then_expr) and can_speculate(else_expr)):
        return builder.select(condition, builder.value(then_expr), builder.value(else_expr))
    return builder.branch(
        condition, lambda: builder.value(then_expr), lambda: builder.value(else_expr)
    )


@_emits("likely")
def _likely(builder: IndexBuilder, call: Call) -> Value:
    return builder.value(call.args[0])


@_emits("assume")
def _assume(builder: IndexBuilder, call: Call) -> Value:
    condition = builder.value(call.args[0])
    builder.context.declare("void", "llvm.assume", "i1")
    builder.emitter.line(f"call void @llvm.assume({condition})")
    return condition


@_emits("undef")
def _undef(builder: IndexBuilder, call: Call) -> Value:
    return Value(value_type(call.dtype), "undef")


@_emits("reinterpret")
def _reinterpret(builder: IndexBuilder, call: Call) -> Value:
    value, type_ = builder.value(call.args[0]), value_type(call.dtype)
    if value.type == type_:
        return value
    opcode = "bitcast"
    if value.type == "ptr" or type_ == "ptr":
        opcode = "ptrtoint" if value.type == "ptr" else "inttoptr"
    return builder.emitter.pure(type_, f"{opcode} {value} to {type_}", (value,))


@_emits("popcount")
def _popcount(builder: IndexBuilder, call: Call) -> Value:
    return builder.intrinsic("ctpop", call.dtype, builder.value(call.args[0]))


@_emits("clz")
def _clz(builder: IndexBuilder, call: Call) -> Value:
    source = call.args[0].dtype
    counted = builder.intrinsic("ctlz", source, builder.value(call.args[0]), Value("i1", "false"))
    return casts.cast(builder, counted, source, call.dtype)


@_emits("isnan")
def _isnan(builder: IndexBuilder, call: Call) -> Value:
    value = _as_computed(builder, call.args[0])
    return builder.emitter.pure(mask_type(value.type), f"fcmp uno {value}, {value.text}", (value,))


def _as_computed(builder: IndexBuilder, expr: PrimExpr) -> Value:
    """A float in a type that can be compared."""
    if expr.dtype.bits >= 32:
        return builder.value(expr)
    return casts.cast(
        builder, builder.value(expr), expr.dtype, DType("float32").with_lanes(expr.dtype.lanes)
    )


def _magnitude_test(test: str) -> CallEmitter:
    def emit(builder: IndexBuilder, call: Call) -> Value:
        value = _as_computed(builder, call.args[0])
        dtype = call.args[0].dtype
        wide = dtype if dtype.bits >= 32 else DType("float32").with_lanes(dtype.lanes)
        magnitude = builder.intrinsic("fabs", wide, value)
        infinity = builder.splat_text("0x7FF0000000000000", value.type)
        return builder.emitter.pure(
            mask_type(value.type), f"fcmp {test} {magnitude}, {infinity.text}", (magnitude,)
        )

    return emit


CALL_EMITTERS["tir.isinf"] = _magnitude_test("oeq")
CALL_EMITTERS["tir.isfinite"] = _magnitude_test("olt")


@_emits("ldexp")
def _ldexp(builder: IndexBuilder, call: Call) -> Value:
    """`x * 2**n`, with the power made by exp2 on an integer, which is exact."""
    value = builder.value(call.args[0])
    exponent = casts.cast(builder, builder.value(call.args[1]), call.args[1].dtype, call.dtype)
    symbol, type_ = builder.context.math("exp2", call.dtype), value_type(call.dtype)
    power = builder.emitter.pure(type_, f"call {type_} {symbol}({exponent})", (exponent,))
    return builder.emitter.pure(type_, f"fmul {value}, {power.text}", (value, power))


@_emits("vectorlow", "vectorhigh")
def _vector_half(builder: IndexBuilder, call: Call) -> Value:
    half = call.dtype.lanes
    start = 0 if _name_of(call) == "vectorlow" else half
    return builder.shuffle(builder.value(call.args[0]), list(range(start, start + half)))


@_emits("vectorcombine")
def _vector_combine(builder: IndexBuilder, call: Call) -> Value:
    low, high = (builder.value(arg) for arg in call.args)
    type_ = value_type(call.dtype)
    mask = ", ".join(f"i32 {lane}" for lane in range(call.dtype.lanes))
    return builder.emitter.pure(
        type_, f"shufflevector {low}, {high}, <{call.dtype.lanes} x i32> <{mask}>", (low, high)
    )


@_emits("address_of")
def _address_of(builder: IndexBuilder, call: Call) -> Value:
    target = call.args[0]
    if not isinstance(target, BufferLoad):
        raise CodegenError(f"address_of needs a buffer element, got `{target}`")
    return memory.address(builder, target.buffer, target.indices[0])[0]


@_emits("tvm_access_ptr")
def _access_ptr(builder: IndexBuilder, call: Call) -> Value:
    kind, data, offset = call.args[0], call.args[1], call.args[2]
    pointer, position = builder.value(data), builder.index(offset)
    type_ = value_type(kind.dtype)
    return builder.emitter.pure(
        "ptr", f"getelementptr inbounds {type_}, {pointer}, {position}", (pointer, position)
    )


@_emits("isnullptr")
def _isnullptr(builder: IndexBuilder, call: Call) -> Value:
    pointer = builder.value(call.args[0])
    return builder.emitter.pure("i1", f"icmp eq {pointer}, null", (pointer,))


@_emits("prefetch")
def _prefetch(builder: IndexBuilder, call: Call) -> Value:
    """prefetch(address, write, locality, data cache)"""
    args = [builder.value(arg) for arg in call.args]
    builder.context.declare("void", "llvm.prefetch.p0", "ptr, i32, i32, i32")
    builder.emitter.line(f"call void @llvm.prefetch.p0({', '.join(map(str, args))})")
    return Value("i32", "0")


@_emits("call_extern", "call_pure_extern")
def _call_extern(builder: IndexBuilder, call: Call) -> Value:
    symbol = _string_of(call, 0)
    args = [builder.value(arg) for arg in call.args[1:]]
    result = "void" if call.dtype == "void" else value_type(call.dtype)
    name = builder.context.declare(result, symbol, ", ".join(arg.type for arg in args))
    return _emit_call(builder, call, result, name, args)


@_emits("call_llvm_intrin", "call_llvm_pure_intrin")
def _call_llvm(builder: IndexBuilder, call: Call) -> Value:
    symbol, first = _string_of(call, 0), 1
    if len(call.args) > 1 and isinstance(call.args[1], IntImm) and call.args[1].dtype == "uint32":
        first = 2  # the number of arguments that the intrinsic is overloaded on
    args = [builder.value(arg) for arg in call.args[first:]]
    result = "void" if call.dtype == "void" else value_type(call.dtype)
    if not _NAMES_ITS_TYPE.search(symbol):
        symbol = f"{symbol}.{mangled(call.dtype)}"
    name = builder.context.declare(result, symbol, ", ".join(arg.type for arg in args))
    return _emit_call(builder, call, result, name, args)


_NAMES_ITS_TYPE = re.compile(
    r"^llvm\.(x86|aarch64|arm)\.|\.(v\d+)?(i|f|bf)\d+$|\.p0$|^llvm\.assume$"
)


def _string_of(call: Call, position: int) -> str:
    arg = call.args[position]
    if not isinstance(arg, StringImm):
        raise CodegenError(f"`{call}` must name the function as a string")
    return arg.value


def _emit_call(
    builder: IndexBuilder, call: Call, result: str, name: str, args: list[Value]
) -> Value:
    instruction = f"call {result} {name}({', '.join(map(str, args))})"
    if result == "void":
        builder.emitter.line(instruction)
        return Value("i32", "0")
    assert isinstance(call.op, Op)
    if call.op.effect is CallEffect.PURE and all(arg.type != "ptr" for arg in args):
        return builder.emitter.pure(result, instruction, args)
    return builder.emitter.here(result, instruction)


@_emits("call_packed", "tvm_call_packed")
def _call_packed(builder: IndexBuilder, call: Call) -> Value:
    """Arguments go as an array of 8-byte slots with a string of type letters: i, f, p or s."""
    emitter = builder.emitter
    args = call.args[1:]
    slots = emitter.alloca(f"alloca [{max(1, len(args))} x i64], align 8")
    letters = ""
    for position, arg in enumerate(args):
        value, letter = _packed_slot(builder, arg)
        letters += letter
        place = emitter.pure(
            "ptr", f"getelementptr inbounds i64, {slots}, i64 {position}", (slots,)
        )
        emitter.line(f"store {value}, {place}, align 8")
    builder.context.declare("i32", "tw_call_packed", "ptr, ptr, ptr, i32")
    name = builder.context.string(_string_of(call, 0))
    kinds = builder.context.string(letters)
    code = emitter.here(
        "i32",
        f"call i32 @tw_call_packed(ptr {name}, {slots}, ptr {kinds}, i32 {len(args)})",
    )
    builder.fail_unless_zero(code)
    return Value(value_type(INT32), "0")


def _packed_slot(builder: IndexBuilder, arg: PrimExpr) -> tuple[Value, str]:
    if isinstance(arg, StringImm):
        return builder.value(arg), "s"
    if arg.dtype.is_handle:
        return builder.value(arg), "p"
    wide = DType("float64") if arg.dtype.is_float else DType("int64")
    letter = "f" if arg.dtype.is_float else "i"
    return casts.cast(builder, builder.value(arg), arg.dtype, wide), letter

"""Calls that are not arithmetic: choices, vectors, addresses, and functions by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright import ir
from tilewright.codegen.llvm import casts, memory, tile_state
from tilewright.codegen.llvm.call_table import CallTable, name_of, string_of
from tilewright.codegen.llvm.emitter import Value
from tilewright.codegen.llvm.index import IndexBuilder
from tilewright.codegen.llvm.intrinsic_check import check_intrinsic, is_always_selected
from tilewright.codegen.llvm.types import intrinsic_type, stride_type, value_type
from tilewright.codegen.llvm.values import zero_of
from tilewright.errors import CodegenError

CALLS = CallTable()
NOTHING = Value("i32", "0")  # what a call yields whose result nobody can use


CALLS.update(
    {
        "tir.if_then_else": lambda builder, call: builder.choose(*call.args),
        "tir.likely": lambda builder, call: builder.value(call.args[0]),
        # Any value will do; zero is the same at every use.
        "tir.undef": lambda builder, call: zero_of(value_type(call.dtype)),
        "tir.isnullptr": lambda builder, call: builder.compare(
            "icmp eq", builder.value(call.args[0]), zero_of("ptr")
        ),
    }
)


@CALLS.emits("assume")
def _assume(builder: IndexBuilder, call: ir.Call) -> Value:
    condition = builder.condition(call.args[0])
    builder.context.declare("void", "llvm.assume", "i1")
    builder.emitter.line(f"call void @llvm.assume({condition})")
    return condition


@CALLS.emits("ret")
def _ret(builder: IndexBuilder, call: ir.Call) -> Value:
    raise CodegenError(f"`{call}` must be a statement of its own")


# --- vectors and bits ---------------------------------------------------------------------------


@CALLS.emits("reinterpret")
def _reinterpret(builder: IndexBuilder, call: ir.Call) -> Value:
    source, target = call.args[0].dtype, call.dtype
    if source.bits * source.lanes != target.bits * target.lanes:
        raise CodegenError(f"cannot reinterpret {source!s} as {target!s}: sizes differ in `{call}`")
    value, type_ = builder.value(call.args[0]), value_type(target)
    if value.type != type_ and "ptr" in (value.type, type_):
        return builder.convert("ptrtoint" if value.type == "ptr" else "inttoptr", value, type_)
    return _as_type(builder, value, type_)


@CALLS.emits("vectorlow", "vectorhigh")
def _vector_half(builder: IndexBuilder, call: ir.Call) -> Value:
    value, half = builder.value(call.args[0]), call.args[0].dtype.lanes // 2
    start = 0 if name_of(call) == "vectorlow" else half
    if call.dtype.lanes != half:
        raise CodegenError(f"half of {call.args[0].dtype!s} has {half} lanes: `{call}`")
    if half == 1:
        return builder.lane(value, start)
    return builder.shuffle(value, range(start, start + half))


@CALLS.emits("vectorcombine")
def _vector_combine(builder: IndexBuilder, call: ir.Call) -> Value:
    low, high = call.args
    if low.dtype is not high.dtype or call.dtype.lanes != 2 * low.dtype.lanes:
        raise CodegenError(f"`{call}` must join two vectors of one type")
    values = (builder.value(low), builder.value(high))
    if low.dtype.lanes == 1:
        return builder.lanes_to_vector(list(values))
    mask = ", ".join(f"i32 {lane}" for lane in range(call.dtype.lanes))
    return builder.emitter.pure(
        value_type(call.dtype),
        f"shufflevector {values[0]}, {values[1]}, <{call.dtype.lanes} x i32> <{mask}>",
        values,
    )


# --- addresses ----------------------------------------------------------------------------------


@CALLS.emits("address_of")
def _address_of(builder: IndexBuilder, call: ir.Call) -> Value:
    target = call.args[0]
    if not isinstance(target, ir.BufferLoad):
        raise CodegenError(f"address_of needs a buffer element, got `{target}`")
    index = target.indices[0]
    first = index.base if isinstance(index, ir.Ramp) else index
    if len(target.indices) != 1 or first.dtype.lanes != 1:
        raise CodegenError(f"address_of needs one flat element, got `{target}`")
    return memory.address(builder, target.buffer, first).place


@CALLS.emits("tvm_access_ptr")
def _access_ptr(builder: IndexBuilder, call: ir.Call) -> Value:
    kind, data, offset = call.args[0], call.args[1], call.args[2]
    pointer, position = builder.value(data), builder.index(offset)
    return builder.emitter.pure(
        "ptr",
        f"getelementptr inbounds {stride_type(kind.dtype)}, {pointer}, {position}",
        (pointer, position),
    )


@CALLS.emits("prefetch")
def _prefetch(builder: IndexBuilder, call: ir.Call) -> Value:
    """prefetch(address, write, locality, data cache)"""
    if not all(isinstance(arg, ir.IntImm) for arg in call.args[1:]):
        raise CodegenError(f"`{call}`: all arguments but the address must be constants")
    args = [builder.value(arg) for arg in call.args]
    builder.context.declare("void", "llvm.prefetch.p0", "ptr, i32, i32, i32")
    builder.emitter.line(f"call void @llvm.prefetch.p0({', '.join(map(str, args))})")
    return NOTHING


@CALLS.emits("atomic_add")
def _atomic_add(builder: IndexBuilder, call: ir.Call) -> Value:
    """Add to memory; yields what was there before."""
    dtype = call.args[1].dtype
    if dtype.lanes != 1 or casts.is_storage_only(dtype) or dtype.bits < 8:
        raise CodegenError(f"atomic_add of {dtype!s} is not supported in `{call}`")
    pointer, value = (builder.value(arg) for arg in call.args)
    operation = "fadd" if dtype.is_float else "add"
    return builder.emitter.here(
        value.type, f"atomicrmw {operation} {pointer}, {value} monotonic, align {dtype.itemsize}"
    )


# --- functions by name --------------------------------------------------------------------------


@CALLS.emits("call_extern", "call_pure_extern")
def _call_extern(builder: IndexBuilder, call: ir.Call) -> Value:
    symbol, arguments = string_of(call, 0), call.args[1:]
    result = _c_type(call, call.dtype)
    types = [_c_type(call, arg.dtype) for arg in arguments]
    name = builder.context.declare(result, symbol, ", ".join(types))
    args = [builder.value(arg) for arg in arguments]
    value = _emit_call(builder, _result_type(call, value_type), name, args)
    tile_state.reconfigure(builder)
    return value


def _c_type(call: ir.Call, dtype: ir.DType) -> str:
    """How C passes a value; small integers are extended to registers by the caller."""
    if dtype == "void":
        return "void"
    if dtype.lanes != 1 or (dtype.is_float and dtype.bits < 32):
        raise CodegenError(f"a C function cannot take or return {dtype!s}: `{call}`")
    type_ = value_type(dtype)
    if dtype.bits < 32 and not dtype.is_handle:
        return f"{'signext' if dtype.is_int else 'zeroext'} {type_}"
    return type_


def _emit_call(builder: IndexBuilder, type_: str, name: str, args: Sequence[Value]) -> Value:
    """A call that stays where it is: even a pure function may be slow, or fail, when not wanted."""
    passed = ", ".join(map(str, args))
    if type_ == "void":
        builder.emitter.line(f"call void {name}({passed})")
        return NOTHING
    return builder.emitter.here(type_, f"call {type_} {name}({passed})")


@CALLS.emits("call_llvm_intrin", "call_llvm_pure_intrin")
def _call_llvm(builder: IndexBuilder, call: ir.Call) -> Value:
    symbol, arguments = string_of(call, 0), call.args[1:]
    if arguments and isinstance(arguments[0], ir.IntImm) and arguments[0].dtype == "uint32":
        arguments = _without_count(call, arguments)
    args = [_as_type(builder, builder.value(arg), intrinsic_type(arg.dtype)) for arg in arguments]
    result = _result_type(call, intrinsic_type)
    types = ", ".join(arg.type for arg in args)
    declaration = f"declare {result} @{symbol}({types})"
    check_intrinsic(symbol, declaration, builder.context.target)
    if not is_always_selected(symbol, declaration):
        builder.context.untried.append(symbol)
    name = builder.context.declare_intrinsic(result, symbol, types)
    if name_of(call) == "call_llvm_intrin" or result == "void":
        value = _emit_call(builder, result, name, args)
    else:
        text = f"call {result} {name}({', '.join(map(str, args))})"
        value = builder.emitter.pure(result, text, args)
    return value if result == "void" else _as_type(builder, value, value_type(call.dtype))


def _result_type(call: ir.Call, type_of: Callable[[ir.DType], str]) -> str:
    return "void" if call.dtype == "void" else type_of(call.dtype)


def _as_type(builder: IndexBuilder, value: Value, type_: str) -> Value:
    """The same bits in a type of the same size."""
    return value if value.type == type_ else builder.convert("bitcast", value, type_)


def _without_count(call: ir.Call, arguments: tuple[ir.PrimExpr, ...]) -> tuple[ir.PrimExpr, ...]:
    """TVM passes the number of arguments first, as a uint32."""
    count = arguments[0]
    assert isinstance(count, ir.IntImm)
    if count.value == len(arguments) - 1:
        return arguments[1:]
    raise CodegenError(
        f"`{call}` announces {count.value} arguments and passes {len(arguments) - 1}; an argument "
        "of the intrinsic itself that is a uint32 constant must follow the count"
    )

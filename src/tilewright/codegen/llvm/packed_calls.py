"""Calls of functions that are registered in Python, or installed by the user of a library.

Arguments go as an array of 8-byte slots with a string of letters: i, u and b for integers and
bools, f for floats, s for text, t for arrays (the address of a DLTensor) and p for other pointers.
The function's result comes back in the first slot.
"""

from __future__ import annotations

from typing import TypeGuard

from tilewright.codegen.llvm import casts, tile_state
from tilewright.codegen.llvm.call_table import CallTable, string_of
from tilewright.codegen.llvm.emitter import Value
from tilewright.codegen.llvm.index import IndexBuilder
from tilewright.errors import CodegenError
from tilewright.ir import Call, DType, IntImm, Op, PrimExpr, StringImm
from tilewright.ir.dlpack_bridge import to_dlpack
from tilewright.native.abi import CALL_PACKED

CALLS = CallTable()

_MAKE_ARRAY, _MAKE_SHAPE = "tir.tvm_stack_make_array", "tir.tvm_stack_make_shape"

# data, device type and number, dimensions, type code, bits, lanes, shape, strides, byte offset
_TENSOR = "{ ptr, i32, i32, i32, i8, i8, i16, ptr, ptr, i64 }"
_CPU = 1

# What an integer is widened to, and its letter.
_INTEGERS = {"int": ("int64", "i"), "uint": ("uint64", "u"), "bool": ("int64", "b")}


@CALLS.emits("call_packed", "tvm_call_packed")
def _call_packed(builder: IndexBuilder, call: Call) -> Value:
    emitter, args = builder.emitter, call.args[1:]
    name = builder.context.string(string_of(call, 0))
    values = [_slot(builder, call, arg) for arg in args]
    slots = _array(builder, [value for value, _ in values])
    kinds = builder.context.string("".join(letter for _, letter in values))
    builder.context.declare("i32", CALL_PACKED, "ptr, ptr, ptr, i32")
    code = emitter.here(
        "i32", f"call i32 @{CALL_PACKED}(ptr {name}, {slots}, ptr {kinds}, i32 {len(args)})"
    )
    tile_state.reconfigure(builder)
    builder.fail_unless_zero(code)
    result = emitter.here("i64", f"load i64, {slots}, align 8")
    return casts.cast(builder, result, DType("int64"), call.dtype)


def _slot(builder: IndexBuilder, call: Call, arg: PrimExpr) -> tuple[Value, str]:
    """A value of 8 bytes and its letter."""
    if isinstance(arg, StringImm):
        return builder.value(arg), "s"
    if _is_call(arg, _MAKE_ARRAY):
        return _tensor(builder, arg), "t"
    if arg.dtype.is_handle:
        return builder.value(arg), "p"
    if arg.dtype.lanes != 1:
        raise CodegenError(f"a registered function cannot take {arg.dtype!s}: `{call}`")
    wide, letter = ("float64", "f") if arg.dtype.is_float else _INTEGERS[arg.dtype.code]
    return casts.cast(builder, builder.value(arg), arg.dtype, DType(wide)), letter


def _tensor(builder: IndexBuilder, call: Call) -> Value:
    """A DLTensor on the stack, from (data, shape, strides, ndim, zero of the dtype, offset)."""
    data, shape, strides, _, zero, offset = call.args
    code, bits, lanes = to_dlpack(zero.dtype)
    extents = shape.args if isinstance(shape, Call) else ()
    first = builder.index(offset)
    step = Value("i64", str(max(1, bits * lanes // 8)))
    fields = [
        builder.value(data),
        Value("i32", str(_CPU)),
        Value("i32", "0"),
        Value("i32", str(len(extents))),
        Value("i8", str(code)),
        Value("i8", str(bits)),
        Value("i16", str(lanes)),
        _numbers(builder, shape),
        _numbers(builder, strides),
        builder.int_op("mul", first, step),
    ]
    return builder.struct(_TENSOR, fields, 8)


def _numbers(builder: IndexBuilder, shape: PrimExpr) -> Value:
    """The address of extents or strides; null where there are none."""
    if isinstance(shape, IntImm):
        return Value("ptr", "null")
    if not _is_call(shape, _MAKE_SHAPE):
        raise CodegenError(f"expected tvm_stack_make_shape(...), got `{shape}`")
    return _array(builder, [builder.index(extent) for extent in shape.args])


def _array(builder: IndexBuilder, values: list[Value]) -> Value:
    """Values of 8 bytes next to each other on the stack, where one is returned in any case."""
    types = ", ".join(value.type for value in values) or "i64"
    return builder.struct(f"{{ {types} }}", values, 8)


def _is_call(expr: PrimExpr, op_name: str) -> TypeGuard[Call]:
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name == op_name

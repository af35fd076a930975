"""Calls that compute with numbers: math functions, bits, fixed point."""

from __future__ import annotations

from tilewright.codegen.llvm import casts
from tilewright.codegen.llvm.call_table import CallEmitter, CallTable, name_of
from tilewright.codegen.llvm.emitter import Value
from tilewright.codegen.llvm.index import IndexBuilder
from tilewright.codegen.llvm.types import float_constant, value_type
from tilewright.codegen.llvm.vector_math import MATH_FUNCTIONS
from tilewright.errors import CodegenError
from tilewright.ir import FLOAT32, INT32, INT64, Call, DType, IntImm
from tilewright.lowering.lower_intrin import fixed_point_product

CALLS = CallTable()


def _computed_dtype(dtype: DType) -> DType:
    return FLOAT32.with_lanes(dtype.lanes) if dtype.bits < 32 else dtype


def _number(builder: IndexBuilder, value: float, dtype: DType) -> Value:
    """A float in every lane."""
    return builder.splat_text(float_constant(value, dtype.element_of), value_type(dtype))


@CALLS.emits(*(name for name in MATH_FUNCTIONS if name not in ("rint", "minnum", "maxnum")))
def _math(builder: IndexBuilder, call: Call) -> Value:
    """A math function; the 8-bit floats go through float32."""
    dtype = call.dtype
    if not dtype.is_float:
        raise CodegenError(f"{name_of(call)} needs floats, got {dtype!s} in `{call}`")
    if dtype.element_of == "float16":
        builder.context.require_half(call)
    wide = _computed_dtype(dtype) if dtype.bits == 8 else dtype
    args = [builder.computed(arg) if dtype.bits == 8 else builder.value(arg) for arg in call.args]
    symbol, type_ = builder.context.math(name_of(call), wide), value_type(wide)
    result = builder.emitter.pure(
        type_, f"call {type_} {symbol}({', '.join(map(str, args))})", args
    )
    return casts.cast(builder, result, wide, dtype)


# --- integers -----------------------------------------------------------------------------------

_INT_OPCODES = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "shift_left": "shl"}


@CALLS.emits(*_INT_OPCODES, "shift_right")
def _bitwise(builder: IndexBuilder, call: Call) -> Value:
    a, b = (builder.value(arg) for arg in call.args)
    right = "ashr" if call.dtype.is_int else "lshr"
    return builder.int_op(_INT_OPCODES.get(name_of(call), right), a, b)


@CALLS.emits("bitwise_not")
def _bitwise_not(builder: IndexBuilder, call: Call) -> Value:
    value = builder.value(call.args[0])
    return builder.int_op("xor", value, builder.splat_text("-1", value.type))


@CALLS.emits("popcount")
def _popcount(builder: IndexBuilder, call: Call) -> Value:
    return builder.intrinsic("ctpop", call.dtype, builder.value(call.args[0]))


@CALLS.emits("clz")
def _clz(builder: IndexBuilder, call: Call) -> Value:
    source = call.args[0].dtype
    counted = builder.intrinsic("ctlz", source, builder.value(call.args[0]), Value("i1", "false"))
    unsigned = DType(f"uint{source.bits}").with_lanes(source.lanes)  # 8 zeros of 8 bits fit
    return casts.cast(builder, counted, unsigned, call.dtype)


@CALLS.emits("large_uint_imm")
def _large_uint(builder: IndexBuilder, call: Call) -> Value:
    """A 64-bit constant in two halves, low before high."""
    low, high = call.args
    if not (isinstance(low, IntImm) and isinstance(high, IntImm)):
        raise CodegenError(f"`{call}` must be made of two constants")
    number = (high.value << 32) | (low.value & 0xFFFFFFFF)
    return Value(value_type(call.dtype), str(number))


@CALLS.emits("dp4a")
def _dot_of_bytes(builder: IndexBuilder, call: Call) -> Value:
    """The sum of the products of four bytes, plus the third argument."""
    a, b, total = call.args
    wide = INT32.with_lanes(a.dtype.lanes)
    left, right = (casts.cast(builder, builder.value(arg), arg.dtype, wide) for arg in (a, b))
    products, type_ = builder.int_op("mul", left, right), value_type(wide)
    symbol = builder.context.declare("i32", f"llvm.vector.reduce.add.v{wide.lanes}i32", type_)
    dot = builder.emitter.pure("i32", f"call i32 {symbol}({products})", (products,))
    return builder.int_op("add", dot, builder.value(total))


CALLS.emits("q_multiply_shift", "q_multiply_shift_per_axis")(
    lambda builder, call: builder.value(fixed_point_product(call))
)


# --- floats -------------------------------------------------------------------------------------


@CALLS.emits("isnan")
def _isnan(builder: IndexBuilder, call: Call) -> Value:
    value = builder.computed(call.args[0])
    return builder.compare("fcmp uno", value, value)


def _magnitude_test(test: str) -> CallEmitter:
    def emit(builder: IndexBuilder, call: Call) -> Value:
        dtype = call.args[0].dtype
        wide = FLOAT32.with_lanes(dtype.lanes) if casts.is_storage_only(dtype) else dtype
        magnitude = builder.intrinsic("fabs", wide, builder.computed(call.args[0]))
        return builder.compare(f"fcmp {test}", magnitude, _number(builder, float("inf"), wide))

    return emit


CALLS["tir.isinf"] = _magnitude_test("oeq")
CALLS["tir.isfinite"] = _magnitude_test("olt")


# (bits of the exponent's range, of the mantissa) of the formats computed with
_FORMATS = {32: (127, 23), 64: (1023, 52)}


@CALLS.emits("ldexp")
def _ldexp(builder: IndexBuilder, call: Call) -> Value:
    """`x * 2**n`, in three steps so that no power of two overflows and rounding happens once."""
    source, count = call.args
    dtype = _computed_dtype(source.dtype)
    bias, mantissa = _FORMATS[dtype.bits]
    value = casts.cast(builder, builder.value(source), source.dtype, dtype)
    wide = DType(f"int{dtype.bits}").with_lanes(dtype.lanes)
    whole, bound = INT64.with_lanes(dtype.lanes), 4 * (bias + 1)
    power = casts.cast(
        builder, builder.value(count), count.dtype, INT64.with_lanes(count.dtype.lanes)
    )
    if count.dtype.lanes != dtype.lanes:
        power = builder.splat(power, dtype.lanes)
    # Few enough bits: beyond some bound all exponents give zero or infinity.
    exponent = casts.cast(builder, _between(builder, power, whole, -bound, bound), whole, wide)
    # Steps down keep the number normal until the last one, which rounds.
    down, up = -(bias - 1) + mantissa + 1, bias
    for _ in range(2):
        step = _step(builder, exponent, down, up)
        value = _times_power(builder, value, step, dtype)
        exponent = builder.int_op("sub", exponent, step)
    last = _between(builder, exponent, wide, 1 - bias, bias)
    value = _times_power(builder, value, last, dtype)
    return casts.cast(builder, value, dtype, call.dtype)


def _between(builder: IndexBuilder, value: Value, dtype: DType, low: int, high: int) -> Value:
    least, most = (builder.splat_text(str(number), value.type) for number in (low, high))
    return builder.intrinsic("smax", dtype, builder.intrinsic("smin", dtype, value, most), least)


def _step(builder: IndexBuilder, exponent: Value, down: int, up: int) -> Value:
    """How far to go now: nothing while the rest can be done in one step."""
    zero, least, most, far = (
        builder.splat_text(str(number), exponent.type) for number in (0, 1 - up, up, down)
    )
    too_high = builder.compare("icmp sgt", exponent, most)
    too_low = builder.compare("icmp slt", exponent, least)
    return builder.select(too_high, most, builder.select(too_low, far, zero))


def _times_power(builder: IndexBuilder, value: Value, exponent: Value, dtype: DType) -> Value:
    """`value * 2**exponent` for exponents of normal numbers."""
    bias, mantissa = _FORMATS[dtype.bits]
    biased = builder.int_op("add", exponent, builder.splat_text(str(bias), exponent.type))
    bits = builder.int_op("shl", biased, builder.splat_text(str(mantissa), exponent.type))
    power = builder.convert("bitcast", bits, value_type(dtype))
    return builder.emitter.pure(value.type, f"fmul {value}, {power.text}", (value, power))


@CALLS.emits("nextafter")
def _next_after(builder: IndexBuilder, call: Call) -> Value:
    """The neighbour of x towards y: its bits plus or minus one."""
    dtype = call.dtype
    if dtype.bits < 32:
        raise CodegenError(f"nextafter of {dtype!s} is not supported in `{call}`")
    x, y = (builder.value(arg) for arg in call.args)
    whole = value_type(DType(f"int{dtype.bits}").with_lanes(dtype.lanes))
    bits = builder.convert("bitcast", x, whole)
    one, minus_one = (builder.splat_text(text, whole) for text in ("1", "-1"))
    zero = _number(builder, 0.0, dtype)
    rises = builder.compare("fcmp olt", x, y)
    is_negative = builder.compare("icmp slt", bits, builder.splat_text("0", whole))
    outwards = builder.int_op("xor", rises, is_negative)
    moved = builder.int_op("add", bits, builder.select(outwards, one, minus_one))
    neighbour = builder.convert("bitcast", moved, value_type(dtype))
    smallest = builder.convert("bitcast", one, value_type(dtype))
    from_zero = builder.intrinsic("copysign", dtype, smallest, y)
    neighbour = builder.select(builder.compare("fcmp oeq", x, zero), from_zero, neighbour)
    unordered = builder.emitter.pure(value_type(dtype), f"fadd {x}, {y.text}", (x, y))
    result = builder.select(builder.compare("fcmp oeq", x, y), y, neighbour)
    return builder.select(builder.compare("fcmp uno", x, y), unordered, result)

"""Expressions in CUDA C++: what is printed, and that NVRTC takes it for every architecture."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright import ir
from tilewright.errors import CodegenError
from tilewright.ir import intrinsics
from tilewright.target.intrin_rules import register_intrin_rule, remove_intrin_rule
from tilewright.testing.cuda_kernels import KernelBuilder, body_of, source_of

FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
TYPES = (*FLOATS, *SIGNED, *UNSIGNED, "bool")
NAMES = (
    "exp exp2 exp10 expm1 erf log log2 log10 log1p tanh sigmoid sqrt rsqrt sin cos tan asin acos "
    "atan sinh cosh asinh acosh atanh floor ceil trunc round nearbyint fabs"
)
UNARY = NAMES.split()
BINARY = ("pow", "fmod", "atan2", "copysign", "nextafter", "hypot")
Compile = Callable[..., str]


def stored(value: Callable[..., ir.PrimExpr], *dtypes: str) -> ir.PrimFunc:
    """A kernel that stores `value` of one element of each type; the first is the result's."""
    kernel = KernelBuilder()
    pointers = [kernel.pointer(dtype, name) for dtype, name in zip(dtypes, "CAB", strict=False)]
    result, *operands = pointers
    result[kernel.tx] = value(*(operand[kernel.tx] for operand in operands))
    return kernel.function


def printed(value: Callable[..., ir.PrimExpr], *dtypes: str) -> str:
    """The right side of that store."""
    return body_of(stored(value, *dtypes)).split(" = ", 1)[1].removesuffix(";\n")


def test_casts_between_all_types(compiles: Compile) -> None:
    kernel = KernelBuilder()
    sources = [kernel.pointer(dtype, f"from_{dtype}") for dtype in TYPES]
    for dtype in TYPES:
        target = kernel.pointer(dtype, f"to_{dtype}")
        for i, source in enumerate(sources):
            target[kernel.tx * 32 + i] = ir.cast(dtype, source[kernel.tx])
    compiles(kernel.function)


@pytest.mark.parametrize(
    ("target", "source", "text"),
    [
        ("float32", "float16", "(float)A[threadIdx_x]"),
        ("float16", "float32", "half(A[threadIdx_x])"),
        ("int32", "float16", "(int)(float)A[threadIdx_x]"),
        ("float16", "int32", "half(A[threadIdx_x])"),
        ("int8", "float32", "(signed char)A[threadIdx_x]"),
        ("float64", "int64", "(double)A[threadIdx_x]"),
        ("bool", "int32", "A[threadIdx_x] != 0"),
        ("bool", "float16", "(float)A[threadIdx_x] != 0"),
        ("float8_e4m3fn", "bfloat16", "float8_e4m3((float)((float)A[threadIdx_x]))"),
    ],
)
def test_text_of_casts(target: str, source: str, text: str) -> None:
    assert printed(lambda a: ir.cast(target, a), target, source) == text


@pytest.mark.parametrize("dtype", [dtype for dtype in TYPES if dtype != "bool"])
def test_arithmetic(compiles: Compile, dtype: str) -> None:
    kernel = KernelBuilder()
    a, b, c = (kernel.pointer(dtype, name) for name in "ABC")
    flags = kernel.pointer("bool", "flags")
    x, y = a[kernel.tx], b[kernel.tx]
    operators: list[type[ir.BinaryOp]] = [ir.Add, ir.Sub, ir.Mul, ir.Min, ir.Max, ir.Div]
    if ir.DType(dtype).is_integral:
        operators += [ir.FloorDiv, ir.FloorMod, ir.Mod]
    for i, operator in enumerate(operators):
        c[kernel.tx + 32 * i] = operator(x, y)
    for i, comparison in enumerate((ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE)):
        flags[kernel.tx + 32 * i] = comparison(x, y)
    c[kernel.tx] = ir.Select(x < y, x, y)
    c[kernel.tx] = intrinsics.if_then_else(ir.logical_not(x < y), x, ir.const(1, dtype))
    compiles(kernel.function)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (lambda a, b: a + b * a, "A[threadIdx_x] + B[threadIdx_x] * A[threadIdx_x]"),
        (lambda a, b: ir.floordiv(a, 8), "A[threadIdx_x] >> 3"),
        (lambda a, b: ir.floormod(a, 8), "A[threadIdx_x] & 7"),
        (lambda a, b: ir.floordiv(a + b, 5), "floordiv(A[threadIdx_x] + B[threadIdx_x], 5)"),
        (lambda a, b: ir.floormod(a, b), "floormod(A[threadIdx_x], B[threadIdx_x])"),
        (lambda a, b: ir.Max(a, b), "max(A[threadIdx_x], B[threadIdx_x])"),
        (lambda a, b: ir.const(-(2**31), "int32") + a, "(-2147483647 - 1) + A[threadIdx_x]"),
        (lambda a, b: intrinsics.popcount(a), "popcount_int32(A[threadIdx_x])"),
    ],
)
def test_text_of_integers(value: Callable[..., ir.PrimExpr], text: str) -> None:
    assert printed(value, "int32", "int32", "int32") == text


def test_division_of_what_is_never_negative() -> None:
    kernel = KernelBuilder()
    a = kernel.pointer("float32", "A")
    with kernel.ib.for_range(0, 9, "i") as i:
        a[ir.floormod(kernel.tx * 9 + i, 7)] = a[ir.floordiv(kernel.tx, 3)]
    assert "A[(threadIdx_x * 9 + i) % 7] = A[threadIdx_x / 3];" in body_of(kernel.function)


def test_halves_are_computed_with_directly() -> None:
    text = source_of(stored(lambda a, b: a * b + a, *["float16"] * 3))
    assert "C[threadIdx_x] = A[threadIdx_x] * B[threadIdx_x] + A[threadIdx_x];" in text
    assert 'asm("mul.f16 %0, %1, %2;"' in text
    wide = printed(lambda a, b: a * b, *["bfloat16"] * 3)
    assert wide == "bfloat16((float)A[threadIdx_x] * (float)B[threadIdx_x])"
    divided = printed(lambda a, b: ir.Div(a, b), *["float16"] * 3)
    assert divided == "half((float)A[threadIdx_x] / (float)B[threadIdx_x])"


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_mathematics(compiles: Compile, dtype: str) -> None:
    kernel = KernelBuilder()
    a, b, c = (kernel.pointer(dtype, name) for name in "ABC")
    flags = kernel.pointer("bool", "flags")
    for name in UNARY:
        c[kernel.tx] = intrinsics.call_intrin(dtype, f"tir.{name}", a[kernel.tx])
    for name in BINARY:
        if name != "nextafter" or dtype.endswith(("32", "64")):
            c[kernel.tx] = intrinsics.call_intrin(dtype, f"tir.{name}", a[kernel.tx], b[kernel.tx])
    c[kernel.tx] = intrinsics.call_intrin(dtype, "tir.fma", *[a[kernel.tx]] * 3)
    c[kernel.tx] = intrinsics.call_intrin(dtype, "tir.ldexp", a[kernel.tx], ir.const(3, "int32"))
    for name in ("isnan", "isinf", "isfinite"):
        flags[kernel.tx] = intrinsics.call_intrin("bool", f"tir.{name}", a[kernel.tx])
    compiles(kernel.function, "sm_75", "sm_90a")


@pytest.mark.parametrize(
    ("name", "dtype", "text"),
    [
        ("exp", "float32", "expf(A[threadIdx_x])"),
        ("exp", "float64", "exp(A[threadIdx_x])"),
        ("rsqrt", "float32", "rsqrtf(A[threadIdx_x])"),
        ("tanh", "float16", "half(tanhf((float)A[threadIdx_x]))"),
        ("sigmoid", "float32", "sigmoid_float32(A[threadIdx_x])"),
    ],
)
def test_text_of_mathematics(name: str, dtype: str, text: str) -> None:
    assert printed(lambda a: intrinsics.call_intrin(dtype, f"tir.{name}", a), dtype, dtype) == text


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED])
def test_bits_of_integers(compiles: Compile, dtype: str) -> None:
    kernel = KernelBuilder()
    a, c = kernel.pointer(dtype, "A"), kernel.pointer(dtype, "C")
    counts = kernel.pointer("int32", "counts")
    x = a[kernel.tx]
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"):
        c[kernel.tx] = intrinsics.call_intrin(dtype, f"tir.{name}", x, c[kernel.tx])
    c[kernel.tx] = intrinsics.call_intrin(dtype, "tir.bitwise_not", x)
    c[kernel.tx] = intrinsics.call_intrin(dtype, "tir.popcount", x)
    counts[kernel.tx] = intrinsics.call_intrin("int32", "tir.clz", x)
    compiles(kernel.function, "sm_90a")


def test_constants(compiles: Compile) -> None:
    kernel = KernelBuilder()
    for dtype in FLOATS:
        target = kernel.pointer(dtype, f"to_{dtype}")
        for i, value in enumerate((1.5, -0.0, float("inf"), float("-inf"), float("nan"))):
            target[i] = ir.FloatImm(ir.DType(dtype), value)
    for dtype in (*SIGNED, *UNSIGNED):
        bits = ir.DType(dtype).bits
        ends = (0, 2**bits - 1) if dtype in UNSIGNED else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        target = kernel.pointer(dtype, f"to_{dtype}")
        for i, number in enumerate(ends):
            target[i] = ir.IntImm(ir.DType(dtype), number)
    large = ir.const(2**32 - 1, "uint32")
    target[5] = intrinsics.call_intrin("uint64", "tir.large_uint_imm", large, large)
    compiles(kernel.function, "sm_75", "sm_90a")
    assert "to_uint64[5] = 18446744073709551615ULL;" in body_of(kernel.function)


def test_reinterpret(compiles: Compile) -> None:
    def bits(dtype: str) -> Callable[..., ir.PrimExpr]:
        return lambda a: intrinsics.reinterpret(dtype, a)

    assert printed(bits("int32"), "int32", "float32") == "bits_as<int>(A[threadIdx_x])"
    compiles(stored(bits("uint16"), "uint16", "float16"), "sm_90a")
    compiles(stored(bits("float64"), "float64", "int64"), "sm_90a")


def test_let(compiles: Compile) -> None:
    x = ir.Var("x", ir.DType("float32"))
    kernel = stored(lambda a: ir.Let(x, a + a, x * x), "float32", "float32")
    compiles(kernel, "sm_90a")
    expected = "[&] { const float x = A[threadIdx_x] + A[threadIdx_x]; return x * x; }()"
    assert expected in body_of(kernel)


def test_names_that_mean_something_else(compiles: Compile) -> None:
    kernel = KernelBuilder()
    half = kernel.pointer("float16", "half")
    template = kernel.scalar("template")
    half[template] = half[kernel.tx]
    with kernel.ib.for_range(0, 4, "min") as i:
        half[i] = half[template]
    compiles(kernel.function, "sm_90a")
    assert "half_[template_] = half_[threadIdx_x];" in body_of(kernel.function)


def test_names_of_functions_can_be_names_of_buffers(compiles: Compile) -> None:
    kernel = KernelBuilder()
    exp = kernel.pointer("float64", "exp")
    exp[kernel.tx] = intrinsics.exp(exp[kernel.tx])
    assert body_of(kernel.function) == "exp_[threadIdx_x] = exp(exp_[threadIdx_x]);\n"
    compiles(kernel.function, "sm_90a")


def test_hints(compiles: Compile) -> None:
    kernel = KernelBuilder()
    a, n = kernel.pointer("float16", "A"), kernel.scalar("n")
    kernel.ib.emit(intrinsics.call_intrin("bool", "tir.assume", n > 0))
    with kernel.ib.if_scope(intrinsics.likely(kernel.tx < n)):
        a[kernel.tx] = intrinsics.call_intrin("float16", "tir.undef")
    assert body_of(kernel.function) == (
        "__builtin_assume(n > 0);\nif (threadIdx_x < n) {\n  A[threadIdx_x] = half(0.0f);\n}\n"
    )
    compiles(kernel.function, "sm_90a")


def test_fixed_point_products(compiles: Compile) -> None:
    def scaled(a: ir.PrimExpr) -> ir.PrimExpr:
        numbers = (ir.const(number, "int32") for number in (1 << 30, 31, -3))
        return intrinsics.call_intrin("int32", "tir.q_multiply_shift", a, *numbers)

    compiles(stored(scaled, "int32", "int32"), "sm_90a")


def test_functions_by_name(compiles: Compile) -> None:
    def fast(a: ir.PrimExpr) -> ir.PrimExpr:
        return intrinsics.call_pure_extern("float32", "__expf", a)

    assert printed(fast, "float32", "float32") == "__expf(A[threadIdx_x])"
    compiles(stored(fast, "float32", "float32"), "sm_90a")


def test_rules_of_users() -> None:
    def rule(call: ir.Call) -> ir.PrimExpr:
        return intrinsics.call_pure_extern("float32", "__tanhf", *call.args)

    register_intrin_rule("cuda", "tir.tanh", rule)
    try:
        assert printed(intrinsics.tanh, "float32", "float32") == "__tanhf(A[threadIdx_x])"
    finally:
        remove_intrin_rule("cuda", "tir.tanh")


def test_what_cannot_be_printed() -> None:
    def allreduce(a: ir.PrimExpr) -> ir.PrimExpr:
        return intrinsics.call_intrin("float32", "tir.tvm_thread_allreduce", a)

    with pytest.raises(CodegenError, match="the CUDA backend cannot express tir"):
        body_of(stored(allreduce, "float32", "float32"))

"""Calls of builtin operators, extern functions, LLVM intrinsics and the user's own operators."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tilewright.errors import CodegenError, RegistryError
from tilewright.ir import (
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    DType,
    Evaluate,
    For,
    ForKind,
    Op,
    PrimExpr,
    Ramp,
    Var,
    const,
    register_op,
    seq,
)
from tilewright.ir.intrinsics import (
    address_of,
    assume,
    call_extern,
    call_intrin,
    call_llvm_intrin,
    call_llvm_pure_intrin,
    call_pure_extern,
    exp,
    fma,
    if_then_else,
    ldexp,
    likely,
    nextafter,
    q_multiply_shift,
    reinterpret,
    undef,
)
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.target import Target
from tilewright.target.intrin_rules import register_intrin_rule, remove_intrin_rule
from tilewright.testing.kernels import (
    Array,
    compile_lowered,
    flat,
    kernel,
    llvm_source,
    sample,
)


def at(buffer: Buffer, lanes: int, start: int = 0) -> BufferLoad:
    index: PrimExpr = const(start) if lanes == 1 else Ramp(const(start), const(1), lanes)
    return BufferLoad(buffer, (index,))


def compute(value: PrimExpr, inputs: list[Buffer], arrays: list[Array]) -> Array:
    """The value of one expression."""
    dtype = value.dtype
    out = flat("out", dtype.lanes, dtype.element_of)
    index: PrimExpr = const(0) if dtype.lanes == 1 else Ramp(const(0), const(1), dtype.lanes)
    func = kernel([*inputs, out], BufferStore(out, value, (index,)))
    result = np.zeros(dtype.lanes, to_numpy(dtype.element_of))
    compile_lowered(func)(*arrays, result)
    return result


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_ldexp_rounds_once_and_never_overflows_on_the_way(dtype: str, lanes: int) -> None:
    kind = np.dtype(dtype)
    limit = np.finfo(kind)
    numbers = [
        1.0,
        -1.5,
        limit.max,
        limit.tiny,
        limit.smallest_subnormal,
        0.0,
        np.inf,
        1.0 + limit.eps,
    ]
    exponents = [
        0,
        3,
        -5,
        40,
        -40,
        130,
        -149,
        -150,
        200,
        -250,
        1000,
        -1060,
        2100,
        -2100,
        2**31 - 1,
        -(2**31),
    ]
    x = np.repeat(np.array(numbers, kind), len(exponents))
    n = np.tile(np.array(exponents, np.int32), len(numbers))
    size = len(x)
    a, e, out, i = (
        flat("a", size, dtype),
        flat("e", size, "int32"),
        flat("out", size, dtype),
        Var("i"),
    )
    index = i if lanes == 1 else Ramp(i * lanes, const(1), lanes)
    value = ldexp(BufferLoad(a, (index,)), BufferLoad(e, (index,)))
    body = For(i, const(0), const(size // lanes), ForKind.SERIAL, BufferStore(out, value, (index,)))
    result = np.zeros(size, kind)
    compile_lowered(kernel([a, e, out], body))(x, n, result)
    with np.errstate(all="ignore"):
        expected = np.ldexp(x, n)
    assert result.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lanes", [1, 4])
def test_nextafter(dtype: str, lanes: int) -> None:
    limit = np.finfo(dtype)
    numbers = np.array(
        [0, -0.0, 1, -1, limit.max, -limit.max, np.inf, np.nan, limit.tiny, 2.5], dtype
    )
    a, b = flat("a", lanes, dtype), flat("b", lanes, dtype)
    func_value = nextafter(at(a, lanes), at(b, lanes))
    out = flat("out", lanes, dtype)
    index = const(0) if lanes == 1 else Ramp(const(0), const(1), lanes)
    module = compile_lowered(kernel([a, b, out], BufferStore(out, func_value, (index,))))
    for x in numbers:
        for y in numbers:
            result = np.zeros(lanes, dtype)
            module(np.full(lanes, x), np.full(lanes, y), result)
            with np.errstate(all="ignore"):
                expected = np.nextafter(x, y)
            assert np.isnan(expected) or result[0].tobytes() == expected.tobytes(), (x, y)
            assert np.isnan(expected) == np.isnan(result[0])


@pytest.mark.parametrize("lanes", [1, 4])
def test_fixed_point(lanes: int) -> None:
    """As TVM computes it: round(x * y * 2**(s - q)), ties upwards."""
    x = np.array([100, 101, -3, 7], np.int32)[:lanes].copy()
    a = flat("a", lanes, "int32")
    for shift, expected in ((2, [200, 202, -6, 14]), (-2, [13, 13, 0, 1])):
        y = const(1 << 30, DType("int32").with_lanes(lanes))
        q, s = const(31, y.dtype), const(shift, y.dtype)
        value = q_multiply_shift(at(a, lanes), y, q, s)
        assert compute(value, [a], [x]).tolist() == expected[:lanes]
    x_type = DType("int32").with_lanes(lanes)
    per_axis = call_intrin(
        x_type,
        "tir.q_multiply_shift_per_axis",
        at(a, lanes),
        *(const(number, x_type) for number in (1 << 30, 1, 2, 31)),
        const(True, DType("bool").with_lanes(lanes)),
        const(True, DType("bool").with_lanes(lanes)),
    )
    wanted = [(int(v) * 2 * (1 << 30) + (1 << 32)) >> 33 for v in x]
    assert compute(per_axis, [a], [x]).tolist() == wanted


def test_other_builtins() -> None:
    a, b = flat("a", 8, "float32"), flat("b", 8, "float32")
    arrays = [sample("float32", 8), sample("float32", 8, 1)]
    x, y = at(a, 8), at(b, 8)
    bits = compute(reinterpret("int32x8", x), [a], arrays[:1])
    assert bits.tolist() == arrays[0].view(np.int32).tolist()
    halves = compute(reinterpret("int16x16", x), [a], arrays[:1])
    assert halves.tolist() == arrays[0].view(np.int16).tolist()
    fused = compute(fma(x, y, x), [a, b], arrays)
    wide = (arrays[0].astype(np.float64) * arrays[1] + arrays[0]).astype(np.float32)
    assert fused.tolist() == wide.tolist()
    low = Call(DType("float32x4"), Op.get("tir.vectorlow"), (x,))
    high = Call(DType("float32x4"), Op.get("tir.vectorhigh"), (x,))
    swapped = Call(DType("float32x8"), Op.get("tir.vectorcombine"), (high, low))
    assert compute(swapped, [a], arrays[:1]).tolist() == np.roll(arrays[0], 4).tolist()
    assert compute(undef("float32x8"), [], []).tolist() == [0] * 8
    large = call_intrin("uint64", "tir.large_uint_imm", const(5, "uint32"), const(2**31, "uint32"))
    assert compute(large, [], []).tolist() == [(2**31 << 32) + 5]


def test_dot_of_bytes() -> None:
    a, b = flat("a", 4, "int8"), flat("b", 4, "int8")
    arrays = [np.array([-128, 127, 3, -4], np.int8), np.array([127, -128, 5, 6], np.int8)]
    dot = call_intrin("int32", "tir.dp4a", at(a, 4), at(b, 4), const(1000))
    assert compute(dot, [a, b], arrays).tolist() == [-128 * 127 * 2 + 15 - 24 + 1000]


def test_addresses() -> None:
    a, out = flat("a", 8, "int32"), flat("out", 2, "int64")
    whole = reinterpret("int64", a.access_ptr("r", offset=3))
    start = reinterpret("int64", address_of(BufferLoad(a, (const(1),))))
    null = call_intrin("bool", "tir.isnullptr", a.data)
    stores = [
        BufferStore(out, whole - start, (const(0),)),
        BufferStore(out, if_then_else(null, const(1, "int64"), const(2, "int64")), (const(1),)),
    ]
    result = np.zeros(2, np.int64)
    compile_lowered(kernel([a, out], seq(stores)))(np.zeros(8, np.int32), result)
    assert result.tolist() == [8, 2]


def test_prefetch_assume_and_likely_change_nothing() -> None:
    a, out, i = flat("a", 8), flat("out", 8), Var("i")
    fetch = call_intrin("void", "tir.prefetch", address_of(BufferLoad(a, (i,))), 0, 3, 1)
    body = seq(
        [
            Evaluate(fetch),
            Evaluate(assume(i < 8)),
            BufferStore(out, if_then_else(likely(i < 4), BufferLoad(a, (i,)), const(0.0)), (i,)),
        ]
    )
    func = kernel([a, out], For(i, const(0), const(8), ForKind.SERIAL, body))
    assert "llvm.prefetch" in llvm_source(func)
    result = np.zeros(8, np.float32)
    compile_lowered(func)(np.arange(8, dtype=np.float32), result)
    assert result.tolist() == [0, 1, 2, 3, 0, 0, 0, 0]


def test_atomic_addition_in_parallel() -> None:
    for dtype in ("int32", "float32", "int64"):
        total, i = flat("total", 1, dtype), Var("i")
        one = const(1, dtype)
        add = call_intrin(dtype, "tir.atomic_add", address_of(BufferLoad(total, (const(0),))), one)
        body = For(i, const(0), const(1000), ForKind.PARALLEL, Evaluate(add))
        result = np.zeros(1, dtype)
        compile_lowered(kernel([total], body))(result)
        assert result[0] == 1000


# --- functions by name --------------------------------------------------------------------------


def test_extern_functions() -> None:
    a = flat("a", 4, "int32")
    data = np.array([-5, 66, 2, 3], np.int32)
    first, second = BufferLoad(a, (const(0),)), BufferLoad(a, (const(1),))
    assert compute(call_extern("int32", "abs", first), [a], [data])[0] == 5
    assert compute(call_pure_extern("int32", "toupper", second + 31), [a], [data])[0] == 65
    text = call_extern("int64", "strlen", "four")
    assert compute(text, [], [])[0] == 4
    power = call_pure_extern("float64", "pow", first.astype("float64"), const(2.0, "float64"))
    assert compute(power, [a], [data])[0] == 25.0


def test_extern_function_fills_a_buffer() -> None:
    a = flat("a", 8, "uint8")
    fill = call_extern("handle", "memset", a.access_ptr("w", offset=2), const(7), const(4, "int64"))
    data = np.zeros(8, np.uint8)
    compile_lowered(kernel([a], Evaluate(fill)))(data)
    assert data.tolist() == [0, 0, 7, 7, 7, 7, 0, 0]


def test_small_integers_are_passed_as_c_expects() -> None:
    value = call_extern(
        "int8", "some_function", const(-1, "int8"), const(255, "uint8"), const(True)
    )
    out = flat("out", 1, "int8")
    text = llvm_source(kernel([out], BufferStore(out, value, (const(0),))))
    assert "declare signext i8 @some_function(signext i8, zeroext i8, zeroext i1)" in text
    assert "call i8 @some_function(i8 -1, i8 255, i1 true)" in text


def test_pure_functions_are_not_called_where_they_are_not_wanted() -> None:
    n, out = Var("n"), flat("out", 1, "int32")
    value = if_then_else(n > 0, call_pure_extern("int32", "abs", n), const(3))
    text = llvm_source(kernel([n, out], BufferStore(out, value, (const(0),))))
    assert text.index("then") < text.index("call i32 @abs")


def test_llvm_intrinsics() -> None:
    a = flat("a", 8)
    data = sample("float32", 8)
    x = at(a, 8)
    for name in ("llvm.fma", "llvm.fma.v8f32"):
        for count in ((), (const(3, "uint32"),)):
            value = call_llvm_pure_intrin("float32x8", name, *count, x, x, x)
            wide = (data.astype(np.float64) * data + data).astype(np.float32)
            assert compute(value, [a], [data]).tolist() == wide.tolist()
    total = call_llvm_pure_intrin("float32", "llvm.vector.reduce.fmax", x)
    assert compute(total, [a], [data])[0] == data.max()
    both = call_llvm_pure_intrin("float32x8", "llvm.fabs", x) + Broadcast(
        call_llvm_pure_intrin("float32", "llvm.fabs", BufferLoad(a, (const(0),))), 8
    )
    assert compute(both, [a], [data]).tolist() == (np.abs(data) + np.abs(data[0])).tolist()
    counter = call_llvm_intrin("int64", "llvm.readcyclecounter")
    assert compute(counter, [], [])[0] > 0


def test_dot_product_instruction() -> None:
    """The VNNI example: operands given as int32 although LLVM declares bytes."""
    if "avx512vnni" not in Target("llvm").features:
        pytest.skip("this CPU has no AVX512-VNNI")
    a, b, c = flat("a", 4, "uint8"), flat("b", 64, "int8"), flat("c", 16, "int32")
    word = reinterpret("int32", BufferLoad(a, (Ramp(const(0), const(1), 4),)))
    rows = reinterpret("int32x16", BufferLoad(b, (Ramp(const(0), const(1), 64),)))
    index = Ramp(const(0), const(1), 16)
    value = call_llvm_pure_intrin(
        "int32x16",
        "llvm.x86.avx512.vpdpbusd.512",
        const(3, "uint32"),
        BufferLoad(c, (index,)),
        Broadcast(word, 16),
        rows,
    )
    func = kernel([a, b, c], BufferStore(c, value, (index,)))
    x, y, z = sample("uint8", 4), sample("int8", 64, 1), sample("int16", 16, 2).astype(np.int32)
    expected = z + (x.astype(np.int32) * y.reshape(16, 4).astype(np.int32)).sum(1)
    module = compile_lowered(func)
    module(x, y, z)
    assert z.tolist() == expected.tolist()
    assert "vpdpbusd" in module.get_source("asm")


def test_saturating_dot_product_instructions() -> None:
    if "avx512bw" not in Target("llvm").features:
        pytest.skip("this CPU has no AVX512-BW")
    a, b = flat("a", 64, "uint8"), flat("b", 64, "int8")
    pairs = call_llvm_pure_intrin(
        "int16x32", "llvm.x86.avx512.pmaddubs.w.512", const(2, "uint32"), at(a, 64), at(b, 64)
    )
    ones = Broadcast(const(1, "int16"), 32)
    sums = call_llvm_pure_intrin(
        "int32x16", "llvm.x86.avx512.pmaddw.d.512", const(2, "uint32"), pairs, ones
    )
    x, y = sample("uint8", 64) % 64, sample("int8", 64, 1) % 64
    expected = (x.astype(np.int32) * y.astype(np.int32)).reshape(16, 4).sum(1)
    assert compute(sums, [a, b], [x, y]).tolist() == expected.tolist()


def error_of(value: PrimExpr, target: Target | None = None) -> str:
    out = flat("out", max(1, value.dtype.lanes), value.dtype.element_of)
    index: PrimExpr = const(0)
    if value.dtype.lanes > 1:
        index = Ramp(const(0), const(1), value.dtype.lanes)
    with pytest.raises(CodegenError) as caught:
        llvm_source(kernel([out], BufferStore(out, value, (index,))), target)
    return str(caught.value)


def test_errors_of_calls() -> None:
    one, vector = const(1.0), const(1.0, "float32x4")
    old = Target("llvm -mcpu=x86-64")
    assert error_of(call_llvm_pure_intrin("float32", "llvm.no_such_thing", one)) == (
        "LLVM has no intrinsic 'llvm.no_such_thing' of this type: "
        "`declare float @llvm.no_such_thing(float)`"
    )
    assert "LLVM has no intrinsic 'llvm.fma.f32' of this type" in error_of(
        call_llvm_pure_intrin("float32", "llvm.fma.f32", one, const(1), one)
    )
    assert error_of(
        call_llvm_pure_intrin(
            "int32x16", "llvm.x86.avx512.vpdpbusd.512", *[const(1, "int32x16")] * 3
        ),
        old,
    ) == (
        "'llvm.x86.avx512.vpdpbusd.512' needs the CPU feature 'avx512vnni', which x86-64 does not "
        "have"
    )
    assert "another architecture" in error_of(
        call_llvm_pure_intrin("float32x4", "llvm.aarch64.neon.fmax.v4f32", vector, vector)
    )
    assert "must name the function as a string" in error_of(
        Call(DType("float32"), Op.get("tir.call_extern"), (one,))
    )
    assert "names start with 'llvm.'" in error_of(call_llvm_pure_intrin("float32", "fma", one))
    assert error_of(call_extern("float32x4", "f", vector)) == (
        "a C function cannot take or return float32x4: "
        '`T.call_extern("float32x4", "f", T.Broadcast(T.float32(1), 4))`'
    )
    assert "announces 2 arguments and passes 1" in error_of(
        call_llvm_pure_intrin("float32", "llvm.fabs", const(2, "uint32"), one)
    )
    assert "no code for" in error_of(call_intrin("int32", "tir.vscale"))
    assert "exp needs floats" in error_of(Call(DType("int32"), Op.get("tir.exp"), (const(1),)))
    assert "float16 needs the CPU feature 'f16c', which x86-64 lacks" in error_of(
        const(1.5, "float16") + exp(const(1.0, "float16")),
        old,
    )


def test_one_extern_function_has_one_signature() -> None:
    a = flat("a", 2)
    twice = call_extern("float32", "f", const(1.0)) + call_extern("float32", "f", const(1))
    assert "is called with two signatures" in error_of(twice)
    own = kernel([a], BufferStore(a, call_extern("float32", "main"), (const(0),)))
    with pytest.raises(CodegenError, match="has the name of a function of this module"):
        llvm_source(own)


# --- the user's own operators -------------------------------------------------------------------


@pytest.fixture
def own_operator() -> Iterator[Op]:
    try:
        op = register_op("tir.test_mylog", 1)
    except RegistryError:
        op = Op.get("tir.test_mylog")
    yield op
    remove_intrin_rule("llvm", "test_mylog")
    remove_intrin_rule("default", "test_mylog")


def test_operator_lowered_to_an_extern_function(own_operator: Op) -> None:
    def rule(call: Call) -> PrimExpr:
        return call_pure_extern(call.dtype, "logf", call.args[0])

    a = flat("a", 1)
    value = Call(DType("float32"), own_operator, (BufferLoad(a, (const(0),)),))
    assert error_of_missing(value, a).startswith("the LLVM backend has no code for")
    register_intrin_rule("llvm", "test_mylog", rule, override=True)
    result = compute(value, [a], [np.array([np.e], np.float32)])
    assert abs(result[0] - 1) < 1e-6


def error_of_missing(value: PrimExpr, a: Buffer) -> str:
    with pytest.raises(CodegenError) as caught:
        llvm_source(kernel([a], BufferStore(a, value, (const(0),))))
    return str(caught.value)


def test_operator_lowered_to_an_expression_and_overridden(own_operator: Op) -> None:
    a = flat("a", 8)
    value = Call(DType("float32x8"), own_operator, (at(a, 8),))
    data = sample("float32", 8)
    register_intrin_rule("default", "test_mylog", lambda call: call.args[0] * 2.0)
    assert compute(value, [a], [data]).tolist() == (data * 2).tolist()
    register_intrin_rule("llvm", "test_mylog", lambda call: call.args[0] * 4.0)
    assert compute(value, [a], [data]).tolist() == (data * 4).tolist()
    with pytest.raises(RegistryError, match="pass override=True to replace it"):
        register_intrin_rule("llvm", "test_mylog", lambda call: call.args[0])
    register_intrin_rule("llvm", "test_mylog", lambda call: call.args[0] * 8.0, override=True)
    assert compute(value, [a], [data]).tolist() == (data * 8).tolist()


def test_a_rule_replaces_a_builtin() -> None:
    a = flat("a", 4)
    data = sample("float32", 4)
    register_intrin_rule("llvm", "exp", lambda call: call.args[0] + 1.0)
    try:
        assert compute(exp(at(a, 4)), [a], [data]).tolist() == (data + np.float32(1)).tolist()
    finally:
        remove_intrin_rule("llvm", "exp")
    assert np.allclose(compute(exp(at(a, 4)), [a], [data]), np.exp(data), rtol=1e-6)

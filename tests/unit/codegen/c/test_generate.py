"""The C backend: what it prints, and that the C compiler agrees with the oracle bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.codegen.c.module import generate
from tilewright.codegen.c.types import float_literal, identifier, integer_literal, string_literal
from tilewright.errors import CodegenError
from tilewright.ir import (
    HANDLE,
    INT32,
    AllocateConst,
    AssertStmt,
    Broadcast,
    BufferLoad,
    BufferStore,
    Call,
    Cast,
    Div,
    DType,
    Evaluate,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    GlobalVar,
    IRModule,
    Let,
    LetStmt,
    Max,
    Min,
    Mod,
    PointerType,
    PrimExpr,
    PrimFunc,
    Ramp,
    Select,
    Shuffle,
    Stmt,
    Var,
    builder,
    const,
    decl_buffer,
    intrinsics,
    no_op,
)
from tilewright.target.intrin_rules import register_intrin_rule, remove_intrin_rule
from tilewright.testing import oracle
from tilewright.testing.c_compiler import CompiledC


def module(*params: builder.BufferVar | Var, body: Stmt, name: str = "main") -> IRModule:
    variables = tuple(p if isinstance(p, Var) else p.buffer.data for p in params)
    func = PrimFunc(variables, body, {}, {"global_symbol": name, "tir.noalias": True})
    return IRModule({name: func})


def agree(program: IRModule, folder: Path, compiler: str, *args: Any) -> list[Any]:
    """Run the oracle and the compiled C on copies of the arguments; both must agree exactly."""
    expected, actual = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in "ab")
    oracle.run(program, *expected)
    assert CompiledC(program, folder, compiler).call(*actual) == 0
    for wanted, found in zip(expected, actual, strict=True):
        if isinstance(wanted, np.ndarray):
            assert wanted.tobytes() == found.tobytes()
    return actual


def test_printed_text() -> None:
    ib = builder.create()
    n, a, b = Var("n"), ib.pointer("float32", "A"), ib.pointer("float32", "B")
    scratch = ib.allocate("float32", (n,), "scratch")
    with ib.for_range(0, n, "i", kind="parallel") as i:
        scratch[i] = a[i] * 2.0
        with ib.if_scope((i + 1) * 4 % 3 == 0):
            b[i] = scratch[i] - (a[i] - 1.5)
        with ib.else_scope():
            b[i] = intrinsics.exp(a[i])
    text = generate(module(n, a, b, body=ib.get()))
    assert text[text.index("typedef struct") :] == PRINTED


PRINTED = """\
typedef struct { float *scratch; float *A; float *B; } tw_main_parallel_0_args;
static int32_t tw_main_parallel_0(int64_t begin, int64_t end, void *args) {
  float *scratch = ((tw_main_parallel_0_args *)args)->scratch;
  float *A = ((tw_main_parallel_0_args *)args)->A;
  float *B = ((tw_main_parallel_0_args *)args)->B;
  for (int32_t i = (int32_t)begin; i < (int32_t)end; ++i) {
    scratch[i] = A[i] * 2.0f;
    if (tw_floormod_int32((i + 1) * 4, 3) == 0) {
      B[i] = scratch[i] - (A[i] - 1.5f);
    } else {
      B[i] = expf(A[i]);
    }
  }
  return 0;
}

int32_t tw_main(int32_t n, float *restrict A, float *restrict B) {
  float *scratch = tw_allocate((int64_t)sizeof *scratch * n);
  if (scratch == NULL) {
    return tw_fail("out of memory for scratch");
  }
  tw_main_parallel_0_args captured = {scratch, A, B};
  const int32_t status = TW_PARALLEL_FOR(tw_main_parallel_0, 0, n, &captured);
  if (status) {
    free(scratch);
    return status;
  }
  free(scratch);
  return 0;
}
"""


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, "float32", "0.1f"),
        (1.0, "float32", "1.0f"),
        (1e10, "float32", "1e+10f"),
        (0.1, "float64", "0.1"),
        (float("inf"), "float32", "INFINITY"),
        (float("-inf"), "float64", "-INFINITY"),
        (float("nan"), "float32", "NAN"),
        (3.4028234663852886e38, "float32", "3.4028235e+38f"),
    ],
)
def test_float_literals(value: float, dtype: str, text: str) -> None:
    assert float_literal(value, DType(dtype)) == text


def test_other_spellings() -> None:
    assert integer_literal(-(2**63), DType("int64")) == "INT64_MIN"
    assert integer_literal(-(2**31), INT32) == "INT32_MIN"
    assert integer_literal(7, DType("uint8")) == "7U"
    assert integer_literal(1, DType("bool")) == "true"
    assert identifier("threadIdx.x") == "threadIdx_x"
    assert identifier("for") == "_for"
    assert identifier("1x") == "_1x"
    assert string_literal('a"b\\\n?é') == '"a\\042b\\134\\012\\077\\303\\251"'


def test_scalar_statements(c_compiler: str, tmp_path: Path) -> None:
    ib = builder.create()
    n, out = Var("n"), ib.pointer("int32", "O")
    count, value = ib.allocate("int32", 1, "count"), ib.allocate("int32", 1, "value")
    count[0] = 0
    value[0] = n
    with ib.while_loop(value[0] != 1):
        half = ib.let("half", value[0] // 2)
        with ib.if_scope(value[0] % 2 == 0):
            value[0] = half
        with ib.else_scope():
            value[0] = value[0] * 3 + 1
        count[0] = count[0] + 1
    out[0] = count[0]
    out[1] = Let(half, n + 1, half * half)
    result = agree(module(n, out, body=ib.get()), tmp_path, c_compiler, 27, np.zeros(2, "int32"))[1]
    assert list(result) == [111, 784]


VECTOR_VALUES: dict[str, Callable[[PrimExpr, PrimExpr], PrimExpr]] = {
    "whole vectors": lambda a, b: (a + b) * (a - Broadcast(const(2, a.dtype.element_of), 8)),
    "choice": lambda a, b: Select(a < b, a, b * b),
    "minimum": lambda a, b: Min(a, b) + Max(a, b) * a,
    "gathered": lambda a, b: a + Shuffle((a, b), tuple(map(const, (15, 0, 3, 9, 9, 2, 1, 8)))),
    "nested": lambda a, b: a + Broadcast(Shuffle((b,), (const(1), const(6))), 4),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8", "uint16", "int64"])
@pytest.mark.parametrize("what", VECTOR_VALUES)
def test_vector_values(what: str, dtype: str, c_compiler: str, tmp_path: Path) -> None:
    ib = builder.create()
    a, b, out = (ib.pointer(dtype, name) for name in "ABO")
    with ib.for_range(0, 4) as i:
        lanes = Ramp(i * 8, const(1), 8)
        x, y = BufferLoad(a.buffer, (lanes,)), BufferLoad(b.buffer, (Ramp(i + 24, const(-3), 8),))
        ib.emit(BufferStore(out.buffer, VECTOR_VALUES[what](x, y), (lanes,)))
    rng = np.random.default_rng(3)
    arrays = [rng.integers(1, 100, 32).astype(dtype) for _ in range(2)]
    agree(module(a, b, out, body=ib.get()), tmp_path, c_compiler, *arrays, np.zeros(32, dtype))


def test_masks_odd_lanes_and_overlap(c_compiler: str, tmp_path: Path) -> None:
    ib = builder.create()
    a = ib.pointer("int32", "A")
    n = Var("n")
    shifted, lanes = Ramp(const(1), const(1), 6), Ramp(const(0), const(1), 6)
    mask = shifted < Broadcast(n, 6)
    ib.emit(BufferStore(a.buffer, BufferLoad(a.buffer, (lanes,)), (shifted,), mask))
    total = Var("total", DType("int32x6"))
    doubled = BufferLoad(a.buffer, (lanes,), mask) * Broadcast(const(2), 6)
    store = BufferStore(a.buffer, total + total, (Ramp(const(8), const(2), 6),))
    ib.emit(LetStmt(total, doubled, store))
    array = np.arange(20, dtype="int32")
    agree(module(a, n, body=ib.get()), tmp_path, c_compiler, array, 4)


def test_integer_division_in_all_quadrants(c_compiler: str, tmp_path: Path) -> None:
    ib = builder.create()
    out = ib.pointer("int32", "O")
    with ib.for_range(0, 15, "i") as i, ib.for_range(0, 6, "j") as j:
        a, b = i - 7, Select(j < 3, j - 3, j - 2)
        for position, operator in enumerate((Div, Mod, FloorDiv, FloorMod)):
            out[(i * 6 + j) * 4 + position] = operator(a, b)
    agree(module(out, body=ib.get()), tmp_path, c_compiler, np.zeros(360, "int32"))


def test_integer_intrinsics_and_wrapping(c_compiler: str, tmp_path: Path) -> None:
    ib = builder.create()
    a, out = ib.pointer("int32", "A"), ib.pointer("int32", "O")
    with ib.for_range(0, 8) as i:
        x = a[i]
        small = x.astype("int8") * const(3, "int8")
        values = [
            intrinsics.popcount(x), intrinsics.clz(x), intrinsics.shift_right(x, 3),
            intrinsics.shift_left(x, 5), intrinsics.bitwise_not(x), (x & 0xFF) | (x ^ 21),
            intrinsics.q_multiply_shift(x, const(1 << 30), const(31), const(2)),
            small.astype("int32"), x.astype("uint8").astype("int32"), x * x * x,
            x.astype("int4").astype("int32"), intrinsics.abs(x), (x != 0).astype("int32"),
            intrinsics.reinterpret("int32", intrinsics.reinterpret("float32", x)),
        ]  # fmt: skip
        for position, value in enumerate(values):
            out[i * 14 + position] = value
    numbers = np.array([0, 1, -1, 12345, -98765, 2**31 - 1, -(2**31), 255], "int32")
    agree(module(a, out, body=ib.get()), tmp_path, c_compiler, numbers, np.zeros(112, "int32"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_intrinsics(dtype: str, c_compiler: str, tmp_path: Path) -> None:
    names = [
        "exp",
        "exp2",
        "exp10",
        "log",
        "sqrt",
        "rsqrt",
        "tanh",
        "sigmoid",
        "erf",
        "sin",
        "floor",
        "ceil",
        "trunc",
        "round",
        "nearbyint",
    ]
    ib = builder.create()
    a, out = ib.pointer(dtype, "A"), ib.pointer(dtype, "O")
    count = len(names) + 3
    with ib.for_range(0, 6) as i:
        x = a[i]
        values = [getattr(intrinsics, name)(x) for name in names]
        values += [intrinsics.pow(x, x), intrinsics.fma(x, x, x)]
        values += [intrinsics.isnan(intrinsics.log(-x)).astype(dtype)]
        for position, value in enumerate(values):
            out[i * count + position] = value
    program = module(a, out, body=ib.get())
    numbers = np.array([0.5, 1.5, 2.25, 3.0, 7.5, 0.1], dtype)
    expected, actual = np.zeros((6, count), dtype), np.zeros((6, count), dtype)
    oracle.run(program, numbers, expected)
    assert CompiledC(program, tmp_path, c_compiler).call(numbers, actual) == 0
    np.testing.assert_allclose(actual, expected, rtol=4 * float(np.finfo(dtype).eps))


SMALL = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}


@pytest.mark.parametrize("dtype", SMALL)
def test_small_floats(dtype: str, c_compiler: str, tmp_path: Path) -> None:
    kind = DType(dtype)
    ib = builder.create()
    bits, wide = ib.pointer(dtype, "S"), ib.pointer("float32", "W")
    again = ib.pointer(dtype, "R")
    count = Var("n")
    with ib.for_range(0, count) as i:
        wide[i] = wide[i] + Cast(DType("float32"), bits[i])
        again[i] = Cast(kind, wide[i] * 1.1) + bits[i]
    stored = np.arange(2**kind.bits, dtype=f"u{kind.itemsize}").view(SMALL[dtype])
    stored = stored[
        np.isfinite(stored.astype("float32")) & (np.abs(stored.astype("float32")) < 1e30)
    ]
    zeros = np.zeros(len(stored), "float32")
    program = module(bits, wide, again, count, body=ib.get())
    args: tuple[Any, ...] = (stored, zeros, np.zeros_like(stored), len(stored))
    expected, actual = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in "ab")
    oracle.run(program, *expected)
    assert CompiledC(program, tmp_path, c_compiler).call(*actual) == 0
    np.testing.assert_array_equal(actual[1], expected[1])
    np.testing.assert_array_equal(actual[2].astype("float32"), expected[2].astype("float32"))


def test_assertions_are_reported_and_memory_is_freed(c_compiler: str, tmp_path: Path) -> None:
    ib = builder.create()
    n, out = Var("n"), ib.pointer("int32", "O")
    big = ib.allocate("int32", (n, 5000), "big")
    flat = decl_buffer((n * 5000,), "int32", "big", big.buffer.data)
    ib.emit(lambda body: AssertStmt(n < 3, 'n is "too" large', body))
    ib.emit(BufferStore(flat, n, (n * 5000 - 1,)))
    out[0] = BufferLoad(flat, (n * 5000 - 1,))
    compiled = CompiledC(module(n, out, body=ib.get()), tmp_path, c_compiler)
    result = np.zeros(1, "int32")
    assert compiled.call(2, result) == 0
    assert result[0] == 2
    assert compiled.call(3, result) == -1
    assert compiled.last_error() == 'n is "too" large'
    failing = compiled.source.split("if (!(n < 3)) {\n")[1]
    assert failing.lstrip().startswith("free(big);")


def test_calls_constants_and_externs(c_compiler: str, tmp_path: Path) -> None:
    x = Var("x")
    square = PrimFunc(
        (x,), Evaluate(intrinsics.ret(x * x)), {}, {"global_symbol": "square"}, "int32"
    )
    data = Var("table", HANDLE, PointerType(DType("int32")))
    table = decl_buffer((3,), "int32", "table", data)
    ib = builder.create()
    out = ib.pointer("int32", "O")
    ib.emit(lambda body: AllocateConst(data, INT32, (const(3),), (5, -6, 7), body))
    with ib.for_range(0, 3) as i:
        out[i] = Call(INT32, GlobalVar("square"), (BufferLoad(table, (i,)),))
    out[3] = intrinsics.call_pure_extern("int32", "abs", const(-4))
    func = module(out, body=ib.get())["main"]
    program = IRModule({"square": square, "main": func})
    result = np.zeros(4, "int32")
    compiled = CompiledC(program, tmp_path, c_compiler)
    assert compiled.call(result) == 0
    assert list(result) == [25, 36, 49, 4]
    assert compiled.call(9, name="square") == 81


@pytest.mark.parametrize("flags", [(), ("-fopenmp",)], ids=["serial", "openmp"])
def test_parallel_loops(flags: tuple[str, ...], c_compiler: str, tmp_path: Path) -> None:
    ib = builder.create()
    a, n = ib.pointer("int32", "A"), Var("n")
    with ib.for_range(0, n, "i", kind="parallel") as i:
        local = ib.allocate("int32", 4, "local")
        with ib.for_range(0, 4, "j", kind="unroll") as j:
            local[j] = a[i * 4 + j] * n
        with ib.for_range(0, 4, "j") as j:
            a[i * 4 + j] = local[3 - j]
    program = module(a, n, body=ib.get())
    expected, actual = np.arange(64, dtype="int32"), np.arange(64, dtype="int32")
    oracle.run(program, expected, 16)
    assert CompiledC(program, tmp_path, c_compiler, *flags).call(actual, 16) == 0
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Var("lost"), "variable 'lost' is used but nothing defines it"),
        (intrinsics.call_packed("f"), "the C backend cannot express tir.call_packed"),
        (Broadcast(const(1), 4), "a vector is used where C needs a scalar"),
        (Call(INT32, intrinsics.ret(1).op, (const(1),)), "cannot express tir.ret"),
    ],
)
def test_what_c_cannot_say(value: PrimExpr, message: str) -> None:
    inner = Let(Var("t"), value, const(1)) if value.dtype.lanes == 1 else value
    with pytest.raises(CodegenError, match=message):
        generate(module(body=Evaluate(inner + 1)))
    unflat = decl_buffer((4, 4), "int32", "U")
    store = BufferStore(unflat, BufferLoad(unflat, (const(0), const(0))), (const(0),))
    with pytest.raises(CodegenError, match=r"the memory of buffer U is not defined|not flat"):
        generate(module(body=store))


def test_a_loop_that_does_nothing_compiles(c_compiler: str, tmp_path: Path) -> None:
    loop = For(Var("i"), const(2), const(3), ForKind.PARALLEL, no_op())
    assert CompiledC(module(body=loop), tmp_path, c_compiler).call() == 0


def test_rules_of_the_user_come_first() -> None:
    ib = builder.create()
    a = ib.pointer("float32", "A")
    a[0] = intrinsics.tanh(a[1])

    def rule(call: Call) -> PrimExpr:
        return intrinsics.call_pure_extern(call.dtype, "my_tanh", *call.args)

    register_intrin_rule("c", "tanh", rule)
    try:
        text = generate(module(a, body=ib.get()))
    finally:
        remove_intrin_rule("c", "tanh")
    assert "extern float my_tanh(float);" in text
    assert "A[0] = my_tanh(A[1]);" in text

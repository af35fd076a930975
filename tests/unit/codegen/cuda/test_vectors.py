"""Vectors in CUDA C++: how many bytes move at once, and arithmetic by lanes and by pairs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright import ir
from tilewright.errors import CodegenError
from tilewright.ir import builder, intrinsics
from tilewright.testing.cuda_kernels import KernelBuilder, body_of, store_vector, vector

Compile = Callable[..., str]


class Copies:
    """A kernel of vector statements on three pointers of one type."""

    def __init__(self, dtype: str = "float32") -> None:
        self.kernel = KernelBuilder()
        self.a, self.b, self.c = (self.kernel.pointer(dtype, name) for name in "ABC")
        self.tx, self.bx = self.kernel.tx, self.kernel.bx

    def store(self, begin: ir.ExprLike, value: ir.PrimExpr, stride: int = 1) -> None:
        self.kernel.ib.emit(store_vector(self.c, begin, value, stride))

    def text(self) -> str:
        return body_of(self.kernel.function)


@pytest.mark.parametrize(
    ("dtype", "lanes", "kind"),
    [
        ("float32", 4, "float4"),
        ("float32", 2, "float2"),
        ("float16", 8, "uint4"),
        ("float16", 4, "uint2"),
        ("float16", 2, "unsigned"),
        ("int8", 16, "uint4"),
        ("int8", 4, "unsigned"),
        ("int8", 2, "unsigned short"),
        ("float64", 2, "uint4"),
        ("float32", 8, "vec<float, 8, 16>"),
        ("bfloat16", 16, "vec<bfloat16, 16, 16>"),
        ("float32", 3, "vec<float, 3, 4>"),
    ],
)
def test_copies(compiles: Compile, dtype: str, lanes: int, kind: str) -> None:
    copies = Copies(dtype)
    copies.store(copies.tx * lanes, vector(copies.a, copies.bx * (64 * lanes), lanes))
    expected = f"*({kind}*)&C[threadIdx_x * {lanes}] = *({kind}*)&A[blockIdx_x * {64 * lanes}];\n"
    assert copies.text() == expected
    compiles(copies.kernel.function, "sm_75", "sm_90a")


@pytest.mark.parametrize(
    ("begin", "kind"),
    [
        (lambda tx: tx * 4, "float4"),
        (lambda tx: tx * 4 + 2, "vec<float, 4, 8>"),
        (lambda tx: tx * 4 + 1, "vec<float, 4, 4>"),
        (lambda tx: tx, "vec<float, 4, 4>"),
        (lambda tx: tx // 2 * 8 + 4, "float4"),
    ],
)
def test_alignment(compiles: Compile, begin: Callable[[ir.Var], ir.PrimExpr], kind: str) -> None:
    copies = Copies()
    copies.store(copies.tx * 4, vector(copies.a, begin(copies.tx), 4))
    assert copies.text().startswith(f"*({kind}*)&C[threadIdx_x * 4] = *({kind}*)&A[")
    compiles(copies.kernel.function, "sm_90a")


def test_alignment_is_known_through_lets() -> None:
    copies = Copies()
    begin = copies.kernel.ib.let("begin", copies.tx * 8)
    copies.store(begin, vector(copies.a, begin + 4, 4))
    assert copies.text() == (
        "const int _begin = threadIdx_x * 8;\n*(float4*)&C[_begin] = *(float4*)&A[_begin + 4];\n"
    )


def test_arithmetic_by_lanes(compiles: Compile) -> None:
    copies = Copies()
    tx = copies.tx
    product = vector(copies.a, tx * 4, 4) * ir.Broadcast(copies.b[tx], 4)
    copies.store(tx * 4, intrinsics.exp(product))
    assert copies.text() == (
        "const vec<float, 4> A_lanes = *(const vec<float, 4>*)&A[threadIdx_x * 4];\n"
        "vec<float, 4> values;\n"
        "#pragma unroll\n"
        "for (int lane = 0; lane < 4; ++lane) "
        "values[lane] = expf(A_lanes[lane] * B[threadIdx_x]);\n"
        "*(vec<float, 4>*)&C[threadIdx_x * 4] = values;\n"
    )
    compiles(copies.kernel.function)


def test_constant_vectors(compiles: Compile) -> None:
    copies = Copies("float16")
    copies.store(copies.tx * 8, ir.Broadcast(ir.const(0.0, "float16"), 8))
    text = "*(vec<half, 8>*)&C[threadIdx_x * 8] = vec<half, 8>::all(half(0.0f));\n"
    assert copies.text() == text
    compiles(copies.kernel.function, "sm_90a")


def test_pairs_of_halves(compiles: Compile) -> None:
    copies = Copies("float16")
    tx = copies.tx
    scaled = vector(copies.a, tx * 8, 8) * ir.Broadcast(copies.b[tx], 8)
    copies.store(tx * 8, vector(copies.c, tx * 8, 8) + scaled)
    assert copies.text() == (
        "const vec<half, 8> C_lanes = *(const vec<half, 8>*)&C[threadIdx_x * 8];\n"
        "const vec<half, 8> A_lanes = *(const vec<half, 8>*)&A[threadIdx_x * 8];\n"
        "vec<half, 8> values;\n"
        "#pragma unroll\n"
        "for (int i = 0; i < 4; ++i) "
        "pair(values, i) = pair(C_lanes, i) + (pair(A_lanes, i) * half2(B[threadIdx_x]));\n"
        "*(vec<half, 8>*)&C[threadIdx_x * 8] = values;\n"
    )
    compiles(copies.kernel.function)


def test_guarded_loads_stay_guarded(compiles: Compile) -> None:
    copies = Copies()
    tx, zeros = copies.tx, ir.Broadcast(ir.const(0.0, "float32"), 4)
    guarded = intrinsics.if_then_else(tx < 3, vector(copies.a, tx * 4, 4), zeros)
    copies.store(tx * 4, guarded)
    copies.store(tx * 4, guarded + vector(copies.b, tx * 4, 4))
    assert copies.text() == GUARDED
    compiles(copies.kernel.function, "sm_90a")


GUARDED = """\
if (threadIdx_x < 3) {
  *(float4*)&C[threadIdx_x * 4] = *(float4*)&A[threadIdx_x * 4];
} else {
  *(vec<float, 4>*)&C[threadIdx_x * 4] = vec<float, 4>::all(0.0f);
}
vec<float, 4> chosen;
if (threadIdx_x < 3) {
  chosen = *(const vec<float, 4>*)&A[threadIdx_x * 4];
} else {
  chosen = vec<float, 4>::all(0.0f);
}
const vec<float, 4> B_lanes = *(const vec<float, 4>*)&B[threadIdx_x * 4];
vec<float, 4> values;
#pragma unroll
for (int lane = 0; lane < 4; ++lane) values[lane] = chosen[lane] + B_lanes[lane];
*(vec<float, 4>*)&C[threadIdx_x * 4] = values;
"""


def test_loads_stay_where_their_indices_are_defined(compiles: Compile) -> None:
    copies = Copies()
    tx, begin = copies.tx, ir.Var("start")
    copies.store(tx * 4, ir.Let(begin, tx * 2, vector(copies.a, begin * 4, 4)))
    each = "[&] { const int start = threadIdx_x * 2; return A[start * 4 + lane]; }()"
    assert f"values[lane] = {each};\n" in copies.text()
    compiles(copies.kernel.function, "sm_90a")


def test_gathers_and_scatters(compiles: Compile) -> None:
    copies = Copies()
    tx = copies.tx
    copies.store(tx, vector(copies.a, tx * 4, 4, 8), 32)
    assert copies.text() == (
        "vec<float, 4> values;\n"
        "#pragma unroll\n"
        "for (int lane = 0; lane < 4; ++lane) values[lane] = A[threadIdx_x * 4 + 8 * lane];\n"
        "#pragma unroll\n"
        "for (int lane = 0; lane < 4; ++lane) C[threadIdx_x + 32 * lane] = values[lane];\n"
    )
    compiles(copies.kernel.function, "sm_90a")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_masked_accesses(compiles: Compile, dtype: str) -> None:
    copies = Copies(dtype)
    tx = copies.tx
    ramp = ir.Ramp(tx * 4, ir.const(1, "int32"), 4)
    mask = ir.LT(ramp, ir.Broadcast(ir.const(50, "int32"), 4))
    load = ir.BufferLoad(copies.a.buffer, (ramp,), mask)
    copies.kernel.ib.emit(ir.BufferStore(copies.c.buffer, load, (ramp,), mask))
    text = copies.text()
    assert "if (threadIdx_x * 4 + lane < 50) C[threadIdx_x * 4 + lane] = values[lane];" in text
    compiles(copies.kernel.function, "sm_90a")


def test_lanes_by_number(compiles: Compile) -> None:
    copies = Copies()
    tx = copies.tx
    four = vector(copies.a, tx * 4, 4)
    indices = tuple(ir.const(i, "int32") for i in (3, 1, 2, 0))
    copies.store(tx * 4, ir.Shuffle((four,), indices))
    low = intrinsics.call_intrin("float32x2", "tir.vectorlow", four)
    high = intrinsics.call_intrin("float32x2", "tir.vectorhigh", four)
    copies.store(tx * 4, intrinsics.call_intrin("float32x4", "tir.vectorcombine", high, low))
    copies.c[tx] = ir.Shuffle((four,), (ir.const(2, "int32"),))
    text = copies.text()
    assert "values[0] = A_lanes[3];\n" in text
    assert "values_1[0] = A_lanes_1[(0 + 2)];\n" in text
    compiles(copies.kernel.function, "sm_90a")


def test_vector_variables(compiles: Compile) -> None:
    copies = Copies("int32")
    tx, ib = copies.tx, copies.kernel.ib
    x = ib.let("x", vector(copies.a, tx * 4, 4))
    copies.store(tx * 4, x * x)
    compiles(copies.kernel.function, "sm_90a")
    assert "values[lane] = x[lane] * x[lane];" in copies.text()


def bytes_of(kernel: KernelBuilder, dtype: str, name: str) -> ir.PrimExpr:
    return vector(kernel.pointer(dtype, name), kernel.tx * 4, 4)


@pytest.mark.parametrize(
    ("left", "right", "text"),
    [
        ("int8", "int8", "__dp4a(*(int*)&A[threadIdx_x * 4], "),
        ("uint8", "int8", "dp4a_u32_s32(*(unsigned*)&A[threadIdx_x * 4], "),
    ],
)
@pytest.mark.parametrize("spelled", ["tir.dp4a", "__dp4a"])
def test_dot_products_of_bytes(
    compiles: Compile, left: str, right: str, text: str, spelled: str
) -> None:
    kernel = KernelBuilder()
    c = kernel.pointer("int32", "C")
    args = (bytes_of(kernel, left, "A"), bytes_of(kernel, right, "B"), ir.const(1, "int32"))
    if spelled == "__dp4a":
        c[kernel.tx] = intrinsics.call_pure_extern("int32", spelled, *args)
    else:
        c[kernel.tx] = intrinsics.call_intrin("int32", spelled, *args)
    assert body_of(kernel.function) == f"C[threadIdx_x] = {text}*(int*)&B[threadIdx_x * 4], 1);\n"
    compiles(kernel.function)


def test_dot_products_of_computed_bytes(compiles: Compile) -> None:
    kernel = KernelBuilder()
    c, a = kernel.pointer("int32", "C"), bytes_of(kernel, "int8", "A")
    ones = ir.Broadcast(ir.const(1, "int8"), 4)
    c[kernel.tx] = intrinsics.call_intrin("int32", "tir.dp4a", a, ones, ir.const(0, "int32"))
    assert "__dp4a(*(int*)&A[threadIdx_x * 4], *(int*)&word, 0)" in body_of(kernel.function)
    compiles(kernel.function, "sm_90a")


def test_words_of_vectors_in_guarded_expressions_are_refused() -> None:
    kernel = KernelBuilder()
    c, a = kernel.pointer("int32", "C"), bytes_of(kernel, "int8", "A")
    zero = ir.const(0, "int32")
    dot = intrinsics.call_intrin("int32", "tir.dp4a", a + a, a, zero)
    c[kernel.tx] = intrinsics.if_then_else(kernel.tx < 3, dot, zero)
    with pytest.raises(CodegenError, match="put it into a variable before the condition"):
        body_of(kernel.function)


def test_local_vectors_are_aligned(compiles: Compile) -> None:
    kernel = KernelBuilder()
    a, c = kernel.pointer("float16", "A"), kernel.pointer("float16", "C")
    ib: builder.IRBuilder = kernel.ib
    local = ib.allocate("float16", (8,), "local", scope="local")
    ib.emit(store_vector(local, 0, vector(a, kernel.tx * 8, 8)))
    ib.emit(store_vector(c, kernel.tx * 8, vector(local, 0, 8)))
    assert body_of(kernel.function).startswith(
        "__align__(16) half local[8];\n*(uint4*)&local[0] = "
    )
    compiles(kernel.function, "sm_90a")

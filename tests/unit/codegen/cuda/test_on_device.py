"""What is printed computes the right thing on a GPU: against the interpreter and against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import ir
from tilewright.codegen.cuda import generate_source
from tilewright.ir import intrinsics
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.target import Target
from tilewright.testing import lowered_kernels, oracle
from tilewright.testing.cuda_kernels import (
    KernelBuilder,
    Launch,
    missing_gpu,
    run_kernel,
    source_of,
    store_vector,
    vector,
)

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(bool(missing_gpu()), reason=f"needs a GPU: {missing_gpu()}"),
]
FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
call = intrinsics.call_intrin
ZERO = ir.const(0, "int32")


def random(dtype: str, *shape: int, seed: int = 0) -> Any:
    """Small numbers; whole ones in integer types."""
    kind, rng = to_numpy(ir.DType(dtype)), np.random.default_rng(seed)
    if ir.DType(dtype).is_integral:
        return rng.integers(0 if dtype.startswith("u") else -9, 9, shape).astype(kind)
    return rng.uniform(-9, 9, shape).astype(kind)


def agree(kernel: KernelBuilder, *args: Any, arch: str = "sm_90a") -> None:
    """The interpreter and the GPU leave the same bits, NaN aside."""
    expected = [arg.copy() for arg in args]
    oracle.run(ir.IRModule({"main": kernel.function}), *expected)
    launch = Launch(grid=(4, 1, 1))
    found = run_kernel(source_of(kernel.function, arch), "kernel", launch, *args)
    for want, got in zip(expected, found, strict=True):
        if want.dtype.kind in "iub":
            assert np.array_equal(want, got)
        else:
            with np.errstate(invalid="ignore"):  # NaN
                wide, other = want.astype(np.float64), got.astype(np.float64)
            assert np.array_equal(wide, other, equal_nan=True)


SPECIAL = [
    0.0, -0.0, 1e-3, 0.5, 1.5, 2.5, 447, 448, 464, 465, 480, 57344, 61439, 61440, 65519, 65520,
    1e30, 3e38, np.inf, -np.inf, np.nan, 2**-9, 2**-10, 3 * 2**-10, 2**-16, 2**-17, 2**-24,
    2**-25, 3 * 2**-25, -464.5, -61440, 7e-5,
]  # fmt: skip


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("target", FLOATS)
def test_casts_to_floats(target: str, arch: str) -> None:
    """The instructions of new GPUs, and the bits that are moved for old ones."""
    kernel = KernelBuilder()
    c, a = kernel.pointer(target, "C"), kernel.pointer("float32", "A")
    c[kernel.tx] = ir.cast(target, a[kernel.tx])
    agree(kernel, np.zeros(32, to_numpy(ir.DType(target))), np.array(SPECIAL, "float32"), arch=arch)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("source", FLOATS[2:])
def test_casts_of_all_small_floats(source: str, arch: str) -> None:
    kernel = KernelBuilder()
    a, c = kernel.pointer(source, "A"), kernel.pointer("float32", "C")
    count = 2 ** ir.DType(source).bits
    with kernel.ib.for_range(0, count // 128, "i") as i:
        c[i * 128 + kernel.bx * 32 + kernel.tx] = ir.cast(
            "float32", a[i * 128 + kernel.bx * 32 + kernel.tx]
        )
    bits = np.arange(count, dtype=f"uint{ir.DType(source).bits}")
    agree(kernel, bits.view(to_numpy(ir.DType(source))), np.zeros(count, "float32"), arch=arch)


@pytest.mark.parametrize("target", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("source", [*FLOATS, *INTEGERS])
def test_casts(source: str, target: str) -> None:
    kernel = KernelBuilder()
    a, c = kernel.pointer(source, "A"), kernel.pointer(target, "C")
    c[kernel.tx] = ir.cast(target, a[kernel.tx])
    values = np.abs(random("float32", 32)).astype(to_numpy(ir.DType(source)))
    agree(kernel, values, np.zeros(32, to_numpy(ir.DType(target))))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_arithmetic(dtype: str) -> None:
    kernel = KernelBuilder()
    a, b, c = (kernel.pointer(dtype, name) for name in "ABC")
    operators: list[type[ir.BinaryOp]] = [ir.Add, ir.Sub, ir.Mul, ir.Min, ir.Max, ir.Div]
    if ir.DType(dtype).is_integral:
        operators += [ir.FloorDiv, ir.FloorMod, ir.Mod]
    for i, operator in enumerate(operators):
        c[kernel.tx + 32 * i] = operator(a[kernel.tx], b[kernel.tx])
    values, divisors = random(dtype, 32), random(dtype, 32, seed=1)
    divisors[divisors == 0] = 5
    agree(kernel, values, divisors, np.zeros(32 * 9, values.dtype))


def test_extremes_with_nan() -> None:
    kernel = KernelBuilder()
    a, b, c = (kernel.pointer("float32", name) for name in "ABC")
    c[kernel.tx] = ir.Max(a[kernel.tx], b[kernel.tx])
    c[kernel.tx + 32] = ir.Min(a[kernel.tx], b[kernel.tx])
    left, right = random("float32", 32), random("float32", 32, seed=1)
    left[::3], right[::4] = np.nan, np.nan
    agree(kernel, left, right, np.zeros(64, "float32"))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_mathematics(dtype: str) -> None:
    names = [
        "exp",
        "exp2",
        "exp10",
        "tanh",
        "erf",
        "sigmoid",
        "rsqrt",
        "log",
        "sqrt",
        "sin",
        "round",
    ]
    kernel = KernelBuilder()
    a, c = kernel.pointer(dtype, "A"), kernel.pointer(dtype, "C")
    for i, name in enumerate(names):
        c[kernel.tx + 32 * i] = call(dtype, f"tir.{name}", a[kernel.tx])
    values = np.abs(random(dtype, 32)) / 4
    results = np.zeros(32 * len(names), values.dtype)
    expected = results.copy()
    oracle.run(ir.IRModule({"main": kernel.function}), values, expected)
    found = run_kernel(source_of(kernel.function), "kernel", Launch(), values, results)[1]
    tolerance = {"float32": 1e-6, "float64": 1e-14, "float16": 2e-3}[dtype]
    np.testing.assert_allclose(found, expected, rtol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("offset", [0, 1, 2])
def test_vectors(dtype: str, offset: int) -> None:
    kernel = KernelBuilder()
    a, b, c = (kernel.pointer(dtype, name) for name in "ABC")
    begin = kernel.tx * 8 + offset
    guarded = intrinsics.if_then_else(
        kernel.tx < 20, vector(b, begin, 8), ir.Broadcast(ir.const(3, dtype), 8)
    )
    kernel.ib.emit(store_vector(c, begin, vector(a, begin, 8) + guarded))
    kernel.ib.emit(store_vector(c, 300 + begin, vector(a, kernel.tx * 8, 8)))
    kernel.ib.emit(store_vector(c, 600 + kernel.tx, vector(a, begin, 4) * vector(b, begin, 4), 32))
    agree(kernel, random(dtype, 300), random(dtype, 300, seed=1), random(dtype, 800, seed=2))


def test_dot_products_of_bytes() -> None:
    for left in ("int8", "uint8"):
        kernel = KernelBuilder()
        a, b, c = (
            kernel.pointer(t, n) for t, n in zip((left, "int8", "int32"), "ABC", strict=True)
        )
        words = (vector(a, kernel.tx * 4, 4), vector(b, kernel.tx * 4, 4))
        c[kernel.tx] = call("int32", "tir.dp4a", *words, ir.const(7, "int32"))
        values = random(left, 128) * 13
        agree(kernel, values, random("int8", 128, seed=1) * 14, np.zeros(32, "int32"))


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float16", "bfloat16"])
def test_atomic_additions(dtype: str) -> None:
    kernel = KernelBuilder()
    a = kernel.pointer(dtype, "A")
    where = intrinsics.address_of(a[kernel.tx % 2])
    kernel.ib.emit(call(dtype, "tir.atomic_add", where, ir.const(1, dtype)))
    zeros = np.zeros(2, to_numpy(ir.DType(dtype)))
    (found,) = run_kernel(source_of(kernel.function), "kernel", Launch((4, 1, 1)), zeros)
    assert found.astype("float32").tolist() == [64.0, 64.0]


# --- whole kernels ------------------------------------------------------------------------------


def run_whole(name: str, launch: Launch, *args: Any) -> list[Any]:
    function = getattr(lowered_kernels, name)
    source = generate_source(ir.IRModule({name: function}), Target("cuda -arch=sm_90a"))
    return run_kernel(source, f"{name}_kernel", launch, *args)


def test_tiled_matmul() -> None:
    a, b = random("float32", 128, 64), random("float32", 64, 128, seed=1)
    launch = Launch((4, 1, 1), (128, 1, 1))
    found = run_whole("tiled_matmul", launch, a, b, np.zeros((128, 128), "float32"))[2]
    np.testing.assert_allclose(found, a.astype("float64") @ b, rtol=1e-5, atol=1e-3)


def test_row_softmax() -> None:
    a = random("float32", 64, 70)
    zeros = np.zeros_like(a)
    found = run_whole("row_softmax", Launch((64, 1, 1)), a, zeros, np.int32(70))[1]
    powers = np.exp(a.astype("float64") - a.max(1, keepdims=True))
    np.testing.assert_allclose(found, powers / powers.sum(1, keepdims=True), rtol=1e-5)


def test_mma_matmul() -> None:
    a = np.round(random("float32", 128, 64)).astype("float16")
    b = np.round(random("float32", 64, 128, seed=1)).astype("float16")
    launch = Launch((8, 8, 1), (32, 1, 1), 2048)
    found = run_whole("mma_matmul", launch, a, b, np.zeros((128, 128), "float32"))[2]
    assert np.array_equal(found, a.astype("float32") @ b.astype("float32"))


# --- one tile on tensor cores -------------------------------------------------------------------


def test_int8_mma_with_transposed_bytes() -> None:
    """16x32 times 32x16, whose right operand is copied byte by byte."""
    kernel = KernelBuilder()
    a, b, c = (kernel.pointer(t, n) for t, n in zip(("int8", "int8", "int32"), "ABC", strict=True))
    ib, tx = kernel.ib, kernel.tx
    a_tile, b_tile = (ib.allocate("int8", (512,), name, scope="shared") for name in ("x", "y"))
    a_reg, b_reg = (ib.allocate("int8", (16,), name, scope="local") for name in ("p", "q"))
    sums = ib.allocate("int32", (8,), "sums", scope="local")
    for tile, source in ((a_tile, a), (b_tile, b)):
        ib.emit(store_vector(tile, tx * 16, vector(source, tx * 16, 16)))
    ib.emit(call("int32", "tir.tvm_storage_sync", "shared"))
    ib.emit(call("int32", "tir.mma_fill", ir.const(8, "int32"), sums.buffer.data, ZERO))
    four, no, yes = ir.const(4, "int32"), ir.const(False, "bool"), ir.const(True, "bool")
    row = tx % 16 * 32 + tx // 16 * 16
    where = (a_reg.buffer.data, ZERO, a_tile.buffer.access_ptr("r"), row)
    ib.emit(call("int8", "tir.ptx_ldmatrix", no, four, ".b16", *where))
    where = (b_reg.buffer.data, ZERO, b_tile.buffer.access_ptr("r"), ir.const(16, "int32"))
    ib.emit(call("int8", "tir.ptx_ldmatrix", yes, four, ".b16", *where))
    for half in (0, 1):
        kinds = ("m16n8k32", "row", "col", "int8", "int8", "int32")
        places = (
            a_reg.buffer.data, ZERO, b_reg.buffer.data, ir.const(half * 8, "int32"),
            sums.buffer.data, ir.const(half * 4, "int32"),
        )  # fmt: skip
        ib.emit(call("int32", "tir.ptx_mma", *kinds, *places, no))
    side = ir.const(16, "int32")
    target = c.buffer.access_ptr("w")
    ib.emit(call("int32", "tir.mma_store", side, side, target, sums.buffer.data, ZERO, side))
    left, right = random("int8", 16, 32), random("int8", 32, 16, seed=1)
    found = run_kernel(
        source_of(kernel.function), "kernel", Launch(), left, right, np.zeros((16, 16), "int32")
    )[2]
    assert np.array_equal(found, left.astype("int32") @ right.astype("int32"))


WMMA = [
    ("float16", "float32", (16, 16, 16)),
    ("float16", "float16", (16, 16, 16)),
    ("float16", "float32", (32, 8, 16)),
    ("float16", "float32", (8, 32, 16)),
    ("bfloat16", "float32", (16, 16, 16)),
    ("float32", "float32", (16, 16, 8)),
    ("int8", "int32", (16, 16, 16)),
    ("uint8", "int32", (32, 8, 16)),
    ("float64", "float64", (8, 8, 4)),
]


@pytest.mark.parametrize(("operand", "result", "shape"), WMMA)
@pytest.mark.parametrize("layouts", [("row", "col"), ("row", "row"), ("col", "row")])
@pytest.mark.parametrize("scope", ["shared", "global"])
def test_wmma(
    operand: str, result: str, shape: tuple[int, int, int], layouts: tuple[str, str], scope: str
) -> None:
    kernel, (m, n, k) = KernelBuilder(), shape
    a, b, c = (kernel.pointer(t, x) for t, x in zip((operand, operand, result), "ABC", strict=True))
    ib, sizes = kernel.ib, (m * k, k * n, m * n)
    roles = ("matrix_a", "matrix_b", "accumulator")
    tiles = [
        ib.allocate(pointer.dtype, (size,), f"f{role[-1]}", scope=f"wmma.{role}")
        for pointer, size, role in zip((a, b, c), sizes, roles, strict=True)
    ]
    strides = (k if layouts[0] == "row" else m, n if layouts[1] == "row" else k)
    dims = tuple(ir.const(size, "int32") for size in shape)
    for at, source in enumerate((a, b)):
        if scope == "shared":
            copy = ib.allocate(source.dtype, (sizes[at],), f"s{at}", scope="shared")
            with ib.for_range(0, (sizes[at] + 31) // 32, "i") as i:
                copy[i * 32 + kernel.tx] = source[i * 32 + kernel.tx]
            ib.emit(call("int32", "tir.tvm_storage_sync", "shared"))
            source = copy
        where = (source.buffer.access_ptr("r"), ir.const(strides[at], "int32"))
        name = "tir.tvm_load_matrix_sync"
        ib.emit(
            call("handle", name, tiles[at].buffer.data, *dims, ZERO, *where, f"{layouts[at]}_major")
        )
    total = tiles[2].buffer.data
    ib.emit(call("handle", "tir.tvm_fill_fragment", total, *dims, ZERO, ir.const(1, result)))
    operands = (tiles[0].buffer.data, ZERO, tiles[1].buffer.data, ZERO)
    ib.emit(call("handle", "tir.tvm_mma_sync", total, ZERO, *operands, total, ZERO))
    target = (c.buffer.access_ptr("w"), ir.const(n, "int32"), "row_major")
    ib.emit(call("handle", "tir.tvm_store_matrix_sync", total, *dims, ZERO, *target))
    kinds = to_numpy(ir.DType(operand)), to_numpy(ir.DType(result))
    left, right = np.round(random("float32", m, k)), np.round(random("float32", k, n, seed=1))
    if operand == "uint8":
        left, right = np.abs(left), np.abs(right)
    memory = [
        np.ascontiguousarray(matrix if layout == "row" else matrix.T).astype(kinds[0])
        for matrix, layout in zip((left, right), layouts, strict=True)
    ]
    zeros = np.zeros((m, n), kinds[1])
    found = run_kernel(source_of(kernel.function), "kernel", Launch(), *memory, zeros)[2]
    assert np.array_equal(found.astype("float64"), left @ right + 1)

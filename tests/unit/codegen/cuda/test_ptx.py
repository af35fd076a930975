"""Instructions of warps: NVRTC takes each for architectures that have it; others are refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tilewright import ir
from tilewright.errors import CodegenError
from tilewright.ir import builder, intrinsics
from tilewright.testing.cuda_kernels import KernelBuilder, body_of, source_of

Compile = Callable[..., str]
call = intrinsics.call_intrin
ZERO = ir.const(0, "int32")

# The operands of mma, and the shapes of each with the first architecture that has it.
MMA = [
    ("fp16", ("fp32", "fp16"), {"m8n8k4": "sm_75", "m16n8k8": "sm_75", "m16n8k16": "sm_80"}),
    ("bf16", ("fp32",), {"m16n8k8": "sm_80", "m16n8k16": "sm_80"}),
    ("tf32", ("fp32",), {"m16n8k4": "sm_80", "m16n8k8": "sm_80"}),
    ("fp64", ("fp64",), {"m8n8k4": "sm_80", "m16n8k4": "sm_90a", "m16n8k16": "sm_90a"}),
    ("int8", ("int32",), {"m8n8k16": "sm_75", "m16n8k16": "sm_80", "m16n8k32": "sm_80"}),
    ("uint8", ("int32",), {"m8n8k16": "sm_75", "m16n8k16": "sm_80", "m16n8k32": "sm_80"}),
    ("int4", ("int32",), {"m8n8k32": "sm_75", "m16n8k32": "sm_80", "m16n8k64": "sm_80"}),
    ("e4m3", ("fp32",), {"m16n8k32": "sm_89"}),
    ("e5m2", ("fp32",), {"m16n8k32": "sm_89"}),
]
SPARSE = [
    ("fp16", ("fp32", "fp16"), {"m16n8k16": "sm_80", "m16n8k32": "sm_80"}),
    ("bf16", ("fp32",), {"m16n8k16": "sm_80", "m16n8k32": "sm_80"}),
    ("tf32", ("fp32",), {"m16n8k8": "sm_80", "m16n8k16": "sm_80"}),
    ("int8", ("int32",), {"m16n8k32": "sm_80", "m16n8k64": "sm_80"}),
]
DTYPES = {
    "fp16": "float16", "fp32": "float32", "fp64": "float64", "bf16": "bfloat16", "tf32": "float32",
    "int8": "int8", "uint8": "uint8", "int4": "int8", "int32": "int32", "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
}  # fmt: skip


def products(table: list[tuple[str, tuple[str, ...], dict[str, str]]]) -> Iterator[tuple[str, ...]]:
    for operand, results, shapes in table:
        for shape, arch in shapes.items():
            for result in results:
                yield operand, result, shape, arch


def registers(kernel: KernelBuilder, name: str, kind: str) -> builder.BufferVar:
    return kernel.ib.allocate(DTYPES[kind], (64,), name, scope="local")


def multiplied(
    operand: str,
    result: str,
    shape: str,
    *more: ir.PrimExpr,
    layouts: tuple[str, str] = ("row", "col"),
) -> KernelBuilder:
    """A kernel with one mma, whose result it stores."""
    kernel = KernelBuilder()
    out = kernel.pointer(DTYPES[result], "out")
    a, b, c = (
        registers(kernel, n, k) for n, k in zip("abc", (operand, operand, result), strict=True)
    )
    for each in (a, b, c):
        with kernel.ib.for_range(0, 64, "i", kind="unroll") as i:
            each[i] = ir.cast(each.dtype, kernel.tx)
    sparse = len(more) > 1
    kernel.ib.emit(
        call(
            DTYPES[result], "tir.ptx_mma_sp" if sparse else "tir.ptx_mma", shape, *layouts,
            operand, operand, result,
            a.buffer.data, ZERO, b.buffer.data, ir.const(4, "int32"), c.buffer.data, ZERO,
            *(more or (ir.const(False, "bool"),)),
        )
    )  # fmt: skip
    with kernel.ib.for_range(0, 8, "i", kind="unroll") as i:
        out[kernel.tx * 8 + i] = c[i]
    return kernel


@pytest.mark.parametrize(("operand", "result", "shape", "arch"), list(products(MMA)))
def test_mma(compiles: Compile, operand: str, result: str, shape: str, arch: str) -> None:
    compiles(multiplied(operand, result, shape).function, arch)


@pytest.mark.parametrize(("operand", "result", "shape", "arch"), list(products(SPARSE)))
def test_sparse_mma(compiles: Compile, operand: str, result: str, shape: str, arch: str) -> None:
    where = ir.Var("places", ir.HANDLE, ir.PointerType(ir.DType("uint32"), "global"))
    more = (where, ZERO, ZERO, ir.const(False, "bool"))
    kernel = multiplied(operand, result, shape, *more).function
    compiles(ir.PrimFunc((*kernel.params, where), kernel.body), arch)


def test_text_of_mma() -> None:
    text = source_of(multiplied("fp16", "fp32", "m16n8k16").function)
    assert MMA_FUNCTION in text
    assert "  mma_m16n8k16_f16_f32(c, a, &b[4]);\n" in text


MMA_FUNCTION = """\
__device__ __forceinline__ void mma_m16n8k16_f16_f32(void* result, const void* left, const void* right) {
  float* c = (float*)result;
  const unsigned* a = (const unsigned*)left;
  const unsigned* b = (const unsigned*)right;
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("operand", "result", "shape", "arch", "message"),
    [
        ("fp16", "fp32", "m16n8k32", "sm_90a", "from fp16 to fp32: `T.ptx_mma("),
        ("bf16", "fp16", "m16n8k16", "sm_90a", "from bf16 to fp16: `T.ptx_mma("),
        ("fp32", "fp32", "m16n8k8", "sm_90a", "from fp32 to fp32: `T.ptx_mma("),
        ("fp16", "fp32", "m16n8k16", "sm_75", "needs sm_80, but the target's 'arch' is sm_75"),
        ("e4m3", "fp32", "m16n8k32", "sm_80", "needs sm_89, but the target's 'arch' is sm_80"),
    ],
)
def test_products_that_do_not_exist(
    operand: str, result: str, shape: str, arch: str, message: str
) -> None:
    start = f"mma of shape {shape} "
    with pytest.raises(CodegenError, match=f"{start}.*{re.escape(message)}"):
        source_of(multiplied(operand, result, shape).function, arch)


# --- ldmatrix, fill, store ----------------------------------------------------------------------


def moved(dtype: str, transposed: bool, count: int, scope: str = "shared") -> KernelBuilder:
    """A kernel that loads matrices from shared memory and stores its registers."""
    kernel = KernelBuilder()
    out = kernel.pointer(dtype, "out")
    shared = kernel.ib.allocate(dtype, (1024,), "tile", scope=scope)
    local = kernel.ib.allocate(dtype, (16,), "registers", scope="local")
    row = shared.buffer.access_ptr("r", offset=kernel.bx * 256)
    args = (ir.const(transposed, "bool"), ir.const(count, "int32"), ".b16", local.buffer.data, ZERO)
    kernel.ib.emit(call(dtype, "tir.ptx_ldmatrix", *args, row, kernel.tx * 16))
    with kernel.ib.for_range(0, 8, "i") as i:
        out[kernel.tx * 8 + i] = local[i]
    return kernel


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "float32"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix(compiles: Compile, dtype: str, transposed: bool, count: int) -> None:
    compiles(moved(dtype, transposed, count).function, "sm_75", "sm_90a")


def test_text_of_ldmatrix() -> None:
    text = body_of(moved("float16", True, 4).function)
    row = "&tile[blockIdx_x * 256 + threadIdx_x * 16]"
    assert f"ldmatrix_x4_trans(registers, {row});\n" in text
    text = body_of(moved("int8", True, 4).function)
    start = "&tile[blockIdx_x * 256]"
    assert f"load_transposed_bytes(registers, {start}, threadIdx_x * 16);\n" in text


def test_offsets_count_elements_of_the_call_in_merged_memory(compiles: Compile) -> None:
    kernel = KernelBuilder()
    out = kernel.pointer("float16", "out")
    merged = kernel.ib.allocate("uint8", (4096,), "merged", scope="shared.dyn")
    local = kernel.ib.allocate("float16", (8,), "registers", scope="local")
    args = (ir.const(False, "bool"), ir.const(4, "int32"), ".b16", local.buffer.data, ZERO)
    kernel.ib.emit(call("float16", "tir.ptx_ldmatrix", *args, merged.buffer.data, kernel.tx * 8))
    out[kernel.tx] = local[0]
    text = body_of(kernel.function)
    assert "extern __shared__ __align__(1024) unsigned char merged[];\n" in text
    assert "ldmatrix_x4(registers, &((half*)merged)[threadIdx_x * 8]);\n" in text
    compiles(kernel.function, "sm_90a")


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_accumulators_are_filled_and_stored(compiles: Compile, dtype: str) -> None:
    kernel = KernelBuilder()
    out = kernel.pointer(dtype, "out")
    local = kernel.ib.allocate(dtype, (8,), "registers", scope="local")
    eight, side = ir.const(8, "int32"), ir.const(16, "int32")
    kernel.ib.emit(call(dtype, "tir.mma_fill", eight, local.buffer.data, ZERO))
    target = out.buffer.access_ptr("w", offset=kernel.bx * 256)
    args = (side, side, target, local.buffer.data, ZERO, side)
    kernel.ib.emit(call(dtype, "tir.mma_store", *args))
    assert body_of(kernel.function).splitlines()[1:] == [
        "fill_zero<8>(registers);",
        "mma_store_16x16(&out[blockIdx_x * 256], registers, 16);",
    ]
    compiles(kernel.function, "sm_75", "sm_90a")


# --- asynchronous copies ------------------------------------------------------------------------


def copied(size: int, *more: ir.PrimExpr) -> KernelBuilder:
    kernel = KernelBuilder()
    a = kernel.pointer("float16", "A")
    shared = kernel.ib.allocate("float16", (1024,), "tile", scope="shared")
    where = (shared.buffer.data, kernel.tx * 8, a.buffer.data, kernel.bx * 256 + kernel.tx * 8)
    kernel.ib.emit(call("float16", "tir.ptx_cp_async", *where, ir.const(size, "int32"), *more))
    kernel.ib.emit(call("int32", "tir.ptx_commit_group"))
    kernel.ib.emit(call("int32", "tir.ptx_wait_group", ir.const(1, "int32")))
    a[kernel.tx] = shared[kernel.tx]
    return kernel


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("guarded", [False, True])
def test_asynchronous_copies(compiles: Compile, size: int, guarded: bool) -> None:
    kernel = copied(size, ir.const(True, "bool")) if guarded else copied(size)
    compiles(kernel.function, "sm_80", "sm_90a")
    suffix, condition = ("_if", ", true") if guarded else ("", "")
    place = "&A[blockIdx_x * 256 + threadIdx_x * 8]"
    assert body_of(kernel.function).splitlines()[1:4] == [
        f"cp_async_{size}{suffix}(&tile[threadIdx_x * 8], {place}{condition});",
        "cp_async_commit();",
        "cp_async_wait<1>();",
    ]


def test_asynchronous_copies_that_do_not_exist() -> None:
    with pytest.raises(CodegenError, match=r"cp\.async copies 4, 8 or 16 bytes, not 2"):
        source_of(copied(2).function)
    message = "cp.async needs sm_80, but the target's 'arch' is sm_75"
    with pytest.raises(CodegenError, match=re.escape(message)):
        source_of(copied(16).function, "sm_75")


# --- fragments ----------------------------------------------------------------------------------

WMMA = [
    ("float16", "float32", (16, 16, 16), "sm_75"),
    ("float16", "float16", (16, 16, 16), "sm_75"),
    ("float16", "float32", (32, 8, 16), "sm_75"),
    ("float16", "float32", (8, 32, 16), "sm_75"),
    ("int8", "int32", (16, 16, 16), "sm_75"),
    ("uint8", "int32", (32, 8, 16), "sm_75"),
    ("int8", "int32", (8, 32, 16), "sm_75"),
    ("bfloat16", "float32", (16, 16, 16), "sm_80"),
    ("float32", "float32", (16, 16, 8), "sm_80"),
    ("float64", "float64", (8, 8, 4), "sm_80"),
]


def fragments(
    operand: str,
    result: str,
    shape: tuple[int, int, int],
    layouts: tuple[str, str] = ("row", "col"),
) -> KernelBuilder:
    """A kernel that multiplies one tile."""
    kernel, (m, n, k) = KernelBuilder(), shape
    out = kernel.pointer(result, "out")
    memory = kernel.ib.allocate(operand, (1024,), "tiles", scope="shared")
    sizes = {"matrix_a": m * k, "matrix_b": k * n, "accumulator": m * n}
    a, b, c = (
        kernel.ib.allocate(dtype, (2 * size,), name[-1], scope=f"wmma.{name}")
        for (name, size), dtype in zip(sizes.items(), (operand, operand, result), strict=True)
    )
    dims = tuple(ir.const(size, "int32") for size in shape)
    one, stride = ir.const(1, "int32"), ir.const(16, "int32")
    for each, layout in ((a, layouts[0]), (b, layouts[1])):
        args = (memory.buffer.access_ptr("r"), stride, f"{layout}_major")
        kernel.ib.emit(
            call("handle", "tir.tvm_load_matrix_sync", each.buffer.data, *dims, one, *args)
        )
    zero = ir.const(0, result)
    kernel.ib.emit(call("handle", "tir.tvm_fill_fragment", c.buffer.data, *dims, ZERO, zero))
    tiles = (c.buffer.data, ZERO, a.buffer.data, one, b.buffer.data, one, c.buffer.data, ZERO)
    kernel.ib.emit(call("handle", "tir.tvm_mma_sync", *tiles))
    target = (out.buffer.access_ptr("w"), stride, "row_major")
    kernel.ib.emit(call("handle", "tir.tvm_store_matrix_sync", c.buffer.data, *dims, ZERO, *target))
    return kernel


@pytest.mark.parametrize(("operand", "result", "shape", "arch"), WMMA)
@pytest.mark.parametrize("layouts", [("row", "col"), ("row", "row"), ("col", "row")])
def test_wmma(
    compiles: Compile,
    operand: str,
    result: str,
    shape: tuple[int, int, int],
    arch: str,
    layouts: tuple[str, str],
) -> None:
    compiles(fragments(operand, result, shape, layouts).function, arch, "sm_90a")


def test_text_of_wmma() -> None:
    assert body_of(fragments("float16", "float32", (16, 16, 16)).function) == WMMA_BODY


WMMA_BODY = """\
__shared__ __align__(16) half tiles[1024];
unsigned a[2][8];
unsigned b[2][8];
float r[2][8];
wmma_load_a_m16n16k16_f16_row_shared(a[1], tiles, 16);
wmma_load_b_m16n16k16_f16_col_shared(b[1], tiles, 16);
fill_fragment(r[0], 0.0f);
wmma_mma_row_col_m16n16k16_f16_f32(r[0], a[1], b[1], r[0]);
wmma_store_d_m16n16k16_f32_row_global(r[0], out, 16);
"""


def test_fragments_that_do_not_exist() -> None:
    with pytest.raises(CodegenError, match="wmma of bfloat16 needs sm_80"):
        source_of(fragments("bfloat16", "float32", (16, 16, 16)).function, "sm_75")
    with pytest.raises(CodegenError, match="wmma has no operand of int4"):
        source_of(fragments("int4", "int32", (8, 8, 32)).function)


def test_elements_of_fragments_are_refused() -> None:
    kernel = KernelBuilder()
    out = kernel.pointer("float32", "out")
    c = kernel.ib.allocate("float32", (256,), "sums", scope="wmma.accumulator")
    dims = (ir.const(16, "int32"),) * 3
    zero = ir.const(0, "float32")
    kernel.ib.emit(call("handle", "tir.tvm_fill_fragment", c.buffer.data, *dims, ZERO, zero))
    out[kernel.tx] = c[kernel.tx]
    with pytest.raises(CodegenError, match="elements of fragment 'sums' have no known place"):
        source_of(kernel.function)

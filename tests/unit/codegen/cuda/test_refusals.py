"""Calls that cannot be printed, with the words that say why."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tilewright import ir
from tilewright.errors import CodegenError
from tilewright.ir import builder, intrinsics
from tilewright.testing.cuda_kernels import KernelBuilder, source_of, vector

call = intrinsics.call_intrin
ZERO, ONE, SIDE = (ir.const(number, "int32") for number in (0, 1, 16))
NO = ir.const(False, "bool")
DIMS = (SIDE, SIDE, SIDE)
Make = Callable[[KernelBuilder, builder.BufferVar], ir.PrimExpr]


def local(kernel: KernelBuilder, scope: str = "local") -> ir.Var:
    return kernel.ib.allocate("float32", (256,), "memory", scope=scope).buffer.data


def two_layouts(kernel: KernelBuilder, a: builder.BufferVar) -> ir.PrimExpr:
    fragment, where = local(kernel, "wmma.matrix_a"), a.buffer.access_ptr("r")
    name = "tir.tvm_load_matrix_sync"
    kernel.ib.emit(call("handle", name, fragment, *DIMS, ZERO, where, SIDE, "row_major"))
    return call("handle", name, fragment, *DIMS, ZERO, where, SIDE, "col_major")


def operand_that_nothing_loads(kernel: KernelBuilder, a: builder.BufferVar) -> ir.PrimExpr:
    fragments = [local(kernel, f"wmma.{role}") for role in ("matrix_a", "matrix_b", "accumulator")]
    for each in fragments:
        zero = ir.const(0.0, "float32")
        kernel.ib.emit(call("handle", "tir.tvm_fill_fragment", each, *DIMS, ZERO, zero))
    left, right, total = fragments
    return call("handle", "tir.tvm_mma_sync", total, ZERO, left, ZERO, right, ZERO, total, ZERO)


def mma(kernel: KernelBuilder, a: builder.BufferVar) -> ir.PrimExpr:
    memory = local(kernel)
    kinds = ("m16n8k16", "row", "col", "float", "float", "fp32")
    return call("float32", "tir.ptx_mma", *kinds, *[memory, ZERO] * 3, NO)


CASES: dict[str, Make] = {
    "argument 0 of `T.tvm_storage_sync(1)` must be a string": lambda kernel, a: call(
        "int32", "tir.tvm_storage_sync", ONE
    ),
    "argument 0 of `T.ptx_wait_group(threadIdx_x)` must be a constant": lambda kernel, a: call(
        "handle", "tir.ptx_wait_group", kernel.tx
    ),
    "is not the address of an element of a buffer": lambda kernel, a: call(
        "float32", "tir.atomic_add", intrinsics.call_extern("handle", "f"), ir.const(1.0, "float32")
    ),
    "CUDA cannot reinterpret a vector with another number of lanes": lambda kernel, a: call(
        "int32", "tir.vectorlow", call("int32x2", "tir.reinterpret", ir.const(0, "int64"))
    ),
    "dp4a multiplies vectors of four bytes": lambda kernel, a: call(
        "int32", "tir.dp4a", vector(a, 0, 4), vector(a, 0, 4), ZERO
    ),
    "a vector of float32x8 does not fit into words": lambda kernel, a: intrinsics.call_pure_extern(
        "int32", "f", vector(a, 0, 8)
    ),
    "mma has no operands of type 'float'": mma,
    "mma_store writes 16x16 results": lambda kernel, a: call(
        "float32", "tir.mma_store", SIDE, ONE, a.buffer.access_ptr("w"), local(kernel), ZERO, SIDE
    ),
    "'memory' is not a wmma fragment": lambda kernel, a: call(
        "handle", "tir.tvm_fill_fragment", local(kernel), *DIMS, ZERO, ir.const(0.0, "float32")
    ),
    "fragment 'memory' is used as tiles of two kinds": two_layouts,
    "nothing loads an operand of": operand_that_nothing_loads,
}


@pytest.mark.parametrize("message", CASES)
def test_refusals(message: str) -> None:
    kernel = KernelBuilder()
    a = kernel.pointer("float32", "A")
    kernel.ib.emit(CASES[message](kernel, a))
    with pytest.raises(CodegenError, match=re.escape(message)):
        source_of(kernel.function)


def test_fragments_that_nothing_fills() -> None:
    kernel = KernelBuilder()
    memory = kernel.ib.allocate("float32", (256,), "memory", scope="wmma.accumulator")
    kernel.ib.emit(call("handle", "tir.tvm_bmma_sync", *[memory.buffer.data, ZERO] * 4))
    with pytest.raises(CodegenError, match="nothing loads or fills the wmma fragment `memory`"):
        source_of(kernel.function)

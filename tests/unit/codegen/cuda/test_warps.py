"""Threads that work together: barriers, shuffles, atomics."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tilewright import ir
from tilewright.errors import CodegenError
from tilewright.ir import intrinsics
from tilewright.testing.cuda_kernels import KernelBuilder, body_of

Compile = Callable[..., str]
call = intrinsics.call_intrin


def test_barriers(compiles: Compile) -> None:
    kernel = KernelBuilder()
    a = kernel.pointer("float32", "A")
    a[kernel.tx] = 1.0
    for scope in ("shared", "shared.dyn", "warp"):
        kernel.ib.emit(call("int32", "tir.tvm_storage_sync", scope))
    text = "A[threadIdx_x] = 1.0f;\n__syncthreads();\n__syncthreads();\n__syncwarp();\n"
    assert body_of(kernel.function) == text
    compiles(kernel.function, "sm_90a")


def test_barrier_of_an_unknown_scope() -> None:
    kernel = KernelBuilder()
    kernel.ib.emit(call("int32", "tir.tvm_storage_sync", "global"))
    message = "threads wait for each other in scope 'shared', 'shared.dyn', 'warp', not in 'global'"
    with pytest.raises(CodegenError, match=re.escape(message)):
        body_of(kernel.function)


@pytest.mark.parametrize(
    "dtype",
    ["float64", "float32", "float16", "bfloat16", "int64", "uint64", "int32", "uint32", "int8"],
)
def test_shuffles(compiles: Compile, dtype: str) -> None:
    kernel = KernelBuilder()
    a, warp = kernel.pointer(dtype, "A"), ir.const(32, "int32")
    mask = call("uint32", "tir.tvm_warp_activemask")
    for which in ("", "_up", "_down", "_xor"):
        args = (mask, a[kernel.tx], ir.const(4, "int32"), warp, warp)
        a[kernel.tx] = call(dtype, f"tir.tvm_warp_shuffle{which}", *args)
    compiles(kernel.function, "sm_75", "sm_90a")


def test_text_of_shuffles() -> None:
    kernel = KernelBuilder()
    a, half = kernel.pointer("float32", "A"), kernel.pointer("float16", "H")
    mask, warp = ir.const(2**32 - 1, "uint32"), ir.const(32, "int32")
    for pointer, dtype in ((a, "float32"), (half, "float16")):
        args = (mask, pointer[kernel.tx], ir.const(4, "int32"), warp, warp)
        pointer[kernel.tx] = call(dtype, "tir.tvm_warp_shuffle_down", *args)
    assert body_of(kernel.function) == (
        "A[threadIdx_x] = __shfl_down_sync(4294967295U, A[threadIdx_x], 4, 32);\n"
        "H[threadIdx_x] = half(__shfl_down_sync(4294967295U, (float)H[threadIdx_x], 4, 32));\n"
    )


ATOMIC = ("int32", "uint32", "int64", "uint64", "float32", "float64", "float16", "bfloat16")


@pytest.mark.parametrize("dtype", ATOMIC)
def test_atomic_additions(compiles: Compile, dtype: str) -> None:
    kernel = KernelBuilder()
    a = kernel.pointer(dtype, "A")
    where = intrinsics.address_of(a[kernel.tx])
    a[kernel.tx] = call(dtype, "tir.atomic_add", where, ir.const(1, dtype))
    compiles(kernel.function, "sm_90a")


def test_text_of_atomic_additions() -> None:
    kernel = KernelBuilder()
    a, b = kernel.pointer("float32", "A"), kernel.pointer("int64", "B")
    for pointer, dtype in ((a, "float32"), (b, "int64")):
        where = intrinsics.address_of(pointer[kernel.tx])
        kernel.ib.emit(call(dtype, "tir.atomic_add", where, ir.const(1, dtype)))
    assert body_of(kernel.function) == (
        "atomicAdd(&A[threadIdx_x], 1.0f);\natomicAdd((unsigned long long*)&B[threadIdx_x], 1LL);\n"
    )


def test_atomic_addition_of_bytes() -> None:
    kernel = KernelBuilder()
    a = kernel.pointer("int8", "A")
    where = intrinsics.address_of(a[kernel.tx])
    kernel.ib.emit(call("int8", "tir.atomic_add", where, ir.const(1, "int8")))
    with pytest.raises(CodegenError, match="atomic_add of int8 is not supported"):
        body_of(kernel.function)


def test_prefetch(compiles: Compile) -> None:
    kernel = KernelBuilder()
    a = kernel.pointer("float32", "A")
    numbers = (ir.const(0, "int32"), ir.const(3, "int32"), ir.const(1, "int32"))
    kernel.ib.emit(call("int32", "tir.prefetch", intrinsics.address_of(a[kernel.tx]), *numbers))
    assert body_of(kernel.function) == "prefetch(&A[threadIdx_x]);\n"
    compiles(kernel.function, "sm_90a")

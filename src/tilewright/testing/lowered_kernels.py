"""Kernels as lowering leaves them, written by hand: what the CUDA printer is shown and measured by.

`TILED_MATMUL`  shared memory, vector loads, sums in registers; 128 threads for 64x64 results
`ROW_SOFTMAX`   one warp a row, shuffles; any number of columns
`MMA_MATMUL`    f16 products on tensor cores from tiles that are copied asynchronously; one warp
"""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from tilewright.script import tir as T

M, N, K = 128, 128, 64


@T.prim_func
def tiled_matmul(
    A: T.handle("float32", "global"),
    B: T.handle("float32", "global"),
    C: T.handle("float32", "global"),
) -> None:
    T.func_attr({"calling_conv": 2, "global_symbol": "tiled_matmul_kernel", "tir.noalias": True})
    A_flat = T.decl_buffer((M * K,), "float32", data=A)
    B_flat = T.decl_buffer((K * N,), "float32", data=B)
    C_flat = T.decl_buffer((M * N,), "float32", data=C)
    bx = T.launch_thread("blockIdx.x", 4)
    tx = T.launch_thread("threadIdx.x", 128)
    A_shared = T.allocate([64 * 16], "float32", "shared")
    B_shared = T.allocate([16 * 64], "float32", "shared")
    C_local = T.allocate([32], "float32", "local")
    A_tile = T.decl_buffer((64 * 16,), "float32", data=A_shared, scope="shared")
    B_tile = T.decl_buffer((16 * 64,), "float32", data=B_shared, scope="shared")
    sums = T.decl_buffer((32,), "float32", data=C_local, scope="local")
    for i in T.unroll(32):
        sums[i] = T.float32(0)
    for ko in range(K // 16):
        T.tvm_storage_sync("shared")
        for i in T.unroll(2):
            A_tile[T.Ramp(i * 512 + tx * 4, 1, 4)] = A_flat[
                T.Ramp((bx // 2 * 64 + i * 32 + tx // 4) * K + ko * 16 + tx % 4 * 4, 1, 4)
            ]
            B_tile[T.Ramp(i * 512 + tx * 4, 1, 4)] = B_flat[
                T.Ramp((ko * 16 + i * 8 + tx // 16) * N + bx % 2 * 64 + tx % 16 * 4, 1, 4)
            ]
        T.tvm_storage_sync("shared")
        for k in T.unroll(16):
            for i in T.unroll(8):
                sums[T.Ramp(i * 4, 1, 4)] = sums[T.Ramp(i * 4, 1, 4)] + (
                    T.Broadcast(A_tile[(tx // 16 * 8 + i) * 16 + k], 4)
                    * B_tile[T.Ramp(k * 64 + tx % 16 * 4, 1, 4)]
                )
    for i in T.unroll(8):
        C_flat[T.Ramp((bx // 2 * 64 + tx // 16 * 8 + i) * N + bx % 2 * 64 + tx % 16 * 4, 1, 4)] = (
            sums[T.Ramp(i * 4, 1, 4)]
        )


@T.prim_func
def row_softmax(
    A: T.handle("float32", "global"), B: T.handle("float32", "global"), n: T.int32
) -> None:
    T.func_attr({"calling_conv": 2, "global_symbol": "row_softmax_kernel", "tir.noalias": True})
    A_flat = T.decl_buffer((64 * n,), "float32", data=A)
    B_flat = T.decl_buffer((64 * n,), "float32", data=B)
    row = T.launch_thread("blockIdx.x", 64)
    lane = T.launch_thread("threadIdx.x", 32)
    largest_local = T.allocate([1], "float32", "local")
    total_local = T.allocate([1], "float32", "local")
    largest = T.decl_buffer((1,), "float32", data=largest_local, scope="local")
    total = T.decl_buffer((1,), "float32", data=total_local, scope="local")
    mask = T.uint32(0xFFFFFFFF)
    largest[0] = T.float32("-inf")
    for i in range((n + 31) // 32):
        if i * 32 + lane < n:
            largest[0] = T.max(largest[0], A_flat[row * n + i * 32 + lane])
    for step in T.unroll(5):
        largest[0] = T.max(
            largest[0],
            T.tvm_warp_shuffle_down(mask, largest[0], T.shift_right(16, step), 32, 32),
        )
    largest[0] = T.tvm_warp_shuffle(mask, largest[0], 0, 32, 32)
    total[0] = T.float32(0)
    for i in range((n + 31) // 32):
        if i * 32 + lane < n:
            total[0] = total[0] + T.exp(A_flat[row * n + i * 32 + lane] - largest[0])
    for step in T.unroll(5):
        total[0] = total[0] + T.tvm_warp_shuffle_down(
            mask, total[0], T.shift_right(16, step), 32, 32
        )
    total[0] = T.tvm_warp_shuffle(mask, total[0], 0, 32, 32)
    for i in range((n + 31) // 32):
        if i * 32 + lane < n:
            B_flat[row * n + i * 32 + lane] = (
                T.exp(A_flat[row * n + i * 32 + lane] - largest[0]) / total[0]
            )


@T.prim_func
def mma_matmul(
    A: T.handle("float16", "global"),
    B: T.handle("float16", "global"),
    C: T.handle("float32", "global"),
) -> None:
    T.func_attr({"calling_conv": 2, "global_symbol": "mma_matmul_kernel", "tir.noalias": True})
    bx = T.launch_thread("blockIdx.x", 8)
    by = T.launch_thread("blockIdx.y", 8)
    tx = T.launch_thread("threadIdx.x", 32)
    tiles = T.allocate([2048], "uint8", "shared.dyn")
    A_warp = T.allocate([8], "float16", "local")
    B_warp = T.allocate([8], "float16", "local")
    C_warp = T.allocate([8], "float32", "local")
    T.mma_fill(8, C_warp, 0, dtype="float32")
    T.ptx_cp_async("float16", tiles, tx * 8, A, (by * 16 + tx // 2) * K + tx % 2 * 8, 16)
    T.ptx_cp_async("float16", tiles, 512 + tx * 8, B, tx // 2 * N + bx * 16 + tx % 2 * 8, 16)
    T.ptx_commit_group()
    for ko in range(K // 16):
        if ko < K // 16 - 1:
            T.ptx_cp_async(
                "float16",
                tiles,
                (ko + 1) % 2 * 256 + tx * 8,
                A,
                (by * 16 + tx // 2) * K + (ko + 1) * 16 + tx % 2 * 8,
                16,
            )
            T.ptx_cp_async(
                "float16",
                tiles,
                512 + (ko + 1) % 2 * 256 + tx * 8,
                B,
                ((ko + 1) * 16 + tx // 2) * N + bx * 16 + tx % 2 * 8,
                16,
            )
        T.ptx_commit_group()
        T.ptx_wait_group(1)
        T.tvm_storage_sync("shared")
        rows = tx % 16 * 16 + tx // 16 * 8
        T.ptx_ldmatrix(
            T.bool(False), 4, ".b16", A_warp, 0, tiles, ko % 2 * 256 + rows, dtype="float16"
        )
        T.ptx_ldmatrix(
            T.bool(True), 4, ".b16", B_warp, 0, tiles, 512 + ko % 2 * 256 + rows, dtype="float16"
        )
        for half in T.unroll(2):
            T.ptx_mma(
                "m16n8k16", "row", "col", "fp16", "fp16", "fp32",
                A_warp, 0, B_warp, half * 4, C_warp, half * 4, T.bool(False), dtype="float32",
            )  # fmt: skip
        T.tvm_storage_sync("shared")
    C_at = T.tvm_access_ptr(T.type_annotation("float32"), C, by * 16 * N + bx * 16, 16 * N, 2)
    T.mma_store(16, 16, C_at, C_warp, 0, N, dtype="float32")

"""Small programs, one for each lowering pass that needs blocks to work on."""

from __future__ import annotations

DOT_PRODUCT = """
@T.prim_func
def main(A: T.Buffer((8,), "uint8"), B: T.Buffer((2, 16, 4), "int8"), C: T.Buffer((16,), "int32")):
    for k in range(2):
        with T.block("dot_o"):
            vk = T.axis.reduce(2, k)
            T.reads(C[0:16], A[vk * 4:vk * 4 + 4], B[vk, 0:16, 0:4])
            T.writes(C[0:16])
            a = T.match_buffer(A[vk * 4:vk * 4 + 4], (4,), "uint8", offset_factor=1)
            b = T.match_buffer(B[vk, 0:16, 0:4], (16, 4), "int8", offset_factor=1)
            c = T.match_buffer(C[0:16], (16,), "int32", offset_factor=1)
            a_bytes = a.vload([0], "uint8x4")
            a_word = T.reinterpret("int32", a_bytes)
            b_bytes = b.vload([0, 0], "int8x64")
            b_words = T.reinterpret("int32x16", b_bytes)
            sums = c.vload([0], "int32x16")
            c[0:16] = T.call_llvm_pure_intrin(
                "int32x16", "llvm.x86.avx512.vpdpbusd.512", sums, T.broadcast(a_word, 16), b_words
            )
"""

ROW_SUM = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""

TWO_STAGES = """
@T.prim_func
def main(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
    B = T.alloc_buffer((8, 16), "float32")
    for i in range(8):
        for j in range(16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for j in range(16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, 15 - vj] + T.float32(1)
"""

SLIDING_WINDOW = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(2)
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.where(1 <= i)
            C[vi] = B[vi] + B[vi - 1]
"""

ALIGNED = """
@T.prim_func
def main(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
    B = T.alloc_buffer((8, 16), "float32")
    for i, j in T.grid(8, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.block_attr({"buffer_dim_align": [[0, 0, 8, 1]]})
            B[vi, vj] = A[vi, vj]
    for i, j in T.grid(8, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj]
"""

VIEW = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(2):
        with T.block("B"):
            vi = T.axis.spatial(2, i)
            T.reads(A[vi * 4:vi * 4 + 4, 0:8])
            T.writes(B[vi * 4:vi * 4 + 4, 0:8])
            stride = T.int32()
            inner = T.int32()
            view = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:8], (4, 8), "float32",
                                  strides=[stride, inner], offset_factor=8)
            for x, y in T.grid(4, 8):
                B[vi * 4 + x, y] = view[x, y] * T.Cast("float32", stride)
"""

TILED = """
@T.prim_func
def main(A: T.Buffer((10, 20), "float32"), B: T.Buffer((10, 20), "float32")):
    for i in T.serial(10, annotations={"pragma_auto_unroll_max_step": 16, "note": 1}):
        for unit in range(1):
            for j0, j1 in T.grid(3, 8):
                with T.block("B"):
                    vi = T.axis.spatial(10, i + unit)
                    vj = T.axis.spatial(20, j0 * 8 + j1)
                    T.where(j0 * 8 + j1 < 20)
                    B[vi, vj] = A[vi, vj] + T.float32(1)
"""

PARALLEL_TILES = """
@T.prim_func
def main(A: T.Buffer((20,), "float32"), B: T.Buffer((20,), "float32")):
    for f in T.parallel(3):
        for j in range(8):
            with T.block("B"):
                vj = T.axis.spatial(20, f * 8 + j)
                T.where(f * 8 + j < 20)
                B[vj] = A[vj] + T.float32(1)
"""

STRIDED = """
@T.prim_func
def main(a: T.handle, B: T.Buffer((4, 6), "float32")):
    A = T.match_buffer(a, (4, 6), "float32", strides=[8, 1])
    for i in range(4):
        B[i, 0:6] = A[i, 0:6]
"""

HALF = """
@T.prim_func
def main(A: T.Buffer((8,), "bfloat16"), B: T.Buffer((8,), "bfloat16"),
         C: T.Buffer((8,), "bfloat16")):
    for i in range(8):
        C[i] = T.max(A[i] * B[i], T.bfloat16(0))
    for i in range(8):
        B[i] = A[i]
"""

WIDE = """
@T.prim_func
def main(A: T.Buffer((T.int64(8), T.int64(16)), "float32"), n: T.int64):
    for i, j in T.grid(T.int64(8), T.int64(16)):
        if i * T.int64(16) + j < n:
            A[i, j] = T.float32(0)
"""

FIXED_POINT = """
@T.prim_func
def main(A: T.Buffer((30,), "int32"), B: T.Buffer((30,), "int32"), x: T.int32):
    for i in range(30):
        B[i // 5 * 5 + i % 5] = T.q_multiply_shift(A[i], 1395864371, 31, 2)
    for i in range(30):
        A[i] = (i - x) // 7 + i // 8
"""

SYMBOLIC = """
@T.prim_func
def main(a: T.handle, b: T.handle, scale: T.float32):
    n = T.int32()
    m = T.int32()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n, m * 2), "float32")
    for i, j in T.grid(n, m):
        B[i, j * 2] = A[i, j] * scale
"""

TILES_IN_MEMORY = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("tile"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4])
            T.writes(B[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4])
            C = T.alloc_buffer((4, 4), "float32", scope="amx.tmm")
            for x, y in T.grid(4, 4):
                C[x, y] = A[vi * 4 + x, vj * 4 + y]
            for x, y in T.grid(4, 4):
                B[vi * 4 + x, vj * 4 + y] = C[x, y]
"""

# Script is Python to read, not to type-check: its annotations are calls.
# mypy: disable-error-code="valid-type, no-untyped-def"
"""Kernels scheduled by hand: what the tuner has to find by itself, and what benchmarks measure.

They follow one plan: a tile of `rows` x `columns` accumulators stays in vector registers for the
whole reduction, operands are copied once into the order in which the inner loop reads them, and a
block of rows that fits the second-level cache is one parallel task.
"""

from __future__ import annotations

from tilewright.errors import IRError
from tilewright.ir import PrimFunc
from tilewright.script import tir as T


def matmul(m: int, n: int, k: int) -> PrimFunc:
    """Three loops, nothing else."""

    @T.prim_func
    def main(
        A: T.Buffer((m, k), "float32"),
        B: T.Buffer((k, n), "float32"),
        C: T.Buffer((m, n), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tir.noalias": T.bool(True)})
        for i, j, r in T.grid(m, n, k):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, r])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    return main


def _check_tiles(m: int, n: int, rows: int, columns: int, row_block: int) -> None:
    """The kernels have no remainder loops: tiles must divide the matrix."""
    if m % row_block or row_block % rows or n % columns:
        raise IRError(
            f"tiles of {rows} x {columns} in blocks of {row_block} rows do not divide a matrix of "
            f"{m} x {n}"
        )


def packed_matmul(
    m: int,
    n: int,
    k: int,
    *,
    rows: int = 8,
    columns: int = 32,
    row_block: int = 128,
    depth_block: int = 512,
) -> PrimFunc:
    """Both operands packed into panels; for matrices that do not fit the inner caches.

    The reduction is cut into pieces of `depth_block`, so that a block of rows of A stays in the
    second-level cache while all panels of B pass by; the tile continues from what C holds.
    """
    _check_tiles(m, n, rows, columns, row_block)
    depth = min(k, depth_block)
    if k % depth:
        raise IRError(f"pieces of {depth} do not divide a reduction over {k}")

    @T.prim_func
    def main(
        A: T.Buffer((m, k), "float32"),
        B: T.Buffer((k, n), "float32"),
        C: T.Buffer((m, n), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tir.noalias": T.bool(True)})
        panels = T.alloc_buffer((n // columns, k, columns), "float32")
        for jo in T.parallel(n // columns):
            for r in range(k):
                for c in T.vectorized(columns):
                    with T.block("pack_B"):
                        vj, vr, vc = T.axis.remap("SSS", [jo, r, c])
                        panels[vj, vr, vc] = B[vr, vj * columns + vc]
        for io in T.parallel(m // row_block):
            with T.block("row_block"):
                vb = T.axis.spatial(m // row_block, io)
                block = T.alloc_buffer((row_block // rows, k, rows), "float32")
                for ii, r in T.grid(row_block // rows, k):
                    for x in T.vectorized(rows):
                        with T.block("pack_A"):
                            vi, vr, vx = T.axis.remap("SSS", [ii, r, x])
                            block[vi, vr, vx] = A[vb * row_block + vi * rows + vx, vr]
                for ro, jo, ii in T.grid(k // depth, n // columns, row_block // rows):
                    with T.block("tile"):
                        vo = T.axis.opaque(k // depth, ro)
                        vj, vi = T.axis.remap("SS", [jo, ii])
                        tile = T.alloc_buffer((rows, columns), "float32", scope="local")
                        for x in T.unroll(rows):
                            for c in T.vectorized(columns):
                                with T.block("begin"):
                                    vx, vc = T.axis.remap("SS", [x, c])
                                    tile[vx, vc] = T.if_then_else(
                                        vo == 0,
                                        T.float32(0),
                                        C[vb * row_block + vi * rows + vx, vj * columns + vc],
                                    )
                        for r in range(depth):
                            for x in T.unroll(rows):
                                for c in T.vectorized(columns):
                                    with T.block("multiply_add"):
                                        vr, vx, vc = T.axis.remap("RSS", [r, x, c])
                                        tile[vx, vc] = (
                                            tile[vx, vc]
                                            + block[vi, vo * depth + vr, vx]
                                            * panels[vj, vo * depth + vr, vc]
                                        )
                        for x in T.unroll(rows):
                            for c in T.vectorized(columns):
                                with T.block("write_back"):
                                    vx, vc = T.axis.remap("SS", [x, c])
                                    C[vb * row_block + vi * rows + vx, vj * columns + vc] = tile[
                                        vx, vc
                                    ]

    return main


def direct_matmul(
    m: int, n: int, k: int, *, rows: int = 8, columns: int = 32, row_block: int = 64
) -> PrimFunc:
    """The register tile alone, operands read where they are; for matrices that fit the caches."""
    _check_tiles(m, n, rows, columns, row_block)

    @T.prim_func
    def main(
        A: T.Buffer((m, k), "float32"),
        B: T.Buffer((k, n), "float32"),
        C: T.Buffer((m, n), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tir.noalias": T.bool(True)})
        for io in T.parallel(m // row_block):
            for jo, ii in T.grid(n // columns, row_block // rows):
                with T.block("tile"):
                    vj = T.axis.spatial(n // columns, jo)
                    vi = T.axis.spatial(m // rows, io * (row_block // rows) + ii)
                    tile = T.alloc_buffer((rows, columns), "float32", scope="local")
                    for x in T.unroll(rows):
                        for c in T.vectorized(columns):
                            with T.block("zero"):
                                vx, vc = T.axis.remap("SS", [x, c])
                                tile[vx, vc] = T.float32(0)
                    for r in range(k):
                        for x in T.unroll(rows):
                            for c in T.vectorized(columns):
                                with T.block("multiply_add"):
                                    vr, vx, vc = T.axis.remap("RSS", [r, x, c])
                                    tile[vx, vc] = (
                                        tile[vx, vc]
                                        + A[vi * rows + vx, vr] * B[vr, vj * columns + vc]
                                    )
                    for x in T.unroll(rows):
                        for c in T.vectorized(columns):
                            with T.block("write_back"):
                                vx, vc = T.axis.remap("SS", [x, c])
                                C[vi * rows + vx, vj * columns + vc] = tile[vx, vc]

    return main


def exp(size: int, *, lanes: int = 16, chunk: int = 16384) -> PrimFunc:
    """The exponential of `size` numbers."""
    if size % chunk or chunk % lanes:
        raise IRError(f"chunks of {chunk} numbers do not divide {size}")

    @T.prim_func
    def main(X: T.Buffer((size,), "float32"), Y: T.Buffer((size,), "float32")):
        T.func_attr({"global_symbol": "main", "tir.noalias": T.bool(True)})
        for o in T.parallel(size // chunk):
            for i in range(chunk // lanes):
                for x in T.vectorized(lanes):
                    with T.block("Y"):
                        v = T.axis.spatial(size, o * chunk + i * lanes + x)
                        Y[v] = T.exp(X[v])

    return main

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


def _check_rows(m: int, rows: int, row_block: int) -> None:
    """The kernels have no remainder of rows: tiles must divide the matrix."""
    if m % row_block or row_block % rows:
        raise IRError(f"tiles of {rows} rows in blocks of {row_block} do not divide {m} rows")


def _column_parts(n: int, columns: int) -> list[tuple[int, int, int]]:
    """The columns as (first column, panels, columns of a panel): wide panels, then a rest."""
    whole = n // columns
    parts = [(0, whole, columns), (whole * columns, 1, n % columns)]
    return [part for part in parts if part[1] * part[2]]


def _check_depth(k: int, depth: int) -> None:
    if k % depth or depth % STEPS:
        raise IRError(f"pieces of {depth} in steps of {STEPS} do not divide a reduction over {k}")


# How often the body of the reduction loop is repeated: less of it is loop overhead.
STEPS = 4


def packed_matmul(
    m: int,
    n: int,
    k: int,
    *,
    rows: int = 8,
    columns: int = 48,
    row_block: int = 64,
    depth_block: int = 256,
) -> PrimFunc:
    """Both operands packed into panels; for matrices that do not fit the inner caches.

    The reduction is cut into pieces of `depth_block`, so that a block of rows of A stays in the
    second-level cache while all panels of B pass by; the tile continues from what C holds.
    """
    depth = min(k, depth_block)
    _check_rows(m, rows, row_block)
    _check_depth(k, depth)
    parts = _column_parts(n, columns)

    @T.prim_func
    def main(
        A: T.Buffer((m, k), "float32"),
        B: T.Buffer((k, n), "float32"),
        C: T.Buffer((m, n), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tir.noalias": T.bool(True)})
        panels = T.alloc_buffer((n * k,), "float32")
        for start, count, wide in parts:
            for jo in T.parallel(count):
                for r in range(k):
                    for c in T.vectorized(wide):
                        with T.block("pack_B"):
                            vj, vr, vc = T.axis.remap("SSS", [jo, r, c])
                            panels[start * k + vj * (k * wide) + vr * wide + vc] = B[
                                vr, start + vj * wide + vc
                            ]
        for io in T.parallel(m // row_block):
            with T.block("row_block"):
                vb = T.axis.spatial(m // row_block, io)
                block = T.alloc_buffer((row_block // rows, k, rows), "float32")
                for ii, r in T.grid(row_block // rows, k):
                    for x in T.vectorized(rows):
                        with T.block("pack_A"):
                            vi, vr, vx = T.axis.remap("SSS", [ii, r, x])
                            block[vi, vr, vx] = A[vb * row_block + vi * rows + vx, vr]
                for ro in range(k // depth):
                    for start, count, wide in parts:
                        for jo, ii in T.grid(count, row_block // rows):
                            with T.block("tile"):
                                vo = T.axis.opaque(k // depth, ro)
                                vj, vi = T.axis.remap("SS", [jo, ii])
                                tile = T.alloc_buffer((rows, wide), "float32", scope="local")
                                for x in T.unroll(rows):
                                    for c in T.vectorized(wide):
                                        with T.block("begin"):
                                            vx, vc = T.axis.remap("SS", [x, c])
                                            tile[vx, vc] = T.if_then_else(
                                                vo == 0,
                                                T.float32(0),
                                                C[
                                                    vb * row_block + vi * rows + vx,
                                                    start + vj * wide + vc,
                                                ],
                                            )
                                for r in range(depth // STEPS):
                                    for u in T.unroll(STEPS):
                                        for x in T.unroll(rows):
                                            for c in T.vectorized(wide):
                                                with T.block("multiply_add"):
                                                    vr = T.axis.reduce(depth, r * STEPS + u)
                                                    vx, vc = T.axis.remap("SS", [x, c])
                                                    tile[vx, vc] = (
                                                        tile[vx, vc]
                                                        + block[vi, vo * depth + vr, vx]
                                                        * panels[
                                                            start * k
                                                            + vj * (k * wide)
                                                            + (vo * depth + vr) * wide
                                                            + vc
                                                        ]
                                                    )
                                for x in T.unroll(rows):
                                    for c in T.vectorized(wide):
                                        with T.block("write_back"):
                                            vx, vc = T.axis.remap("SS", [x, c])
                                            C[
                                                vb * row_block + vi * rows + vx,
                                                start + vj * wide + vc,
                                            ] = tile[vx, vc]

    return main


def direct_matmul(
    m: int, n: int, k: int, *, rows: int = 8, columns: int = 48, row_block: int = 16
) -> PrimFunc:
    """The register tile alone, operands read where they are; for matrices that fit the caches."""
    _check_rows(m, rows, row_block)
    _check_depth(k, k)
    parts = _column_parts(n, columns)

    @T.prim_func
    def main(
        A: T.Buffer((m, k), "float32"),
        B: T.Buffer((k, n), "float32"),
        C: T.Buffer((m, n), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tir.noalias": T.bool(True)})
        for io in T.parallel(m // row_block):
            for start, count, wide in parts:
                for jo, ii in T.grid(count, row_block // rows):
                    with T.block("tile"):
                        vj = T.axis.spatial(count, jo)
                        vi = T.axis.spatial(m // rows, io * (row_block // rows) + ii)
                        tile = T.alloc_buffer((rows, wide), "float32", scope="local")
                        for x in T.unroll(rows):
                            for c in T.vectorized(wide):
                                with T.block("zero"):
                                    vx, vc = T.axis.remap("SS", [x, c])
                                    tile[vx, vc] = T.float32(0)
                        for r in range(k // STEPS):
                            for u in T.unroll(STEPS):
                                for x in T.unroll(rows):
                                    for c in T.vectorized(wide):
                                        with T.block("multiply_add"):
                                            vr = T.axis.reduce(k, r * STEPS + u)
                                            vx, vc = T.axis.remap("SS", [x, c])
                                            tile[vx, vc] = (
                                                tile[vx, vc]
                                                + A[vi * rows + vx, vr]
                                                * B[vr, start + vj * wide + vc]
                                            )
                        for x in T.unroll(rows):
                            for c in T.vectorized(wide):
                                with T.block("write_back"):
                                    vx, vc = T.axis.remap("SS", [x, c])
                                    C[vi * rows + vx, start + vj * wide + vc] = tile[vx, vc]

    return main


def exp(size: int, *, lanes: int = 64, chunk: int = 65536) -> PrimFunc:
    """The exponential of `size` numbers; several vectors at a time keep the machine busy."""
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

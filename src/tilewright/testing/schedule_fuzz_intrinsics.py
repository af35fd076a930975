"""Small tensor instructions that any processor can carry out, for the schedule fuzzer.

Their implementations are written differently from what they describe: with strides that only the
program knows, in another order of loops, or as vectors.
"""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tilewright.ir import PrimFunc
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.script import tir as T

DTYPES = ("int32", "float32")
Pair = tuple[PrimFunc, PrimFunc]


@dataclass(frozen=True)
class FuzzIntrinsic:
    """An instruction by its name, with the extents of the loops that it replaces."""

    name: str
    dtype: str
    extents: tuple[int, ...]
    is_reduction: bool


def _copy(dtype: str, width: int) -> Pair:
    """A row, as one vector."""

    @T.prim_func
    def desc(a: T.handle, b: T.handle) -> None:
        A = T.match_buffer(a, (width,), dtype, offset_factor=1)
        B = T.match_buffer(b, (width,), dtype, offset_factor=1)
        with T.block("root"):
            T.reads(A[0:width])
            T.writes(B[0:width])
            for i in range(width):
                with T.block("copy"):
                    vi = T.axis.spatial(width, i)
                    B[vi] = A[vi]

    @T.prim_func
    def impl(a: T.handle, b: T.handle) -> None:
        A = T.match_buffer(a, (width,), dtype, offset_factor=1)
        B = T.match_buffer(b, (width,), dtype, offset_factor=1)
        with T.block("root"):
            T.reads(A[0:width])
            T.writes(B[0:width])
            B[T.ramp(0, 1, width)] = A[T.ramp(0, 1, width)]

    return desc, impl


def _row_sum(dtype: str, rows: int, width: int) -> Pair:
    """Sums of rows, from the last element to the first."""

    @T.prim_func
    def desc(a: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (rows, width), dtype, offset_factor=1)
        C = T.match_buffer(c, (rows,), dtype, offset_factor=1)
        with T.block("root"):
            T.reads(C[0:rows], A[0:rows, 0:width])
            T.writes(C[0:rows])
            for i, k in T.grid(rows, width):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + A[vi, vk]

    @T.prim_func
    def impl(a: T.handle, c: T.handle) -> None:
        a0 = T.int32()
        a1 = T.int32()
        c0 = T.int32()
        A = T.match_buffer(a, (rows, width), dtype, offset_factor=1, strides=[a0, a1])
        C = T.match_buffer(c, (rows,), dtype, offset_factor=1, strides=[c0])
        with T.block("root"):
            T.reads(C[0:rows], A[0:rows, 0:width])
            T.writes(C[0:rows])
            for k, i in T.grid(width, rows):
                C[i] = C[i] + A[i, width - 1 - k]

    return desc, impl


def _product(dtype: str, rows: int, columns: int, depth: int) -> Pair:
    """A product of matrices with the sum outermost, over a tile that it allocates itself."""

    @T.prim_func
    def desc(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (rows, depth), dtype, offset_factor=1)
        B = T.match_buffer(b, (depth, columns), dtype, offset_factor=1)
        C = T.match_buffer(c, (rows, columns), dtype, offset_factor=1)
        with T.block("root"):
            T.reads(C[0:rows, 0:columns], A[0:rows, 0:depth], B[0:depth, 0:columns])
            T.writes(C[0:rows, 0:columns])
            for i, j, k in T.grid(rows, columns, depth):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    @T.prim_func
    def impl(a: T.handle, b: T.handle, c: T.handle) -> None:
        a0 = T.int32()
        a1 = T.int32()
        b0 = T.int32()
        b1 = T.int32()
        c0 = T.int32()
        c1 = T.int32()
        A = T.match_buffer(a, (rows, depth), dtype, offset_factor=1, strides=[a0, a1])
        B = T.match_buffer(b, (depth, columns), dtype, offset_factor=1, strides=[b0, b1])
        C = T.match_buffer(c, (rows, columns), dtype, offset_factor=1, strides=[c0, c1])
        with T.block("root"):
            T.reads(C[0:rows, 0:columns], A[0:rows, 0:depth], B[0:depth, 0:columns])
            T.writes(C[0:rows, 0:columns])
            row = T.alloc_buffer((columns,), dtype)
            for i in range(rows):
                for j in range(columns):
                    row[j] = C[i, j]
                for k, j in T.grid(depth, columns):
                    row[j] = row[j] + A[i, k] * B[k, j]
                for j in range(columns):
                    C[i, j] = row[j]

    return desc, impl


# (name, how to make it, extents of its loops, whether it adds to what is there)
_FAMILIES = (
    ("copy", _copy, ((2,), (4,)), False),
    ("row_sum", _row_sum, ((1, 2), (2, 3), (4, 1)), True),
    ("product", _product, ((2, 2, 2), (1, 4, 3), (3, 1, 2), (4, 2, 1)), True),
)


def _registered() -> tuple[FuzzIntrinsic, ...]:
    made = []
    for family, make, shapes, is_reduction in _FAMILIES:
        for extents in shapes:
            for dtype in DTYPES:
                name = f"fuzz.{family}_{'x'.join(map(str, extents))}_{dtype}"
                TensorIntrin.register_maker(name, partial(make, dtype, *extents), override=True)
                made.append(FuzzIntrinsic(name, dtype, extents, is_reduction))
    return tuple(made)


INTRINSICS = _registered()

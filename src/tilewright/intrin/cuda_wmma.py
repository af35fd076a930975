"""Warp-level matrix instructions of NVIDIA GPUs through the wmma interface.

Tiles live in fragments (`wmma.matrix_a`, `wmma.matrix_b`, `wmma.accumulator`), which a warp loads
from shared memory, multiplies, and stores. A buffer in such a scope may hold many tiles: which one
an operand is follows from its offset and stride.
"""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tilewright.errors import RegistryError
from tilewright.ir import Buffer, PrimExpr, PrimFunc, cast, const
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.script import tir as T

Pair = tuple[PrimFunc, PrimFunc]


@dataclass(frozen=True)
class Tile:
    """The extents of one multiplication: m x k times k x n."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"


TILE_16 = Tile(16, 16, 16)
TILE_4BIT = Tile(8, 8, 32)
_SHORT = {"float16": "f16", "float32": "f32", "int8": "s8", "int32": "s32", "int4": "s4"}
_SCOPES = {"shared": "shared", "shared.dyn": "shared_dyn", "global": "global"}
_LAYOUTS = {False: "row_major", True: "col_major"}


def fragment_index(buffer: Buffer, rows: int, columns: int) -> PrimExpr:
    """Which tile of `rows` x `columns` elements in a buffer of fragments an operand is."""
    offset, stride = buffer.elem_offset, buffer.strides[0]
    assert offset is not None
    of_row = offset // stride // rows * (stride // columns)
    return of_row + offset % stride // columns


def get_wmma_load_intrin(
    tile: Tile, dtype: str, shared_scope: str, is_b: bool, is_col_major: bool
) -> Pair:
    """Copy a tile of the first or second operand from shared memory into a fragment."""
    scope = "wmma.matrix_b" if is_b else "wmma.matrix_a"
    rows, columns = (tile.k, tile.n) if is_b else (tile.m, tile.k)
    if is_col_major:
        rows, columns = columns, rows
    m, n, k = tile.m, tile.n, tile.k
    layout = _LAYOUTS[is_col_major]

    @T.prim_func
    def wmma_load_desc(a: T.handle, c: T.handle) -> None:
        A = T.match_buffer(
            a, (rows, columns), dtype, align=64, offset_factor=columns, scope=shared_scope
        )
        C = T.match_buffer(c, (rows, columns), dtype, align=64, offset_factor=columns, scope=scope)
        with T.block("root"):
            T.reads(A[0:rows, 0:columns])
            T.writes(C[0:rows, 0:columns])
            for i, j in T.grid(rows, columns):
                with T.block("load"):
                    vii, vjj = T.axis.remap("SS", [i, j])
                    C[vii, vjj] = A[vii, vjj]

    @T.prim_func
    def wmma_load_impl(a: T.handle, c: T.handle) -> None:
        s1 = T.int32()
        s0 = T.int32()
        d1 = T.int32()
        d0 = T.int32()
        A = T.match_buffer(
            a, (rows, columns), dtype, align=64, offset_factor=columns, scope=shared_scope,
            strides=[s1, s0],
        )  # fmt: skip
        C = T.match_buffer(
            c, (rows, columns), dtype, align=64, offset_factor=columns, scope=scope,
            strides=[d1, d0],
        )  # fmt: skip
        with T.block("root"):
            T.reads(A[0:rows, 0:columns])
            T.writes(C[0:rows, 0:columns])
            T.evaluate(
                T.tvm_load_matrix_sync(
                    C.data,
                    m,
                    n,
                    k,
                    fragment_index(C, rows, columns),
                    A.access_ptr("r", extent=s1 * rows),
                    s1,
                    layout,
                    dtype="handle",
                )
            )

    return wmma_load_desc, wmma_load_impl


def get_wmma_store_intrin(tile: Tile, dtype: str, scope: str) -> Pair:
    """Copy an accumulator into shared or global memory."""
    m, n, k = tile.m, tile.n, tile.k

    @T.prim_func
    def wmma_store_desc(a: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (m, n), dtype, align=64, offset_factor=n, scope="wmma.accumulator")
        C = T.match_buffer(c, (m, n), dtype, align=64, offset_factor=n, scope=scope)
        with T.block("root"):
            T.reads(A[0:m, 0:n])
            T.writes(C[0:m, 0:n])
            for i, j in T.grid(m, n):
                with T.block("store"):
                    vii, vjj = T.axis.remap("SS", [i, j])
                    C[vii, vjj] = A[vii, vjj]

    @T.prim_func
    def wmma_store_impl(a: T.handle, c: T.handle) -> None:
        s1 = T.int32()
        s0 = T.int32()
        d1 = T.int32()
        d0 = T.int32()
        A = T.match_buffer(
            a, (m, n), dtype, align=64, offset_factor=n, scope="wmma.accumulator",
            strides=[d1, d0],
        )  # fmt: skip
        C = T.match_buffer(
            c, (m, n), dtype, align=64, offset_factor=n, scope=scope, strides=[s1, s0]
        )
        with T.block("root"):
            T.reads(A[0:m, 0:n])
            T.writes(C[0:m, 0:n])
            T.evaluate(
                T.tvm_store_matrix_sync(
                    A.data,
                    m,
                    n,
                    k,
                    fragment_index(A, m, n),
                    C.access_ptr("w", extent=s1 * m),
                    s1,
                    "row_major",
                    dtype="handle",
                )
            )

    return wmma_store_desc, wmma_store_impl


def get_wmma_fill_intrin(tile: Tile, dtype: str) -> Pair:
    """Set an accumulator to zero."""
    m, n, k = tile.m, tile.n, tile.k
    zero = const(0, dtype)

    @T.prim_func
    def wmma_fill_desc(c: T.handle) -> None:
        C = T.match_buffer(c, (m, n), dtype, align=64, offset_factor=n, scope="wmma.accumulator")
        with T.block("root"):
            T.reads()
            T.writes(C[0:m, 0:n])
            for i, j in T.grid(m, n):
                with T.block("init"):
                    vii, vjj = T.axis.remap("SS", [i, j])
                    C[vii, vjj] = zero

    @T.prim_func
    def wmma_fill_impl(c: T.handle) -> None:
        d1 = T.int32()
        d0 = T.int32()
        C = T.match_buffer(
            c, (m, n), dtype, align=64, offset_factor=n, scope="wmma.accumulator",
            strides=[d1, d0],
        )  # fmt: skip
        with T.block("root"):
            T.reads()
            T.writes(C[0:m, 0:n])
            T.evaluate(
                T.tvm_fill_fragment(C.data, m, n, k, fragment_index(C, m, n), zero, dtype="handle")
            )

    return wmma_fill_desc, wmma_fill_impl


def get_wmma_sync_intrin(tile: Tile, in_dtype: str, out_dtype: str, b_transposed: bool) -> Pair:
    """Multiply two fragments and add the product to an accumulator."""
    m, n, k = tile.m, tile.n, tile.k
    b_rows, b_columns = (n, k) if b_transposed else (k, n)

    def widened(value: PrimExpr) -> PrimExpr:
        return cast(out_dtype, value)

    def in_b(row: PrimExpr, column: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        return (column, row) if b_transposed else (row, column)

    @T.prim_func
    def wmma_sync_desc(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (m, k), in_dtype, align=64, offset_factor=k, scope="wmma.matrix_a")
        B = T.match_buffer(
            b, (b_rows, b_columns), in_dtype, align=64, offset_factor=b_columns,
            scope="wmma.matrix_b",
        )  # fmt: skip
        C = T.match_buffer(
            c, (m, n), out_dtype, align=64, offset_factor=n, scope="wmma.accumulator"
        )
        with T.block("root"):
            T.reads(C[0:m, 0:n], A[0:m, 0:k], B[0:b_rows, 0:b_columns])
            T.writes(C[0:m, 0:n])
            for i, j, l in T.grid(m, n, k):
                with T.block(""):
                    vii, vjj, vkk = T.axis.remap("SSR", [i, j, l])
                    C[vii, vjj] = C[vii, vjj] + widened(A[vii, vkk]) * widened(B[in_b(vkk, vjj)])

    @T.prim_func
    def wmma_sync_impl(a: T.handle, b: T.handle, c: T.handle) -> None:
        a1 = T.int32()
        a0 = T.int32()
        b1 = T.int32()
        b0 = T.int32()
        c1 = T.int32()
        c0 = T.int32()
        A = T.match_buffer(
            a, (m, k), in_dtype, align=64, offset_factor=k, scope="wmma.matrix_a",
            strides=[a1, a0],
        )  # fmt: skip
        B = T.match_buffer(
            b, (b_rows, b_columns), in_dtype, align=64, offset_factor=b_columns,
            scope="wmma.matrix_b", strides=[b1, b0],
        )  # fmt: skip
        C = T.match_buffer(
            c, (m, n), out_dtype, align=64, offset_factor=n, scope="wmma.accumulator",
            strides=[c1, c0],
        )  # fmt: skip
        with T.block("root"):
            T.reads(C[0:m, 0:n], A[0:m, 0:k], B[0:b_rows, 0:b_columns])
            T.writes(C[0:m, 0:n])
            T.evaluate(
                T.tvm_mma_sync(
                    C.data,
                    fragment_index(C, m, n),
                    A.data,
                    fragment_index(A, m, k),
                    B.data,
                    fragment_index(B, b_rows, b_columns),
                    C.data,
                    fragment_index(C, m, n),
                    dtype="handle",
                )
            )

    return wmma_sync_desc, wmma_sync_impl


# --- names --------------------------------------------------------------------------------------


def _load_name(tile: Tile, dtype: str, operand: str, scope: str, is_trans: bool) -> str:
    trans = "_trans" if is_trans else ""
    return f"wmma_load_{tile}_{_SHORT[dtype]}_{operand}{trans}_{_SCOPES[scope]}"


def _sync_name(tile: Tile, in_dtype: str, out_dtype: str, is_trans: bool) -> str:
    kinds = _SHORT[in_dtype] * 2 + _SHORT[out_dtype]
    return f"wmma_sync_{tile}_{kinds}" + ("_trans" if is_trans else "")


def _fill_name(tile: Tile, dtype: str) -> str:
    return f"wmma_fill_{tile}_{_SHORT[dtype]}"


def _store_name(tile: Tile, dtype: str, scope: str) -> str:
    return f"wmma_store_{tile}_{_SHORT[dtype]}_{_SCOPES[scope]}"


def _makers() -> Iterator[tuple[str, Callable[[], Pair]]]:
    """Every instruction of the family with what makes it."""
    tile, shared = TILE_16, ("shared", "shared.dyn")
    for in_dtype, out_dtype in (
        ("float16", "float32"), ("float16", "float16"), ("int8", "int32")
    ):  # fmt: skip
        for trans in (False, True):
            make = partial(get_wmma_sync_intrin, tile, in_dtype, out_dtype, trans)
            yield _sync_name(tile, in_dtype, out_dtype, trans), make
    for dtype in ("float16", "int8"):
        for operand in "ab":
            for trans in (False, True):
                for scope in shared:
                    make = partial(get_wmma_load_intrin, tile, dtype, scope, operand == "b", trans)
                    yield _load_name(tile, dtype, operand, scope, trans), make
    for out_dtype in ("float32", "float16", "int32"):
        yield _fill_name(tile, out_dtype), partial(get_wmma_fill_intrin, tile, out_dtype)
        for scope in (*shared, "global"):
            yield (
                _store_name(tile, out_dtype, scope),
                partial(get_wmma_store_intrin, tile, out_dtype, scope),
            )
    yield from _four_bit_makers()


def _four_bit_makers() -> Iterator[tuple[str, Callable[[], Pair]]]:
    """4-bit integers are multiplied with the second operand transposed only."""
    tile, shared = TILE_4BIT, ("shared", "shared.dyn")
    make = partial(get_wmma_sync_intrin, tile, "int4", "int32", True)
    yield _sync_name(tile, "int4", "int32", True), make
    for scope in shared:
        for operand, trans in (("a", False), ("b", True)):
            make = partial(get_wmma_load_intrin, tile, "int4", scope, operand == "b", trans)
            yield _load_name(tile, "int4", operand, scope, trans), make
    yield _fill_name(tile, "int32"), partial(get_wmma_fill_intrin, tile, "int32")
    for scope in (*shared, "global"):
        yield (
            _store_name(tile, "int32", scope),
            partial(get_wmma_store_intrin, tile, "int32", scope),
        )


def _register_all() -> None:
    for name, make in _makers():
        TensorIntrin.register_maker(name, make)


_register_all()


def get_wmma_intrin_group(
    load_scope: str, store_scope: str, in_dtype: str, out_dtype: str, trans_b: bool
) -> dict[str, str]:
    """The instructions that one tensorized matrix product needs."""
    _check_choice("load_scope", load_scope, ("shared", "shared.dyn"))
    _check_choice("store_scope", store_scope, ("global", "shared", "shared.dyn"))
    _check_choice("in_dtype", in_dtype, ("float16", "int8"))
    results = ("int32",) if in_dtype == "int8" else ("float16", "float32")
    _check_choice(f"out_dtype for {in_dtype}", out_dtype, results)
    tile = TILE_16
    return {
        "init": _fill_name(tile, out_dtype),
        "load_a": _load_name(tile, in_dtype, "a", load_scope, False),
        "load_b": _load_name(tile, in_dtype, "b", load_scope, trans_b),
        "compute": _sync_name(tile, in_dtype, out_dtype, trans_b),
        "store": _store_name(tile, out_dtype, store_scope),
    }


def _check_choice(what: str, given: Any, known: tuple[str, ...]) -> None:
    if given not in known:
        raise RegistryError(
            f"get_wmma_intrin_group: {what} is one of {', '.join(map(repr, known))}, not {given!r}"
        )

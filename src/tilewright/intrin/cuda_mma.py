"""Warp-level matrix instructions of NVIDIA GPUs through PTX: `ldmatrix` and `mma`.

Operands live in registers that are spread over a warp: a buffer in scope `warp` has one row a
thread. The layouts below say which thread holds which element, and where.
"""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tilewright.errors import RegistryError
from tilewright.ir import Buffer, PrimExpr, PrimFunc, Var, cast, const, intrinsics
from tilewright.ir.tensor_intrin import TensorIntrin
from tilewright.script import tir as T

Pair = tuple[PrimFunc, PrimFunc]
Layout = Callable[[Any, Any], tuple[Any, Any]]

WARP_SIZE = 32
M_DIM = 16
N_DIM = 16


def shared_16x16_to_ldmatrix_32x8_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """(thread, register) of element (i, j) of a 16x16 tile of 16-bit or accumulator elements."""
    return 4 * (i % 8) + (j % 8) // 2, 4 * (j // 8) + (i // 8) * 2 + (j % 2)


def shared_16x32_to_ldmatrix_32x16_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """(thread, register) of element (i, j) of a 16x32 tile of 8-bit elements."""
    return 4 * (i % 8) + (j % 16) // 4, 8 * (j // 16) + (i // 8) * 4 + j % 4


def shared_32x16_to_ldmatrix_32x16_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """(thread, register) of element (i, j) of a 32x16 tile of 8-bit elements."""
    return (i % 16) // 4 + 4 * (j % 8), 8 * (j // 8) + (i // 16) * 4 + i % 4


@dataclass(frozen=True)
class WarpTile:
    """A tile of an operand and how a warp holds it."""

    rows: int
    columns: int
    layout: Layout

    @property
    def registers(self) -> int:
        """Elements a thread."""
        return self.rows * self.columns // WARP_SIZE


_TILE_16X16 = WarpTile(16, 16, shared_16x16_to_ldmatrix_32x8_layout)
_TILE_16X32 = WarpTile(16, 32, shared_16x32_to_ldmatrix_32x16_layout)
_TILE_32X16 = WarpTile(32, 16, shared_32x16_to_ldmatrix_32x16_layout)


def _source_offset(tile: WarpTile, is_b: bool, transposed: bool, tx: Any, stride: Any) -> Any:
    """Where the row that thread `tx` names for `ldmatrix` starts in shared memory."""
    half = tile.columns // 2  # elements of 16 bytes
    if is_b and transposed:
        return stride * 8 * (tx // 16) + stride * (tx % 8) + half * (tx % 16 // 8)
    if tile is _TILE_32X16:
        # 8-bit elements cannot be transposed by ldmatrix: the backend copies them one by one and
        # needs the distance between rows.
        return stride
    return stride * (tx % 16) + half * (tx // 16)


def get_ldmatrix_intrin(
    tile: WarpTile, dtype: str, is_b: bool, transposed: bool, shared_scope: str = "shared"
) -> Pair:
    """Spread a tile in shared memory over the registers of a warp."""
    rows, columns, registers = tile.rows, tile.columns, tile.registers
    layout = tile.layout
    transpose_on_load = is_b and not transposed

    @T.prim_func
    def ldmatrix_desc(warp_handle: T.handle, shared_handle: T.handle) -> None:
        warp = T.match_buffer(
            warp_handle, (WARP_SIZE, registers), dtype, align=64, offset_factor=columns,
            scope="warp",
        )  # fmt: skip
        shared = T.match_buffer(
            shared_handle, (rows, columns), dtype, align=64, offset_factor=columns,
            scope=shared_scope,
        )  # fmt: skip
        with T.block("root"):
            T.reads(shared[0:rows, 0:columns])
            T.writes(warp[0:WARP_SIZE, 0:registers])
            for ax0, ax1 in T.grid(rows, columns):
                with T.block("shared_warp"):
                    v0, v1 = T.axis.remap("SS", [ax0, ax1])
                    warp[layout(v0, v1)] = shared[v0, v1]

    @T.prim_func
    def ldmatrix_impl(warp_handle: T.handle, shared_handle: T.handle) -> None:
        s0 = T.int32()
        s1 = T.int32()
        warp = T.match_buffer(
            warp_handle, (WARP_SIZE, registers), dtype, align=64, offset_factor=columns,
            scope="warp",
        )  # fmt: skip
        shared = T.match_buffer(
            shared_handle, (rows, columns), dtype, align=64, offset_factor=columns,
            scope=shared_scope, strides=[s0, s1],
        )  # fmt: skip
        with T.block("root"):
            T.reads(shared[0:rows, 0:columns])
            T.writes(warp[0:WARP_SIZE, 0:registers])
            for tx in T.thread_binding(0, WARP_SIZE, "threadIdx.x"):
                T.evaluate(
                    T.ptx_ldmatrix(
                        transpose_on_load,
                        4,
                        ".b16",
                        warp.data,
                        warp.elem_offset + registers * tx,
                        shared.access_ptr("r", extent=s0 * rows),
                        _source_offset(tile, is_b, transposed, tx, s0),
                        dtype=dtype,
                    )
                )

    return ldmatrix_desc, ldmatrix_impl


def operand_tile(k: int, is_b: bool, transposed: bool) -> WarpTile:
    """The tile of the first or second operand of a product over `k` elements, 16 or 32."""
    if k not in (16, 32):
        raise RegistryError(f"a warp multiplies over 16 or 32 elements at a time, not over {k}")
    if k == 16:
        return _TILE_16X16
    return _TILE_32X16 if is_b and not transposed else _TILE_16X32


def check_accumulator(local_size: int) -> None:
    """A thread holds as many elements of a 16x16 accumulator as `local_size` says."""
    if local_size != _TILE_16X16.registers:
        raise RegistryError(
            f"a thread holds {_TILE_16X16.registers} elements of a 16x16 accumulator, "
            f"not {local_size}"
        )


@dataclass(frozen=True)
class _MmaKind:
    """An `mma` instruction of m16n8: two of them make a product of 16x16 results."""

    k: int
    in_dtype: str
    out_dtype: str

    @property
    def shape(self) -> str:
        return f"m16n8k{self.k}"

    @property
    def a_tile(self) -> WarpTile:
        return operand_tile(self.k, False, False)

    def b_tile(self, transposed: bool) -> WarpTile:
        return operand_tile(self.k, True, transposed)


_PTX_TYPES = {"float16": "fp16", "float32": "fp32", "int8": "int8", "int32": "int32"}


def _mma_call(
    kind: _MmaKind,
    counts: tuple[int, int, int],
    A: Buffer,
    B: Buffer,
    C: Buffer,
    tx: Var,
    half: int,
) -> PrimExpr:
    """The instruction for the left (0) or right (1) half of the columns."""
    a_at, b_at, c_at = (
        buffer.elem_offset + tx * count  # type: ignore[operator]
        for buffer, count in zip((A, B, C), counts, strict=True)
    )
    inputs, result = _PTX_TYPES[kind.in_dtype], _PTX_TYPES[kind.out_dtype]
    b_at, c_at = b_at + half * (counts[1] // 2), c_at + half * (counts[2] // 2)
    return intrinsics.call_intrin(
        kind.out_dtype,
        "tir.ptx_mma",
        *(kind.shape, "row", "col", inputs, inputs, result),
        *(A.data, a_at, B.data, b_at, C.data, c_at),
        const(False, "bool"),
    )


def get_mma_intrin(k: int, in_dtype: str, out_dtype: str, b_transposed: bool) -> Pair:
    """Multiply two operands of a warp and add the 16x16 product to a third."""
    kind = _MmaKind(k, in_dtype, out_dtype)
    a_tile, b_tile, c_tile = kind.a_tile, kind.b_tile(b_transposed), _TILE_16X16
    a_count, b_count, c_count = a_tile.registers, b_tile.registers, c_tile.registers
    a_factor, b_factor, c_factor = a_tile.columns, b_tile.columns, c_tile.columns
    product = partial(_mma_call, kind, (a_count, b_count, c_count))

    def in_b(row: Any, column: Any) -> tuple[Any, Any]:
        return b_tile.layout(column, row) if b_transposed else b_tile.layout(row, column)

    def widened(value: PrimExpr) -> PrimExpr:
        return cast(out_dtype, value)

    @T.prim_func
    def mma_sync_desc(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(
            a, (WARP_SIZE, a_count), in_dtype, align=64, offset_factor=a_factor, scope="warp"
        )
        B = T.match_buffer(
            b, (WARP_SIZE, b_count), in_dtype, align=64, offset_factor=b_factor, scope="warp"
        )
        C = T.match_buffer(
            c, (WARP_SIZE, c_count), out_dtype, align=64, offset_factor=c_factor, scope="warp"
        )
        with T.block("root"):
            T.reads(C[0:WARP_SIZE, 0:c_count], A[0:WARP_SIZE, 0:a_count], B[0:WARP_SIZE, 0:b_count])
            T.writes(C[0:WARP_SIZE, 0:c_count])
            for i, j, l in T.grid(M_DIM, N_DIM, k):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, l])
                    C[c_tile.layout(vi, vj)] = C[c_tile.layout(vi, vj)] + widened(
                        A[a_tile.layout(vi, vk)]
                    ) * widened(B[in_b(vk, vj)])

    @T.prim_func
    def mma_sync_impl(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(
            a, (WARP_SIZE, a_count), in_dtype, align=64, offset_factor=a_factor, scope="warp"
        )
        B = T.match_buffer(
            b, (WARP_SIZE, b_count), in_dtype, align=64, offset_factor=b_factor, scope="warp"
        )
        C = T.match_buffer(
            c, (WARP_SIZE, c_count), out_dtype, align=64, offset_factor=c_factor, scope="warp"
        )
        with T.block("root"):
            T.reads(C[0:WARP_SIZE, 0:c_count], A[0:WARP_SIZE, 0:a_count], B[0:WARP_SIZE, 0:b_count])
            T.writes(C[0:WARP_SIZE, 0:c_count])
            for tx in T.thread_binding(0, WARP_SIZE, "threadIdx.x"):
                T.evaluate(product(A, B, C, tx, 0))
                T.evaluate(product(A, B, C, tx, 1))

    return mma_sync_desc, mma_sync_impl


def get_mma_fill_intrin(dtype: str) -> Pair:
    """Set an accumulator to zero."""
    layout, registers = _TILE_16X16.layout, _TILE_16X16.registers
    zero = const(0, dtype)

    @T.prim_func
    def mma_fill_desc(a: T.handle) -> None:
        C_warp = T.match_buffer(a, (WARP_SIZE, registers), dtype, scope="warp")
        with T.block("root"):
            T.reads()
            T.writes(C_warp[0:WARP_SIZE, 0:registers])
            for i0, i1 in T.grid(M_DIM, N_DIM):
                with T.block("C_warp"):
                    i, j = T.axis.remap("SS", [i0, i1])
                    C_warp[layout(i, j)] = zero

    @T.prim_func
    def mma_fill_impl(a: T.handle) -> None:
        C_warp = T.match_buffer(a, (WARP_SIZE, registers), dtype, scope="warp", offset_factor=1)
        with T.block("root"):
            T.reads()
            T.writes(C_warp[0:WARP_SIZE, 0:registers])
            for tx in T.thread_binding(0, WARP_SIZE, "threadIdx.x"):  # noqa: B007
                T.evaluate(T.mma_fill(registers, C_warp.data, C_warp.elem_offset, dtype=dtype))

    return mma_fill_desc, mma_fill_impl


def get_mma_store_intrin(dtype: str, scope: str = "global") -> Pair:
    """Write an accumulator to memory."""
    layout, registers = _TILE_16X16.layout, _TILE_16X16.registers

    @T.prim_func
    def mma_store_desc(a: T.handle, c: T.handle) -> None:
        C_warp = T.match_buffer(a, (WARP_SIZE, registers), dtype, scope="warp")
        C = T.match_buffer(c, (M_DIM, N_DIM), dtype, scope=scope)
        with T.block("root"):
            T.reads(C_warp[0:WARP_SIZE, 0:registers])
            T.writes(C[0:M_DIM, 0:N_DIM])
            for i0, i1 in T.grid(M_DIM, N_DIM):
                with T.block("C_warp"):
                    v0, v1 = T.axis.remap("SS", [i0, i1])
                    C[v0, v1] = C_warp[layout(v0, v1)]

    @T.prim_func
    def mma_store_impl(a: T.handle, c: T.handle) -> None:
        s0 = T.int32()
        s1 = T.int32()
        C_warp = T.match_buffer(a, (WARP_SIZE, registers), dtype, scope="warp", offset_factor=1)
        C = T.match_buffer(c, (M_DIM, N_DIM), dtype, scope=scope, offset_factor=1, strides=[s0, s1])
        with T.block("root"):
            T.reads(C_warp[0:WARP_SIZE, 0:registers])
            T.writes(C[0:M_DIM, 0:N_DIM])
            for tx in T.thread_binding(0, WARP_SIZE, "threadIdx.x"):  # noqa: B007
                T.evaluate(
                    T.mma_store(
                        M_DIM,
                        N_DIM,
                        C.access_ptr("w", extent=s0 * M_DIM),
                        C_warp.data,
                        C_warp.elem_offset,
                        s0,
                        dtype=dtype,
                    )
                )

    return mma_store_desc, mma_store_impl


def _makers() -> Iterator[tuple[str, Callable[[], Pair]]]:
    """Every instruction of the family with what makes it."""
    half = partial(get_ldmatrix_intrin, _TILE_16X16, "float16")
    for suffix, scope in (("", "shared"), ("_dyn", "shared.dyn")):
        yield f"mma.ldmatrix_16x16_a{suffix}", partial(half, False, False, scope)
        yield f"mma.ldmatrix_16x16_b{suffix}", partial(half, True, False, scope)
    yield "mma.ldmatrix_16x16_b_trans", partial(half, True, True)
    yield "mma.ldmatrix_16x32_a", partial(get_ldmatrix_intrin, _TILE_16X32, "int8", False, False)
    yield "mma.ldmatrix_32x16_b", partial(get_ldmatrix_intrin, _TILE_32X16, "int8", True, False)
    yield (
        "mma.ldmatrix_16x32_b_trans",
        partial(get_ldmatrix_intrin, _TILE_16X32, "int8", True, True),
    )
    for kinds, k, in_dtype, out_dtype in (
        ("f16f16f32", 16, "float16", "float32"),
        ("f16f16f16", 16, "float16", "float16"),
        ("i8i8i32", 32, "int8", "int32"),
    ):
        for suffix, transposed in (("", False), ("_trans", True)):
            make = partial(get_mma_intrin, k, in_dtype, out_dtype, transposed)
            yield f"mma_{kinds}{suffix}", make
    for short, dtype in (("f32", "float32"), ("f16", "float16"), ("i32", "int32")):
        yield f"mma_fill_16x16_{short}", partial(get_mma_fill_intrin, dtype)
        yield f"mma_store_16x16_{short}_global_", partial(get_mma_store_intrin, dtype)


for _name, _make in _makers():
    TensorIntrin.register_maker(_name, _make)

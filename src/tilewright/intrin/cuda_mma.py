"""Warp-level matrix instructions of NVIDIA GPUs through PTX: `ldmatrix` and `mma`.

Operands live in registers that are spread over a warp: a buffer in scope `warp` has one row a
thread. The layouts below say which thread holds which element, and where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tilewright import ir
from tilewright.errors import RegistryError
from tilewright.intrin import programs
from tilewright.intrin.programs import Pair, description, tile_function
from tilewright.ir.intrinsics import call_intrin
from tilewright.ir.tensor_intrin import TensorIntrin

__all__ = [
    "WARP_SIZE", "M_DIM", "N_DIM", "shared_16x16_to_ldmatrix_32x8_layout",
    "shared_16x32_to_ldmatrix_32x16_layout", "shared_32x16_to_ldmatrix_32x16_layout",
    "get_ldmatrix_intrin", "get_mma_intrin", "get_mma_fill_intrin", "get_mma_store_intrin",
]  # fmt: skip

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


def _warp(tile: WarpTile, name: str, dtype: str, factor: int = 0) -> ir.Buffer:
    """A tile in the registers of a warp."""
    shape = (WARP_SIZE, tile.registers)
    return ir.decl_buffer(shape, dtype, name, scope="warp", offset_factor=factor)


def _memory(
    tile: WarpTile, name: str, dtype: str, scope: str, factor: int, *, strided: bool = False
) -> ir.Buffer:
    """A tile in memory; its rows may be any distance apart if it is strided."""
    strides = [ir.Var("s0", ir.INT32), ir.Var("s1", ir.INT32)] if strided else None
    shape = (tile.rows, tile.columns)
    return ir.decl_buffer(shape, dtype, name, strides=strides, scope=scope, offset_factor=factor)


def _start(registers: ir.Buffer, after: ir.ExprLike = 0) -> tuple[ir.PrimExpr, ir.PrimExpr]:
    """Registers as instructions take them: the first one, and how far after it they start."""
    assert registers.elem_offset is not None
    return registers.data, registers.elem_offset + after


def _by_all_threads(calls: Callable[[ir.Var], Sequence[ir.PrimExpr]]) -> ir.Stmt:
    """All threads of a warp carry out the same calls; `calls` takes their number."""
    tx, axis = ir.Var("tx", ir.INT32), "threadIdx.x"
    thread = ir.IterVar(None, ir.Var(axis, ir.INT32), ir.IterType.THREAD_INDEX, axis)
    body = ir.seq([ir.Evaluate(call) for call in calls(tx)])
    kind = ir.ForKind.THREAD_BINDING
    return ir.For(tx, ir.const(0), ir.const(WARP_SIZE), kind, body, thread)


def get_ldmatrix_intrin(
    k_dim: int, dtype: str, is_b: bool, transposed: bool, shared_scope: str = "shared"
) -> Pair:
    """Spread a tile in shared memory over the registers of a warp."""
    tile = _operand_tile(k_dim, is_b, transposed)
    names, extents = ("ldmatrix_desc", "shared_warp"), (tile.rows, tile.columns)
    warp = _warp(tile, "warp", dtype, tile.columns)
    shared = _memory(tile, "shared", dtype, shared_scope, tile.columns)
    desc = description(
        names, (warp, shared), warp, extents, lambda i, j: shared[i, j], at=tile.layout
    )
    warp = _warp(tile, "warp", dtype, tile.columns)
    rows = _memory(tile, "shared", dtype, shared_scope, tile.columns, strided=True)
    stride = rows.strides[0]

    def load(tx: ir.Var) -> list[ir.PrimExpr]:
        transpose = ir.const(is_b and not transposed, "bool")
        to = _start(warp, tile.registers * tx)
        source = rows.access_ptr("r", extent=stride * tile.rows)
        offset = _source_offset(tile, is_b, transposed, tx, stride)
        return [call_intrin(dtype, "tir.ptx_ldmatrix", transpose, 4, ".b16", *to, source, offset)]

    return desc, tile_function("ldmatrix_impl", (warp, rows), warp, _by_all_threads(load))


def _operand_tile(k: int, is_b: bool, transposed: bool) -> WarpTile:
    """The tile of the first or second operand of a product over `k` elements, 16 or 32."""
    if k not in (16, 32):
        raise RegistryError(f"a warp multiplies over 16 or 32 elements at a time, not over {k}")
    if k == 16:
        return _TILE_16X16
    return _TILE_32X16 if is_b and not transposed else _TILE_16X32


def _check_accumulator(local_size: int) -> None:
    if local_size != _TILE_16X16.registers:
        raise RegistryError(
            f"a thread holds {_TILE_16X16.registers} elements of a 16x16 accumulator, "
            f"not {local_size}"
        )


_PTX_TYPES = {"float16": "fp16", "float32": "fp32", "int8": "int8", "int32": "int32"}


def get_mma_intrin(k_dim: int, out_dtype: str, b_transposed: bool) -> Pair:
    """Multiply two operands of a warp and add the 16x16 product to a third.

    An `mma` instruction is one of m16n8: two of them make a product of 16x16 results.
    """
    in_dtype = "float16" if k_dim == 16 else "int8"
    tiles = (
        _operand_tile(k_dim, False, False),
        _operand_tile(k_dim, True, b_transposed),
        _TILE_16X16,
    )
    a_tile, b_tile, c_tile = tiles

    def operands() -> list[ir.Buffer]:
        dtypes = (in_dtype, in_dtype, out_dtype)
        return [
            _warp(tile, name, dtype, tile.columns)
            for tile, name, dtype in zip(tiles, "ABC", dtypes, strict=True)
        ]

    a, b, c = operands()

    def element(i: ir.Var, j: ir.Var, k: ir.Var) -> ir.PrimExpr:
        in_b = b_tile.layout(j, k) if b_transposed else b_tile.layout(k, j)
        return programs.product(out_dtype, a[a_tile.layout(i, k)], b[in_b])

    names, extents = ("mma_sync_desc", "C"), (M_DIM, N_DIM, k_dim)
    desc = description(names, (a, b, c), c, extents, element, at=c_tile.layout, accumulates=True)
    registers = operands()
    inputs, result = _PTX_TYPES[in_dtype], _PTX_TYPES[out_dtype]

    def half(tx: ir.Var, number: int) -> ir.PrimExpr:
        """The instruction for the left (0) or right (1) half of the columns."""
        a_at, b_at, c_at = (
            _start(buffer, tx * tile.registers)
            for buffer, tile in zip(registers, tiles, strict=True)
        )
        skipped = [number * (tile.registers // 2) for tile in tiles]
        return call_intrin(
            out_dtype,
            "tir.ptx_mma",
            *(f"m16n8k{k_dim}", "row", "col", inputs, inputs, result),
            *(*a_at, b_at[0], b_at[1] + skipped[1], c_at[0], c_at[1] + skipped[2]),
            ir.const(False, "bool"),
        )

    body = _by_all_threads(lambda tx: [half(tx, 0), half(tx, 1)])
    return desc, tile_function("mma_sync_impl", registers, registers[-1], body, accumulates=True)


def get_mma_fill_intrin(dtype: str, local_size: int = 8) -> Pair:
    """Set an accumulator, of which a thread holds `local_size` elements, to zero."""
    _check_accumulator(local_size)
    tile, zero = _TILE_16X16, ir.const(0, dtype)
    c, registers = _warp(tile, "C_warp", dtype), _warp(tile, "C_warp", dtype, 1)

    def fill(tx: ir.Var) -> list[ir.PrimExpr]:
        del tx
        return [call_intrin(dtype, "tir.mma_fill", tile.registers, *_start(registers))]

    names, extents = ("mma_fill_desc", "C_warp"), (M_DIM, N_DIM)
    return (
        description(names, (c,), c, extents, lambda i, j: zero, at=tile.layout),
        tile_function("mma_fill_impl", (registers,), registers, _by_all_threads(fill)),
    )


def get_mma_store_intrin(dtype: str, local_size: int = 8, scope: str = "global") -> Pair:
    """Write an accumulator, of which a thread holds `local_size` elements, to memory."""
    _check_accumulator(local_size)
    tile = _TILE_16X16
    warp, c = _warp(tile, "C_warp", dtype), _memory(tile, "C", dtype, scope, 0)
    registers, rows = (
        _warp(tile, "C_warp", dtype, 1),
        _memory(tile, "C", dtype, scope, 1, strided=True),
    )
    stride = rows.strides[0]

    def store(tx: ir.Var) -> list[ir.PrimExpr]:
        del tx
        to = rows.access_ptr("w", extent=stride * M_DIM)
        source = _start(registers)
        return [call_intrin(dtype, "tir.mma_store", M_DIM, N_DIM, to, *source, stride)]

    names, extents = ("mma_store_desc", "C_warp"), (M_DIM, N_DIM)
    return (
        description(names, (warp, c), c, extents, lambda i, j: warp[tile.layout(i, j)]),
        tile_function("mma_store_impl", (registers, rows), rows, _by_all_threads(store)),
    )


def _makers() -> Iterator[tuple[str, Callable[[], Pair]]]:
    """Every instruction of the family with what makes it."""
    half = partial(get_ldmatrix_intrin, 16, "float16")
    for suffix, scope in (("", "shared"), ("_dyn", "shared.dyn")):
        yield f"mma.ldmatrix_16x16_a{suffix}", partial(half, False, False, scope)
        yield f"mma.ldmatrix_16x16_b{suffix}", partial(half, True, False, scope)
        yield f"mma.ldmatrix_16x16_b_trans{suffix}", partial(half, True, True, scope)
    byte = partial(get_ldmatrix_intrin, 32, "int8")
    yield "mma.ldmatrix_16x32_a", partial(byte, False, False)
    yield "mma.ldmatrix_32x16_b", partial(byte, True, False)
    yield "mma.ldmatrix_16x32_b_trans", partial(byte, True, True)
    for kinds, k_dim, out_dtype in (
        ("f16f16f32", 16, "float32"),
        ("f16f16f16", 16, "float16"),
        ("i8i8i32", 32, "int32"),
    ):
        for suffix, transposed in (("", False), ("_trans", True)):
            yield f"mma_{kinds}{suffix}", partial(get_mma_intrin, k_dim, out_dtype, transposed)
    for short, dtype in (("f32", "float32"), ("f16", "float16"), ("i32", "int32")):
        yield f"mma_fill_16x16_{short}", partial(get_mma_fill_intrin, dtype)
        for scope in ("global", "shared", "shared.dyn"):
            name = f"mma_store_16x16_{short}_{scope.replace('.', '_')}_"
            yield name, partial(get_mma_store_intrin, dtype, scope=scope)


for _name, _make in _makers():
    TensorIntrin.register_maker(_name, _make)

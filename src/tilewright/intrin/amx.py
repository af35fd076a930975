"""Matrix tiles of x86 (AMX): products of 8-bit integers and of bfloat16 in tile registers.

A tile register holds 16 rows of 64 bytes. Results accumulate in a buffer of scope `amx.tmm`, which
is no memory: it is one tile register (16x16 results) or four (32x32), the same ones for every such
buffer, so that only one of them can be in use at a time (`lowering/tile_registers.py` sees to it).
A computation needs three instructions: `fill` for its init, `dot`, and `store` to get the results.

The right operand is packed: elements that meet in one product of pairs or quadruples lie together,
`B[k // 4, j, k % 4]` for 8-bit elements and `B[k // 2, j, k % 2]` for bfloat16.
"""
# mypy: disable-error-code="valid-type, no-untyped-def"

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from tilewright import ir
from tilewright.intrin.programs import elementwise, tile_function
from tilewright.ir.intrinsics import address_of, call_llvm_intrin
from tilewright.ir.tensor_intrin import Computes, Maker, TensorIntrin
from tilewright.lowering.tile_registers import TILE_SCOPE as TILE_SCOPE
from tilewright.script import tir as T

TILE_ROWS = 16
SIZES = (32, 16)  # results along each side of one instruction of ours

# Registers 0..3 accumulate, so a 2x2 block of tiles takes all eight.
_LEFT_TILES, _RIGHT_TILES = 4, 6


@dataclass(frozen=True)
class Product:
    """An instruction that multiplies two tiles."""

    name: str  # as in the names of our intrinsics
    llvm: str
    left: str
    right: str
    out: str
    feature: str

    @property
    def group(self) -> int:
        """How many elements meet in one result at a time: as many as fill four bytes."""
        return 2 if self.left == "bfloat16" else 4

    @property
    def depth(self) -> int:
        """Products in each result of one instruction."""
        return TILE_ROWS * self.group


PRODUCTS = (
    Product("s8s8", "llvm.x86.tdpbssd", "int8", "int8", "int32", "amx-int8"),
    Product("s8u8", "llvm.x86.tdpbsud", "int8", "uint8", "int32", "amx-int8"),
    Product("u8s8", "llvm.x86.tdpbusd", "uint8", "int8", "int32", "amx-int8"),
    Product("u8u8", "llvm.x86.tdpbuud", "uint8", "uint8", "int32", "amx-int8"),
    Product("bf16", "llvm.x86.tdpbf16ps", "bfloat16", "bfloat16", "float32", "amx-bf16"),
)
_FEATURES = {product.out: ("amx-tile", product.feature) for product in PRODUCTS}


def dot_name(size: int, product: Product) -> str:
    """`amx_dot_32x32x64_s8s8` and so on."""
    return f"amx_dot_{size}x{size}x{product.depth}_{product.name}"


def fill_name(size: int, dtype: str) -> str:
    """`amx_fill_32x32_int32` and so on."""
    return f"amx_fill_{size}x{size}_{dtype}"


def store_name(size: int, dtype: str, scope: str = "global") -> str:
    """`amx_store_32x32_int32`; `..._local` stores to a buffer of scope `local`."""
    return f"amx_store_{size}x{size}_{dtype}" + ("" if scope == "global" else f"_{scope}")


# --- what they compute --------------------------------------------------------------------------


def dot_description(size: int, product: Product) -> ir.PrimFunc:
    """`C[i, j] += A[i, k] * B[k // group, j, k % group]`"""
    depth, group, left, right, out = (
        product.depth, product.group, product.left, product.right, product.out
    )  # fmt: skip

    @T.prim_func
    def amx_dot(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (size, depth), left, offset_factor=1)
        B = T.match_buffer(b, (TILE_ROWS, size, group), right, offset_factor=1)
        C = T.match_buffer(c, (size, size), out, offset_factor=1, scope=TILE_SCOPE)
        with T.block("root"):
            T.reads(C[0:size, 0:size], A[0:size, 0:depth], B[0:TILE_ROWS, 0:size, 0:group])
            T.writes(C[0:size, 0:size])
            for i, j, k in T.grid(size, size, depth):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], out) * T.cast(
                        B[vk // group, vj, vk % group], out
                    )

    return amx_dot


def fill_description(size: int, dtype: str) -> ir.PrimFunc:
    """`C[i, j] = 0`"""
    c = _tiles("C", size, dtype)
    return elementwise(("amx_fill", "fill"), (c,), c, lambda i, j: ir.const(0, dtype))


def store_description(size: int, dtype: str, scope: str) -> ir.PrimFunc:
    """`D[i, j] = C[i, j]`"""
    c = _tiles("C", size, dtype)
    d = ir.decl_buffer((size, size), dtype, "D", scope=scope, offset_factor=1)
    return elementwise(("amx_store", "store"), (c, d), d, lambda i, j: ir.BufferLoad(c, (i, j)))


# --- how they are issued ------------------------------------------------------------------------


def dot_implementation(size: int, product: Product) -> ir.PrimFunc:
    """Load the operands into tiles and multiply each row of tiles with each column of tiles."""
    group = product.group
    a = _rows("A", (size, product.depth), product.left)
    b = _rows("B", (TILE_ROWS, size, group), product.right)
    c = _tiles("C", size, product.out)
    steps = range(size // TILE_ROWS)
    loads = [
        *(_load(_LEFT_TILES + i, a, (i * TILE_ROWS, 0)) for i in steps),
        *(_load(_RIGHT_TILES + j, b, (0, j * TILE_ROWS, 0)) for j in steps),
    ]
    products = [
        _issue(product.llvm, _tile(_result(i, j)), _tile(_LEFT_TILES + i), _tile(_RIGHT_TILES + j))
        for i in steps
        for j in steps
    ]
    return tile_function("amx_dot", (a, b, c), c, [*loads, *products], accumulates=True)


def fill_implementation(size: int, dtype: str) -> ir.PrimFunc:
    """Zero all tiles of results."""
    c = _tiles("C", size, dtype)
    zeros = [_issue("llvm.x86.tilezero", _tile(number)) for number in _results(size)]
    return tile_function("amx_fill", (c,), c, zeros)


def store_implementation(size: int, dtype: str, scope: str) -> ir.PrimFunc:
    """Write all tiles of results to memory."""
    c, d = _tiles("C", size, dtype), _rows("D", (size, size), dtype, scope)
    steps = range(size // TILE_ROWS)
    stores = [
        _transfer("llvm.x86.tilestored64", _result(i, j), d, (i * TILE_ROWS, j * TILE_ROWS))
        for i in steps
        for j in steps
    ]
    return tile_function("amx_store", (c, d), d, stores)


def _result(row: int, column: int) -> int:
    """The register with a tile of results."""
    return 2 * row + column


def _results(size: int) -> list[int]:
    steps = range(size // TILE_ROWS)
    return [_result(i, j) for i in steps for j in steps]


def _rows(name: str, shape: tuple[int, ...], dtype: str, scope: str = "global") -> ir.Buffer:
    """An operand in memory whose rows may be any distance apart."""
    inner = [math.prod(shape[axis + 1 :]) for axis in range(1, len(shape))]
    strides = [ir.Var(f"{name}_stride", ir.INT32), *map(ir.const, inner)]
    return ir.decl_buffer(shape, dtype, name, strides=strides, scope=scope, offset_factor=1)


def _tiles(name: str, size: int, dtype: str) -> ir.Buffer:
    return ir.decl_buffer((size, size), dtype, name, scope=TILE_SCOPE, offset_factor=1)


def _tile(number: int) -> ir.PrimExpr:
    return ir.const(number, "int8")


def _load(number: int, buffer: ir.Buffer, first: tuple[int, ...]) -> ir.Call:
    return _transfer("llvm.x86.tileloadd64", number, buffer, first)


def _transfer(name: str, number: int, buffer: ir.Buffer, first: tuple[int, ...]) -> ir.Call:
    """Move a tile from or to the 16 rows that start at an element."""
    start = address_of(ir.BufferLoad(buffer, tuple(map(ir.const, first))))
    stride = ir.cast("int64", buffer.strides[0]) * ir.const(buffer.dtype.itemsize, "int64")
    return _issue(name, _tile(number), start, stride)


def _issue(name: str, *arguments: ir.PrimExpr) -> ir.Call:
    return call_llvm_intrin("void", name, *arguments)


# --- registration -------------------------------------------------------------------------------


def _dot(size: int, product: Product) -> tuple[ir.PrimFunc, ir.PrimFunc]:
    return dot_description(size, product), dot_implementation(size, product)


def _fill(size: int, dtype: str) -> tuple[ir.PrimFunc, ir.PrimFunc]:
    return fill_description(size, dtype), fill_implementation(size, dtype)


def _store(size: int, dtype: str, scope: str) -> tuple[ir.PrimFunc, ir.PrimFunc]:
    return store_description(size, dtype, scope), store_implementation(size, dtype, scope)


def _register(
    name: str, make: Maker, features: tuple[str, ...], computes: Computes | None = None
) -> None:
    TensorIntrin.register_maker(name, make, features=features, computes=computes)


for _size in SIZES:
    for _product in PRODUCTS:
        _register(
            dot_name(_size, _product), partial(_dot, _size, _product), _FEATURES[_product.out]
        )
    for _dtype, _needed in _FEATURES.items():
        _zeros = Computes("fill", _dtype, lanes=_size, rows=_size, scope=TILE_SCOPE)
        _register(fill_name(_size, _dtype), partial(_fill, _size, _dtype), _needed, _zeros)
        for _scope in ("global", "local"):
            _copies = Computes(f"store {TILE_SCOPE}", _dtype, _size, rows=_size, scope=_scope)
            _make = partial(_store, _size, _dtype, _scope)
            _register(store_name(_size, _dtype, _scope), _make, _needed, _copies)

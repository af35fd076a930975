"""Matrix tiles of x86 (AMX): products of 8-bit integers and of bfloat16 in tile registers.

A tile register holds 16 rows of 64 bytes. Results accumulate in a buffer of scope `amx.tmm`, which
is no memory: it is one tile register (16x16 results) or four (32x32), the same ones for every such
buffer, so that only one of them can be in use at a time (`lowering/tile_registers.py` sees to it).
A computation needs three instructions: `fill` for its init, `dot`, and `store` to get the results.

The right operand is packed: elements that meet in one product of pairs or quadruples lie together,
`B[k // 4, j, k % 4]` for 8-bit elements and `B[k // 2, j, k % 2]` for bfloat16.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from tilewright import ir
from tilewright.intrin import programs
from tilewright.intrin.programs import Pair, description, tile_function
from tilewright.ir.intrinsics import address_of, call_llvm_intrin
from tilewright.ir.tensor_intrin import Computes, TensorIntrin
from tilewright.lowering.tile_registers import TILE_SCOPE as TILE_SCOPE

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


# --- what they compute, and how they are issued -------------------------------------------------


def make_dot(size: int, product: Product) -> Pair:
    """`C[i, j] += A[i, k] * B[k // group, j, k % group]`.

    The operands are loaded into tiles; each row of tiles is multiplied with each column of tiles.
    """
    depth, group = product.depth, product.group
    shapes = (size, depth), (TILE_ROWS, size, group)
    a = ir.decl_buffer(shapes[0], product.left, "A", offset_factor=1)
    b = ir.decl_buffer(shapes[1], product.right, "B", offset_factor=1)
    c = _tiles(size, product.out)
    rows_a, rows_b = _rows("A", shapes[0], product.left), _rows("B", shapes[1], product.right)

    def element(i: ir.Var, j: ir.Var, k: ir.Var) -> ir.PrimExpr:
        return programs.product(product.out, a[i, k], b[k // group, j, k % group])

    steps, load = range(size // TILE_ROWS), "llvm.x86.tileloadd64"
    calls = [
        *(_transfer(load, _LEFT_TILES + i, rows_a, (i * TILE_ROWS, 0)) for i in steps),
        *(_transfer(load, _RIGHT_TILES + j, rows_b, (0, j * TILE_ROWS, 0)) for j in steps),
    ]
    for i, j in _places(size):
        tiles = map(_tile, (_result(i, j), _LEFT_TILES + i, _RIGHT_TILES + j))
        calls.append(_issue(product.llvm, *tiles))
    names, extents, own = ("amx_dot", "update"), (size, size, depth), _tiles(size, product.out)
    return (
        description(names, (a, b, c), c, extents, element, accumulates=True),
        tile_function("amx_dot", (rows_a, rows_b, own), own, calls, accumulates=True),
    )


def make_fill(size: int, dtype: str) -> Pair:
    """`C[i, j] = 0`"""
    zero, c, own = ir.const(0, dtype), _tiles(size, dtype), _tiles(size, dtype)
    zeros = [_issue("llvm.x86.tilezero", _tile(_result(i, j))) for i, j in _places(size)]
    return (
        description(("amx_fill", "fill"), (c,), c, (size, size), lambda i, j: zero),
        tile_function("amx_fill", (own,), own, zeros),
    )


def make_store(size: int, dtype: str, scope: str) -> Pair:
    """`D[i, j] = C[i, j]`"""
    c, own, rows = _tiles(size, dtype), _tiles(size, dtype), _rows("D", (size, size), dtype, scope)
    d = ir.decl_buffer((size, size), dtype, "D", scope=scope, offset_factor=1)
    stores = [
        _transfer("llvm.x86.tilestored64", _result(i, j), rows, (i * TILE_ROWS, j * TILE_ROWS))
        for i, j in _places(size)
    ]
    return (
        description(("amx_store", "store"), (c, d), d, (size, size), lambda i, j: c[i, j]),
        tile_function("amx_store", (own, rows), rows, stores),
    )


def _places(size: int) -> Iterator[tuple[int, int]]:
    """Rows and columns of the tiles of results."""
    steps = range(size // TILE_ROWS)
    return itertools.product(steps, steps)


def _result(row: int, column: int) -> int:
    """The register with a tile of results."""
    return 2 * row + column


def _rows(name: str, shape: tuple[int, ...], dtype: str, scope: str = "global") -> ir.Buffer:
    """An operand in memory whose rows may be any distance apart."""
    inner = [math.prod(shape[axis + 1 :]) for axis in range(1, len(shape))]
    strides = [ir.Var(f"{name}_stride", ir.INT32), *map(ir.const, inner)]
    return ir.decl_buffer(shape, dtype, name, strides=strides, scope=scope, offset_factor=1)


def _tiles(size: int, dtype: str) -> ir.Buffer:
    return ir.decl_buffer((size, size), dtype, "C", scope=TILE_SCOPE, offset_factor=1)


def _tile(number: int) -> ir.PrimExpr:
    return ir.const(number, "int8")


def _transfer(name: str, number: int, buffer: ir.Buffer, first: tuple[int, ...]) -> ir.Call:
    """Move a tile from or to the 16 rows that start at an element."""
    start = address_of(ir.BufferLoad(buffer, tuple(map(ir.const, first))))
    stride = ir.cast("int64", buffer.strides[0]) * ir.const(buffer.dtype.itemsize, "int64")
    return _issue(name, _tile(number), start, stride)


def _issue(name: str, *arguments: ir.PrimExpr) -> ir.Call:
    return call_llvm_intrin("void", name, *arguments)


# --- registration -------------------------------------------------------------------------------

_register = TensorIntrin.register_maker
for _size in SIZES:
    for _product in PRODUCTS:
        _make = partial(make_dot, _size, _product)
        _register(dot_name(_size, _product), _make, features=_FEATURES[_product.out])
    for _dtype, _needed in _FEATURES.items():
        _make = partial(make_fill, _size, _dtype)
        _does = Computes("fill", _dtype, lanes=_size, rows=_size, scope=TILE_SCOPE)
        _register(fill_name(_size, _dtype), _make, features=_needed, computes=_does)
        for _scope in ("global", "local"):
            _make = partial(make_store, _size, _dtype, _scope)
            _does = Computes(f"store {TILE_SCOPE}", _dtype, _size, rows=_size, scope=_scope)
            _name = store_name(_size, _dtype, _scope)
            _register(_name, _make, features=_needed, computes=_does)

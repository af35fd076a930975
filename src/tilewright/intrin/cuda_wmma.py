"""Warp-level matrix instructions of NVIDIA GPUs through the wmma interface.

Tiles live in fragments (`wmma.matrix_a`, `wmma.matrix_b`, `wmma.accumulator`), which a warp loads
from shared memory, multiplies, and stores. A buffer in such a scope may hold many tiles: which one
an operand is follows from its offset and stride.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from tilewright import ir
from tilewright.errors import RegistryError
from tilewright.intrin import programs
from tilewright.intrin.programs import Pair, description, tile_function
from tilewright.ir import intrinsics
from tilewright.ir.tensor_intrin import TensorIntrin

__all__ = [
    "get_wmma_load_intrin", "get_wmma_store_intrin", "get_wmma_fill_intrin",
    "get_wmma_sync_intrin", "get_wmma_intrin_group",
]  # fmt: skip


class Tile(NamedTuple):
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


def fragment_index(buffer: ir.Buffer, rows: int, columns: int) -> ir.PrimExpr:
    """Which tile of `rows` x `columns` elements in a buffer of fragments an operand is."""
    offset, stride = buffer.elem_offset, buffer.strides[0]
    assert offset is not None
    of_row = offset // stride // rows * (stride // columns)
    return of_row + offset % stride // columns


def _tile(
    name: str, rows: int, columns: int, dtype: str, scope: str, stride: str = ""
) -> ir.Buffer:
    """An operand; with the name of a stride, its rows may be any distance apart."""
    return ir.decl_buffer(
        (rows, columns),
        dtype,
        name,
        strides=[ir.Var(f"{stride}1", ir.INT32), ir.Var(f"{stride}0", ir.INT32)]
        if stride
        else None,
        scope=scope,
        data_alignment=64,
        offset_factor=columns,
    )


def get_wmma_load_intrin(
    m_dim: int,
    n_dim: int,
    k_dim: int,
    dtype: str,
    shared_scope: str,
    is_b: bool,
    is_col_major: bool,
) -> Pair:
    """Copy a tile of the first or second operand from shared memory into a fragment."""
    scope = "wmma.matrix_b" if is_b else "wmma.matrix_a"
    rows, columns = (k_dim, n_dim) if is_b else (m_dim, k_dim)
    if is_col_major:
        rows, columns = columns, rows
    tile_a, tile_c = ("A", rows, columns, dtype, shared_scope), ("C", rows, columns, dtype, scope)
    A, C = _tile(*tile_a), _tile(*tile_c)
    names, shape = ("wmma_load_desc", "load"), (rows, columns)
    desc = description(names, (A, C), C, shape, lambda i, j: A[i, j])
    A, C = _tile(*tile_a, "s"), _tile(*tile_c, "d")
    load = intrinsics.call_intrin(
        "handle",
        "tir.tvm_load_matrix_sync",
        *(C.data, m_dim, n_dim, k_dim, fragment_index(C, rows, columns)),
        *(A.access_ptr("r", extent=A.strides[0] * rows), A.strides[0], _LAYOUTS[is_col_major]),
    )
    return desc, tile_function("wmma_load_impl", (A, C), C, [load])


def get_wmma_store_intrin(m_dim: int, n_dim: int, k_dim: int, dtype: str, scope: str) -> Pair:
    """Copy an accumulator into shared or global memory."""
    m, n, k = m_dim, n_dim, k_dim
    tile_a, tile_c = ("A", m, n, dtype, "wmma.accumulator"), ("C", m, n, dtype, scope)
    A, C = _tile(*tile_a), _tile(*tile_c)
    desc = description(("wmma_store_desc", "store"), (A, C), C, (m, n), lambda i, j: A[i, j])
    A, C = _tile(*tile_a, "d"), _tile(*tile_c, "s")
    store = intrinsics.call_intrin(
        "handle",
        "tir.tvm_store_matrix_sync",
        *(A.data, m, n, k, fragment_index(A, m, n)),
        *(C.access_ptr("w", extent=C.strides[0] * m), C.strides[0], "row_major"),
    )
    return desc, tile_function("wmma_store_impl", (A, C), C, [store])


def get_wmma_fill_intrin(m_dim: int, n_dim: int, k_dim: int, dtype: str) -> Pair:
    """Set an accumulator to zero."""
    m, n, k = m_dim, n_dim, k_dim
    zero = ir.const(0, dtype)
    C = _tile("C", m, n, dtype, "wmma.accumulator")
    desc = description(("wmma_fill_desc", "init"), (C,), C, (m, n), lambda i, j: zero)
    C = _tile("C", m, n, dtype, "wmma.accumulator", "d")
    fill = intrinsics.call_intrin(
        "handle", "tir.tvm_fill_fragment", C.data, m, n, k, fragment_index(C, m, n), zero
    )
    return desc, tile_function("wmma_fill_impl", (C,), C, [fill])


def get_wmma_sync_intrin(
    m_dim: int, n_dim: int, k_dim: int, in_dtype: str, out_dtype: str, b_transposed: bool
) -> Pair:
    """Multiply two fragments and add the product to an accumulator."""
    m, n, k = m_dim, n_dim, k_dim
    b_shape = (n, k) if b_transposed else (k, n)

    def operands(*strides: str) -> tuple[ir.Buffer, ...]:
        a, b, c = strides or ("", "", "")
        return (
            _tile("A", m, k, in_dtype, "wmma.matrix_a", a),
            _tile("B", *b_shape, in_dtype, "wmma.matrix_b", b),
            _tile("C", m, n, out_dtype, "wmma.accumulator", c),
        )

    A, B, C = operands()

    def element(i: ir.Var, j: ir.Var, k: ir.Var) -> ir.PrimExpr:
        return programs.product(out_dtype, A[i, k], B[j, k] if b_transposed else B[k, j])

    desc = description(("wmma_sync_desc", ""), (A, B, C), C, (m, n, k), element, accumulates=True)
    A, B, C = operands("a", "b", "c")
    a = (A.data, fragment_index(A, m, k))
    b = (B.data, fragment_index(B, *b_shape))
    c = (C.data, fragment_index(C, m, n))
    sync = intrinsics.call_intrin("handle", "tir.tvm_mma_sync", *c, *a, *b, *c)
    return desc, tile_function("wmma_sync_impl", (A, B, C), C, [sync], accumulates=True)


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


# The tile, the type of operands, those of results, and how each operand may be transposed.
_ALL_WAYS = (("a", False), ("a", True), ("b", False), ("b", True))
_FAMILIES = (
    (TILE_16, "float16", ("float32", "float16"), _ALL_WAYS),
    (TILE_16, "int8", ("int32",), _ALL_WAYS),
    (TILE_4BIT, "int4", ("int32",), (("a", False), ("b", True))),
)


def _makers() -> Iterator[tuple[str, Callable[[], Pair]]]:
    """Every instruction of the family with what makes it."""
    shared = ("shared", "shared.dyn")
    for tile, in_dtype, out_dtypes, ways in _FAMILIES:
        for operand, trans in ways:
            for scope in shared:
                make = partial(get_wmma_load_intrin, *tile, in_dtype, scope, operand == "b", trans)
                yield _load_name(tile, in_dtype, operand, scope, trans), make
        for out_dtype in out_dtypes:
            for trans in (trans for operand, trans in ways if operand == "b"):
                make = partial(get_wmma_sync_intrin, *tile, in_dtype, out_dtype, trans)
                yield _sync_name(tile, in_dtype, out_dtype, trans), make
            yield _fill_name(tile, out_dtype), partial(get_wmma_fill_intrin, *tile, out_dtype)
            for scope in (*shared, "global"):
                make = partial(get_wmma_store_intrin, *tile, out_dtype, scope)
                yield _store_name(tile, out_dtype, scope), make


for _name, _make in _makers():
    TensorIntrin.register_maker(_name, _make)


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

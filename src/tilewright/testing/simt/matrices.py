"""The `wmma` instructions of warps and the dot product of bytes, for threads in step.

A fragment lies in memory of its warp, row by row whatever its threads hold on a GPU, and every
thread moves an equal part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright import ir
from tilewright.ir.numpy_bridge import to_numpy

Array: TypeAlias = npt.NDArray[Any]
WARP = 32


class Threads(Protocol):
    """All threads of a kernel, as much as these instructions need of them."""

    shapes: dict[ir.Var, tuple[int, int]]  # rows and columns of each fragment that was written

    def value(self, node: ir.PrimExpr) -> Any:
        """What each thread computes."""

    def lanes(self) -> Array:
        """The place of each thread in its warp; all threads of a warp have to be here."""

    def notice_rows(self, var: ir.Var, dtype: ir.DType, rows: Array, count: int) -> None:
        """`count` times 8 rows of 16 bytes are loaded, one named by each thread."""

    def read(self, var: ir.Var, dtype: ir.DType, index: Array) -> Array:
        """The elements at one row of indices a thread."""

    def write(self, var: ir.Var, dtype: ir.DType, index: Array, values: Array) -> None:
        """Write one row of elements a thread."""


def dot_of_bytes(a: Array, b: Array, c: Array) -> Array:
    """`__dp4a`: the sum of four products, added to a number."""
    products = a.astype(np.int32) * b.astype(np.int32)
    result: Array = products.sum(axis=-1, dtype=np.int32) + c
    return result


FUNCTIONS: Mapping[str, Callable[..., Array]] = MappingProxyType(
    {"__dp4a": dot_of_bytes, "tw_settled": np.positive, "tw_kept": np.positive}
)


def _fill(threads: Threads, call: ir.Call) -> None:
    fragment, value = call.args[0], call.args[5]
    at = _places(threads, call)
    dtype = element_type_of(fragment)
    numbers = np.full(at.shape, threads.value(value), to_numpy(dtype))
    threads.write(var_of(fragment), dtype, at, numbers)


def _load(threads: Threads, call: ir.Call) -> None:
    fragment, at = call.args[0], _places(threads, call)
    var, dtype, index = _memory(threads, call)
    threads.write(var_of(fragment), dtype, at, threads.read(var, dtype, index))


def _store(threads: Threads, call: ir.Call) -> None:
    fragment, at = call.args[0], _places(threads, call)
    var, dtype, index = _memory(threads, call)
    threads.write(var, dtype, index, threads.read(var_of(fragment), dtype, at))


def _multiply(threads: Threads, call: ir.Call) -> None:
    """D = A * B + C; the operands are pairs of a fragment's array and its place there."""
    d, a, b, c = (call.args[at : at + 2] for at in range(0, 8, 2))
    wide = element_type_of(c[0])
    shape = threads.shapes[var_of(c[0])]
    threads.shapes[var_of(d[0])] = shape
    left, right, sums = (_whole(threads, *each).astype(to_numpy(wide)) for each in (a, b, c))
    result = np.matmul(left, right) + sums
    at = _spread(threads, shape, d[1])
    threads.write(var_of(d[0]), wide, at, result.reshape(at.shape))


WMMA: Mapping[str, Callable[[Threads, ir.Call], None]] = MappingProxyType(
    {
        "tvm_fill_fragment": _fill,
        "tvm_load_matrix_sync": _load,
        "tvm_store_matrix_sync": _store,
        "tvm_mma_sync": _multiply,
    }
)


def _whole(threads: Threads, fragment: ir.PrimExpr, index: ir.PrimExpr) -> Array:
    """The matrix of each warp."""
    shape = threads.shapes[var_of(fragment)]
    at = _spread(threads, shape, index)
    return threads.read(var_of(fragment), element_type_of(fragment), at).reshape(-1, *shape)


def _places(threads: Threads, call: ir.Call) -> Array:
    """Where the elements of a fragment lie that each thread moves; notes the fragment's shape."""
    fragment, m, n, k, index = call.args[:5]
    rows, columns, depth = (int(threads.value(each)) for each in (m, n, k))
    shapes = {"matrix_a": (rows, depth), "matrix_b": (depth, columns)}
    shape = shapes.get(_scope(fragment).removeprefix("wmma."), (rows, columns))
    threads.shapes[var_of(fragment)] = shape
    return _spread(threads, shape, index)


def _spread(threads: Threads, shape: tuple[int, int], index: ir.PrimExpr) -> Array:
    first = np.broadcast_to(threads.value(index), threads.lanes().shape)
    return first[:, None] * (shape[0] * shape[1]) + _parts(threads, shape)


def _parts(threads: Threads, shape: tuple[int, int]) -> Array:
    """The elements of a matrix, numbered row by row, that each thread moves."""
    each = shape[0] * shape[1] // WARP
    return threads.lanes()[:, None] * each + np.arange(each)


def _memory(threads: Threads, call: ir.Call) -> tuple[ir.Var, ir.DType, Array]:
    """Where the elements of a matrix lie outside of fragments."""
    pointer, stride, layout = call.args[5:8]
    assert isinstance(pointer, ir.Call)
    assert isinstance(layout, ir.StringImm)
    shape = threads.shapes[var_of(call.args[0])]
    row, column = np.divmod(_parts(threads, shape), shape[1])
    if layout.value == "col_major":
        row, column = column, row
    first = np.broadcast_to(threads.value(pointer.args[2]), threads.lanes().shape)
    index = first[:, None] + row * threads.value(stride) + column
    return var_of(pointer.args[1]), pointer.args[0].dtype, index


def var_of(expr: ir.PrimExpr) -> ir.Var:
    """The memory or registers that an argument names."""
    assert isinstance(expr, ir.Var)
    return expr


def _scope(fragment: ir.PrimExpr) -> str:
    annotation = var_of(fragment).type_annotation
    assert annotation is not None
    return annotation.storage_scope


def element_type_of(fragment: ir.PrimExpr) -> ir.DType:
    """Of a fragment."""
    annotation = var_of(fragment).type_annotation
    assert annotation is not None
    return annotation.element_type

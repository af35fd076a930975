"""The matrix instructions of warps and the dot product of bytes, for threads in step.

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
    dtype = _element_type(fragment)
    numbers = np.full(at.shape, threads.value(value), to_numpy(dtype))
    threads.write(_var(fragment), dtype, at, numbers)


def _load(threads: Threads, call: ir.Call) -> None:
    fragment, at = call.args[0], _places(threads, call)
    var, dtype, index = _memory(threads, call)
    threads.write(_var(fragment), dtype, at, threads.read(var, dtype, index))


def _store(threads: Threads, call: ir.Call) -> None:
    fragment, at = call.args[0], _places(threads, call)
    var, dtype, index = _memory(threads, call)
    threads.write(var, dtype, index, threads.read(_var(fragment), dtype, at))


def _multiply(threads: Threads, call: ir.Call) -> None:
    """D = A * B + C; the operands are pairs of a fragment's array and its place there."""
    d, a, b, c = (call.args[at : at + 2] for at in range(0, 8, 2))
    wide = _element_type(c[0])
    shape = threads.shapes[_var(c[0])]
    threads.shapes[_var(d[0])] = shape
    left, right, sums = (_whole(threads, *each).astype(to_numpy(wide)) for each in (a, b, c))
    result = np.matmul(left, right) + sums
    at = _spread(threads, shape, d[1])
    threads.write(_var(d[0]), wide, at, result.reshape(at.shape))


def _load_rows(threads: Threads, call: ir.Call) -> None:
    """`ldmatrix`: each thread names a row of 8 elements, and gets a pair of each matrix."""
    is_turned, count = (int(threads.value(call.args[at])) for at in (0, 1))
    registers, pointer = _var(call.args[3]), call.args[5]
    assert isinstance(pointer, ir.Call)
    lanes, dtype = threads.lanes(), call.dtype
    rows = np.broadcast_to(
        threads.value(pointer.args[2]) + threads.value(call.args[6]), lanes.shape
    )
    first = np.arange(lanes.size) - lanes  # of the warp
    matrix, pair = np.arange(count)[:, None], np.arange(2)
    line, column = lanes[:, None, None] // 4, lanes[:, None, None] % 4 * 2 + pair
    if is_turned:
        line, column = column, line
    index = rows[first[:, None, None] + matrix * 8 + line] + column
    index = index.reshape(lanes.size, 2 * count)
    values = threads.read(_var(pointer.args[1]), dtype, index)
    threads.write(registers, dtype, _registers(threads, call.args[4], 2 * count), values)


def _multiply_rows(threads: Threads, call: ir.Call) -> None:
    """`mma.m16n8k16` of float16 with sums of float32, in registers as the instruction has them."""
    assert [str(arg) for arg in call.args[:6]] == [*_MMA]
    (left, a), (right, b), (sums, c) = (call.args[at : at + 2] for at in (6, 8, 10))
    half, wide = ir.DType("float16"), ir.DType("float32")
    of_a = threads.read(_var(left), half, _registers(threads, a, 8)).astype(np.float32)
    of_b = threads.read(_var(right), half, _registers(threads, b, 4)).astype(np.float32)
    at = _registers(threads, c, 4)
    warps = -1, WARP
    group, pair = np.arange(WARP)[:, None] // 4, np.arange(WARP)[:, None] % 4 * 2
    rows, depth = group + np.arange(8) // 2 % 2 * 8, pair + np.arange(8) // 4 * 8 + np.arange(8) % 2
    count = len(of_a) // WARP
    matrix, other = np.zeros((count, 16, 16), np.float32), np.zeros((count, 16, 8), np.float32)
    matrix[:, rows, depth] = of_a.reshape(*warps, 8)
    other[:, pair + np.arange(4) // 2 * 8 + np.arange(4) % 2, group] = of_b.reshape(*warps, 4)
    product = (matrix @ other)[:, group + np.arange(4) // 2 * 8, pair + np.arange(4) % 2]
    known = threads.read(_var(sums), wide, at)
    threads.write(_var(sums), wide, at, known + product.reshape(known.shape))


_MMA = ('"m16n8k16"', '"row"', '"col"', '"fp16"', '"fp16"', '"fp32"')


def _registers(threads: Threads, offset: ir.PrimExpr, count: int) -> Array:
    first = np.broadcast_to(threads.value(offset), threads.lanes().shape)
    return first[:, None] + np.arange(count)


INSTRUCTIONS: Mapping[str, Callable[[Threads, ir.Call], None]] = MappingProxyType(
    {
        "tvm_fill_fragment": _fill,
        "tvm_load_matrix_sync": _load,
        "tvm_store_matrix_sync": _store,
        "tvm_mma_sync": _multiply,
        "ptx_ldmatrix": _load_rows,
        "ptx_mma": _multiply_rows,
    }
)


def _whole(threads: Threads, fragment: ir.PrimExpr, index: ir.PrimExpr) -> Array:
    """The matrix of each warp."""
    shape = threads.shapes[_var(fragment)]
    at = _spread(threads, shape, index)
    return threads.read(_var(fragment), _element_type(fragment), at).reshape(-1, *shape)


def _places(threads: Threads, call: ir.Call) -> Array:
    """Where the elements of a fragment lie that each thread moves; notes the fragment's shape."""
    fragment, m, n, k, index = call.args[:5]
    rows, columns, depth = (int(threads.value(each)) for each in (m, n, k))
    shapes = {"matrix_a": (rows, depth), "matrix_b": (depth, columns)}
    shape = shapes.get(_scope(fragment).removeprefix("wmma."), (rows, columns))
    threads.shapes[_var(fragment)] = shape
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
    shape = threads.shapes[_var(call.args[0])]
    row, column = np.divmod(_parts(threads, shape), shape[1])
    if layout.value == "col_major":
        row, column = column, row
    first = np.broadcast_to(threads.value(pointer.args[2]), threads.lanes().shape)
    index = first[:, None] + row * threads.value(stride) + column
    return _var(pointer.args[1]), pointer.args[0].dtype, index


def _var(expr: ir.PrimExpr) -> ir.Var:
    assert isinstance(expr, ir.Var)
    return expr


def _scope(fragment: ir.PrimExpr) -> str:
    annotation = _var(fragment).type_annotation
    assert annotation is not None
    return annotation.storage_scope


def _element_type(fragment: ir.PrimExpr) -> ir.DType:
    annotation = _var(fragment).type_annotation
    assert annotation is not None
    return annotation.element_type

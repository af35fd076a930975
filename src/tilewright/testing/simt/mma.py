"""`ldmatrix` and `mma`, for threads in step: every thread holds what the instruction says.

Lane l has the group l / 4 and the column l % 4 in it. A register has 32 bits: two elements of 16
bits or four of 8, next to each other along the sum. See `tilewright.intrin.cuda_mma`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from tilewright import ir
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.testing.simt.matrices import WARP, Array, Threads, var_of

_TYPES = {"fp16": "float16", "fp32": "float32", "int8": "int8", "int32": "int32"}
_SHAPES = {"float16": "m16n8k16", "int8": "m16n8k32"}
_LANE = np.arange(WARP)[:, None]
_GROUP, _COLUMN = _LANE // 4, _LANE % 4


def _load_rows(threads: Threads, call: ir.Call) -> None:
    """Each thread names a row of 16 bytes, and gets a register of each matrix of 8 rows."""
    is_turned, count = (int(threads.value(call.args[at])) for at in (0, 1))
    dtype, (var, rows) = call.dtype, _pointer(threads, call.args[5])
    each = 4 // to_numpy(dtype).itemsize
    offset = threads.value(call.args[6])
    if is_turned and each == 4:
        index = _turned_bytes(threads, rows, offset)
    else:
        rows = rows + offset
        threads.notice_rows(var, dtype, rows, count)
        lanes = threads.lanes()
        first = (np.arange(lanes.size) - lanes)[:, None, None]  # of the warp
        matrix, neighbour = np.arange(count)[:, None], np.arange(each)
        line, column = lanes[:, None, None] // 4, lanes[:, None, None] % 4 * each + neighbour
        if is_turned:
            line, column = column, line
        index = (rows[first + matrix * 8 + line] + column).reshape(lanes.size, -1)
    values = threads.read(var, dtype, index)
    at = _registers(threads, call.args[4], index.shape[1])
    threads.write(var_of(call.args[3]), dtype, at, values)


def _turned_bytes(threads: Threads, first: Array, stride: Array) -> Array:
    """Bytes of 32 rows and 16 columns, which are loaded one by one."""
    lane, number = threads.lanes()[:, None], np.arange(16)
    row = number % 8 // 4 * 16 + lane % 4 * 4 + number % 4
    index: Array = first[:, None] + row * stride + lane // 4 + number // 8 * 8
    return index


def _multiply(threads: Threads, call: ir.Call) -> None:
    """A product of 16 rows and 8 columns is added to sums."""
    shape, *layouts, left, right, result = (_text(arg) for arg in call.args[:6])
    kind, wide = ir.DType(_TYPES[left]), ir.DType(_TYPES[result])
    assert (left, layouts, shape) == (right, ["row", "col"], _SHAPES[str(kind)])
    each = 4 // to_numpy(kind).itemsize
    a, b = np.arange(4 * each), np.arange(2 * each)
    rows, depth = _GROUP + a // each % 2 * 8, _along(each, a, a // (2 * each))
    matrix = _matrix(threads, call, 6, (rows, depth), (16, 8 * each), kind)
    other = _matrix(threads, call, 8, (_along(each, b, b // each), _GROUP), (8 * each, 8), kind)
    product = np.matmul(matrix.astype(to_numpy(wide)), other.astype(to_numpy(wide)))
    at = _registers(threads, call.args[11], 4)
    sums = threads.read(var_of(call.args[10]), wide, at)
    row, column = _sum_places(np.arange(4), np.arange(4) // 2, 0)
    added = product[:, row, column].reshape(sums.shape)
    threads.write(var_of(call.args[10]), wide, at, sums + added)


def _along(each: int, number: Array, half: Array) -> Array:
    """The place along the sum of each element that a thread holds."""
    place: Array = _COLUMN * each + half * 4 * each + number % each
    return place


def _sum_places(number: Array, half: Array, part: Array | int) -> tuple[Array, Array]:
    """Row and column of each sum that a thread holds."""
    return _GROUP + half * 8, _COLUMN * 2 + number % 2 + part * 8


def _matrix(
    threads: Threads,
    call: ir.Call,
    first: int,
    places: tuple[Array, Array],
    shape: tuple[int, int],
    dtype: ir.DType,
) -> Array:
    """An operand of each warp."""
    count = np.broadcast_shapes(*(each.shape for each in places))[1]
    at = _registers(threads, call.args[first + 1], count)
    held = threads.read(var_of(call.args[first]), dtype, at).reshape(-1, WARP, count)
    whole = np.zeros((len(held), *shape), to_numpy(dtype))
    row, column = places
    whole[:, row, column] = held
    return whole


def _fill(threads: Threads, call: ir.Call) -> None:
    """(elements, registers, offset)"""
    at = _registers(threads, call.args[2], int(threads.value(call.args[0])))
    threads.write(var_of(call.args[1]), call.dtype, at, np.zeros(at.shape, to_numpy(call.dtype)))


def _store(threads: Threads, call: ir.Call) -> None:
    """(rows, columns, address, registers, offset, stride): sums of 16 rows and columns."""
    var, first = _pointer(threads, call.args[2])
    values = threads.read(var_of(call.args[3]), call.dtype, _registers(threads, call.args[4], 8))
    number = np.arange(8)
    row, column = _sum_places(number, number % 4 // 2, number // 4)
    inside = row * threads.value(call.args[5]) + column
    index = (first.reshape(-1, WARP, 1) + inside).reshape(-1, 8)
    threads.write(var, call.dtype, index, values)


def _pointer(threads: Threads, pointer: ir.PrimExpr) -> tuple[ir.Var, Array]:
    """Memory, and the first element for each thread."""
    assert isinstance(pointer, ir.Call)
    first = np.broadcast_to(threads.value(pointer.args[2]), threads.lanes().shape)
    return var_of(pointer.args[1]), first


def _registers(threads: Threads, offset: ir.PrimExpr, count: int) -> Array:
    first = np.broadcast_to(threads.value(offset), threads.lanes().shape)
    return first[:, None] + np.arange(count)


def _text(argument: ir.PrimExpr) -> str:
    assert isinstance(argument, ir.StringImm)
    return argument.value


MMA: Mapping[str, Callable[[Threads, ir.Call], None]] = MappingProxyType(
    {"ptx_ldmatrix": _load_rows, "ptx_mma": _multiply, "mma_fill": _fill, "mma_store": _store}
)

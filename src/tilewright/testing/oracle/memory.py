"""The memory of an interpreted program: bytes, typed views of them, and checked accesses.

Indices and values are NumPy scalars, or arrays when many lanes or many iterations of a loop nest
are computed at once. A mask, when there is one, has the shape of the values of a vector expression
(its last axis counts lanes, or has length one); what it switches off is not touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import IRError
from tilewright.ir import DType
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.testing.oracle.errors import OutOfBoundsError, UninitializedReadError

_UNWRITTEN = 0xA5  # pattern of fresh memory: easy to recognise, and NaN-free garbage for floats


class Memory:
    """A stretch of bytes, and whether each of them was ever written (None: all are)."""

    __slots__ = ("_typed", "_typed_marks", "bytes", "marks", "name")

    def __init__(
        self, data: np.ndarray[Any, Any], name: str, marks: np.ndarray[Any, Any] | None = None
    ) -> None:
        self.bytes = data
        self.name = name
        self.marks = marks
        self._typed: dict[np.dtype[Any], np.ndarray[Any, Any]] = {}
        self._typed_marks: dict[int, np.ndarray[Any, Any]] = {}

    @staticmethod
    def of_array(array: np.ndarray[Any, Any], name: str) -> Memory:
        """The memory of a contiguous array; writes go through."""
        return Memory(array.reshape(-1).view(np.uint8), name)

    @staticmethod
    def allocate(size: int, name: str, track: bool) -> Memory:
        """`size` fresh bytes; with `track`, reading them before writing is an error."""
        data = np.full(size, _UNWRITTEN, np.uint8)
        return Memory(data, name, np.zeros(size, np.uint8) if track else None)

    def typed(self, kind: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """The memory as a flat array of elements."""
        found = self._typed.get(kind)
        if found is None:
            whole = len(self.bytes) // kind.itemsize * kind.itemsize
            found = self._typed[kind] = self.bytes[:whole].view(kind)
        return found

    def typed_marks(self, itemsize: int) -> np.ndarray[Any, Any] | None:
        """For each element of that size a number that is not zero once it was written."""
        if self.marks is None:
            return None
        found = self._typed_marks.get(itemsize)
        if found is None:
            whole = len(self.marks) // itemsize * itemsize
            found = self._typed_marks[itemsize] = self.marks[:whole].view(f"u{itemsize}")
        return found

    def at(self, byte_offset: int) -> Memory:
        """The memory from an address inside it onwards."""
        if byte_offset == 0:
            return self
        marks = None if self.marks is None else self.marks[byte_offset:]
        return Memory(self.bytes[byte_offset:], self.name, marks)


class View:
    """A buffer over memory: shape, strides and offset are known numbers."""

    __slots__ = (
        "_axes",
        "data",
        "kind",
        "lanes",
        "marks",
        "memory",
        "name",
        "offset",
        "shape",
        "strides",
    )

    def __init__(
        self,
        memory: Memory,
        dtype: DType,
        shape: Sequence[int],
        strides: Sequence[int],
        offset: int,
        name: str,
    ) -> None:
        self.memory = memory
        self.kind = _numpy_kind(dtype, name)
        self.lanes = dtype.lanes
        self.data = memory.typed(self.kind)
        self.marks = memory.typed_marks(self.kind.itemsize)
        self.shape = tuple(shape)
        self.strides = tuple(strides) or compact_strides(self.shape)
        self._axes = tuple(zip(self.shape, self.strides, strict=True))
        self.offset = offset
        self.name = name

    # --- one element, the common case ---

    def position(self, indices: Sequence[Any]) -> int:
        """Where an element lies, in elements from the start of the memory."""
        position = self.offset
        for index, (extent, stride) in zip(indices, self._axes):  # noqa: B905 - a hot path
            value = int(index)
            if not 0 <= value < extent:
                raise self._out_of_bounds(indices)
            position += value * stride
        if not 0 <= position < len(self.data):
            raise self._out_of_memory(indices, position)
        return position

    def read_one(self, indices: Sequence[Any]) -> Any:
        position = self.position(indices)
        if self.marks is not None and not self.marks[position]:
            raise self._uninitialized(indices)
        return self.data[position]

    def write_one(self, indices: Sequence[Any], value: Any) -> None:
        position = self.position(indices)
        self.data[position] = value
        if self.marks is not None:
            self.marks[position] = -1 & ((1 << (8 * self.marks.itemsize)) - 1)

    # --- many elements at once ---

    def positions(self, indices: Sequence[Any], active: Any) -> Any:
        """`position` for arrays of indices; where `active` is false the answer is 0."""
        total: Any = np.int64(self.offset)
        for axis, (index, extent, stride) in enumerate(
            zip(indices, self.shape, self.strides, strict=True)
        ):
            wide = np.asarray(index, np.int64)
            self._check_axis(indices, axis, (wide < 0) | (wide >= extent), active)
            total = total + wide * stride
        if self.lanes > 1:
            lane = np.arange(self.lanes)
            total = (np.asarray(total)[..., None] * self.lanes + lane).reshape(
                *np.shape(total)[:-1], -1
            )
        outside = (total < 0) | (total >= len(self.data))
        if np.any(_within(outside, active)):
            raise self._out_of_memory(indices, int(np.asarray(total)[outside].flat[0]))
        return total if active is None else np.where(active, total, 0)

    def read_many(self, indices: Sequence[Any], active: Any) -> Any:
        positions = self.positions(indices, active)
        if self.marks is not None and np.any(_within(self.marks[positions] == 0, active)):
            raise self._uninitialized(indices)
        if active is None:
            return self.data[positions]
        empty = np.zeros((), self.kind)
        if not len(self.data):
            return np.broadcast_to(empty, np.shape(positions))
        return np.where(active, self.data[positions], empty)

    def write_many(self, indices: Sequence[Any], value: Any, active: Any) -> None:
        positions = self.positions(indices, active)
        if active is not None:
            everywhere, positions, value = np.broadcast_arrays(active, positions, value)
            positions, value = positions[everywhere], value[everywhere]
        self.data[positions] = value
        if self.marks is not None:
            self.marks[positions] = ~self.marks.dtype.type(0)

    def _check_axis(self, indices: Sequence[Any], axis: int, outside: Any, active: Any) -> None:
        wrong = _within(outside, active)
        if np.any(wrong):
            arrays = np.broadcast_arrays(wrong, *indices)
            place = (
                tuple(int(found[0]) for found in np.nonzero(arrays[0])) if arrays[0].ndim else ()
            )
            raise self._out_of_bounds([array[place] for array in arrays[1:]])

    # --- what went wrong ---

    def _out_of_bounds(self, indices: Sequence[Any]) -> OutOfBoundsError:
        return OutOfBoundsError(
            f"access {self.name}[{_comma(indices)}] is outside its shape ({_comma(self.shape)})"
        )

    def _out_of_memory(self, indices: Sequence[Any], position: int) -> OutOfBoundsError:
        return OutOfBoundsError(
            f"access to {self.name} at element {position} is outside its memory of "
            f"{len(self.data)} elements (indices {_comma(indices)})"
        )

    def _uninitialized(self, indices: Sequence[Any]) -> UninitializedReadError:
        return UninitializedReadError(
            f"read of {self.name}[{_comma(indices)}] before anything was written there"
        )


def compact_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a row-major layout, in elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _numpy_kind(dtype: DType, name: str) -> np.dtype[Any]:
    try:
        return to_numpy(dtype.element_of)
    except IRError as error:
        raise IRError(f"buffer {name}: {error}") from None


def _within(condition: Any, active: Any) -> Any:
    return condition if active is None else condition & active


def _comma(items: Sequence[Any]) -> str:
    return ", ".join(str(item) for item in items)

"""Arguments to run candidates with: random inputs, poisoned outputs, and guards around each array.

The data depends on a seed and nothing else, so that every process makes the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from tilewright.ir import DType
from tilewright.ir.numpy_bridge import from_numpy, to_numpy
from tilewright.runtime import ndarray
from tilewright.runtime.devices import Device
from tilewright.runtime.ndarray import NDArray
from tilewright.runtime.tensor_view import Array as Array, DeviceMemory, ElementType, address_of

Access = Literal["r", "w", "rw", ""]


class TensorSpec(NamedTuple):
    """Type and shape of an argument; workers need nothing else of `records`."""

    dtype: str
    shape: tuple[int, ...]
    rises_to: int | None = None  # offsets of rows: from 0 to this number


GUARD_BYTES = 4096
_ALIGNMENT = 64
_GUARD = 0xA5
_POISON_INT = 0xA5
_POISON_FLOAT = 0xFF  # NaN in every float type
# Integers are small, since they may be indices; bytes never are, and may well overflow.
_SMALL_INTEGERS = 8


class GuardedArray:
    """An array inside of a larger piece of memory, so that writing past its ends can be noticed."""

    def __init__(self, dtype: ElementType, shape: tuple[int, ...]) -> None:
        size = math.prod(shape) * dtype.itemsize
        memory = np.empty(size + 2 * GUARD_BYTES + _ALIGNMENT, np.uint8)
        start = -(address_of(memory) + GUARD_BYTES) % _ALIGNMENT + GUARD_BYTES
        self.whole = memory[start - GUARD_BYTES : start + size + GUARD_BYTES]  # with both guards
        self._front, self._back = self.whole[:GUARD_BYTES], self.whole[GUARD_BYTES + size :]
        self.bytes: Array = self.whole[GUARD_BYTES : GUARD_BYTES + size]
        self.array: Array = self.bytes.view(dtype).reshape(shape)
        self.reset_guards()

    def reset_guards(self) -> None:
        """Make the guards whole again."""
        self._front[:] = _GUARD
        self._back[:] = _GUARD

    def poison(self) -> None:
        """Fill the array with what no kernel computes: NaN, or a pattern of bits."""
        self.bytes[:] = _POISON_INT if self.array.dtype.kind in "biu" else _POISON_FLOAT

    def touched_guard(self) -> str:
        """Where somebody wrote outside of the array; empty if nobody did."""
        before = np.flatnonzero(self._front != _GUARD)
        if before.size:
            return f"{GUARD_BYTES - int(before[-1])} bytes before its start"
        behind = np.flatnonzero(self._back != _GUARD)
        return f"{int(behind[0])} bytes behind its end" if behind.size else ""


def random_values(info: TensorSpec, rng: np.random.Generator, *, positive: bool = False) -> Array:
    """Random contents for an argument.

    Floats lie in [-1, 1), or in [0.5, 1.5) for functions that need positive ones.
    """
    kind, dtype = DType(info.dtype), to_numpy(info.dtype)
    count = math.prod(info.shape)
    if kind.is_bool:
        values: Array = rng.integers(0, 2, count, np.uint8)
    elif kind.is_integral and kind.bits == 8:
        limits = np.iinfo(dtype)
        values = rng.integers(limits.min, limits.max, count, dtype, endpoint=True)
    elif info.rises_to is not None:
        values = np.sort(rng.integers(0, info.rises_to + 1, count, np.int64))
        values[:1], values[-1:] = 0, info.rises_to
    elif kind.is_integral:
        values = rng.integers(0, _SMALL_INTEGERS, count, np.int8)
    else:
        values = rng.random(count, np.float64 if kind.bits == 64 else np.float32)
        values = values + 0.5 if positive else values * 2 - 1
    return values.astype(dtype, copy=False).reshape(info.shape)


class ArgumentSet:
    """The arguments of one call, with the means to set them up again after a run.

    `values` are the contents to start from; an array that is only written starts poisoned.
    """

    def __init__(self, accesses: Sequence[Access], values: Sequence[Array]) -> None:
        self.accesses = tuple(accesses)
        self.guarded = [GuardedArray(value.dtype, value.shape) for value in values]
        self._originals = [
            None if access == "w" else np.ascontiguousarray(value).reshape(-1).view(np.uint8)
            for access, value in zip(accesses, values, strict=True)
        ]
        self.restore()

    @staticmethod
    def random(
        infos: Sequence[TensorSpec], accesses: Sequence[Access], seed: int, *, positive: bool
    ) -> ArgumentSet:
        """Arguments with random contents that depend on the seed alone."""
        values = [
            np.empty(info.shape, to_numpy(info.dtype))
            if access == "w"
            else random_values(info, np.random.default_rng((seed, position)), positive=positive)
            for position, (info, access) in enumerate(zip(infos, accesses, strict=True))
        ]
        return ArgumentSet(accesses, values)

    def alike(self) -> ArgumentSet:
        """The same arguments, but all floats in [0.5, 1]."""
        self.restore()
        values = [
            ((np.abs(array) + 1) / 2).astype(array.dtype) if is_float(array) else array
            for array in self.arrays
        ]
        return ArgumentSet(self.accesses, values)

    @property
    def arrays(self) -> list[Array]:
        """What to call a function with."""
        return [guarded.array for guarded in self.guarded]

    def restore(self) -> None:
        """Inputs as they were at first, outputs poisoned, guards whole."""
        for guarded, original in zip(self.guarded, self._originals, strict=True):
            if original is None:
                guarded.poison()
            else:
                guarded.bytes[:] = original
            guarded.reset_guards()

    def outputs(self) -> list[tuple[int, GuardedArray]]:
        """The arrays that the function writes, with their positions."""
        return [
            (i, guarded)
            for i, (guarded, access) in enumerate(zip(self.guarded, self.accesses, strict=True))
            if "w" in access
        ]

    def damage(self) -> str:
        """What a run did that it must not do; empty if it behaved."""
        for i, (guarded, original) in enumerate(zip(self.guarded, self._originals, strict=True)):
            touched = guarded.touched_guard()
            if touched:
                return f"it wrote out of bounds of argument {i}, {touched}"
            read_only = "w" not in self.accesses[i]
            if read_only and original is not None and not same_bytes(guarded.bytes, original):
                return f"it changed argument {i}, which is an input"
        return ""


class PlacedArguments:
    """A copy of arguments in the memory of a device, with their guards around them there, too."""

    def __init__(self, arguments: ArgumentSet, device: Device) -> None:
        self._originals = arguments.guarded
        self._memory = [ndarray.array(each.whole, device) for each in arguments.guarded]
        self.arrays = [
            _between_guards(memory, guarded)
            for memory, guarded in zip(self._memory, arguments.guarded, strict=True)
        ]

    def fetch(self) -> None:
        """Overwrite the arguments, guards included, with what is on the device."""
        for guarded, memory in zip(self._originals, self._memory, strict=True):
            guarded.whole[...] = memory.numpy()


def _between_guards(memory: NDArray, guarded: GuardedArray) -> NDArray:
    held: Any = memory.__tilewright_array__
    shape, dtype = guarded.array.shape, guarded.array.dtype
    if isinstance(held, DeviceMemory):
        inner: Any = DeviceMemory(held.place, shape, dtype, held.address + GUARD_BYTES, held)
    else:
        inner = held[GUARD_BYTES:-GUARD_BYTES].view(dtype).reshape(shape)
    return NDArray(inner, memory.device)


def is_float(array: Array) -> bool:
    """Whether the elements of an array are floats, also of a kind that NumPy does not know."""
    return from_numpy(array.dtype).is_float


def same_bytes(a: Array, b: Array) -> bool:
    """Whether two arrays of bytes are equal, eight at a time."""
    whole = a.size // 8 * 8
    return np.array_equal(a[:whole].view(np.uint64), b[:whole].view(np.uint64)) and np.array_equal(
        a[whole:], b[whole:]
    )

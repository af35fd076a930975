"""Weights back from the layouts of kernels.

A packing function moves elements; where to, shows when it packs their numbers. What computes
something instead cannot be undone so, and is told.
"""

from __future__ import annotations

import numpy as np

from tilewright.errors import GraphError
from tilewright.graph.graph import Array
from tilewright.ir.numpy_bridge import from_numpy
from tilewright.runtime.module import CompiledFunction

# Whole numbers from 0 that a type holds exactly, as powers of two.
_DIGIT_BITS = {
    "float64": 52, "float32": 23, "float16": 11, "bfloat16": 8, "bool": 1, "int8": 7, "uint8": 8,
    "int16": 15, "uint16": 16, "int32": 31, "uint32": 32, "int64": 62, "uint64": 62,
}  # fmt: skip


def unpacked(packer: CompiledFunction, packed: Array, shape: tuple[int, ...]) -> Array:
    """The array that a packing function made something of."""
    numbers = _numbers(packer, packed, shape)
    flat = np.zeros(int(np.prod(shape)), packed.dtype)
    moved = (numbers > 0) & (numbers <= flat.size)  # the rest is padding
    flat[numbers[moved] - 1] = packed[moved]
    array = flat.reshape(shape)
    if not packs_to(packer, array, packed):
        raise GraphError(f"{packer.name} does more than move elements, so it cannot be undone")
    return array


def packs_to(packer: CompiledFunction, array: Array, packed: Array) -> bool:
    """True if a packing function makes just that of an array."""
    again = np.zeros_like(packed)
    packer(array, again)
    return again.tobytes() == packed.tobytes()


def _numbers(packer: CompiledFunction, packed: Array, shape: tuple[int, ...]) -> Array:
    """For each packed element the number of the original one, from 1; 0 for padding."""
    dtype = str(from_numpy(packed.dtype))
    if dtype not in _DIGIT_BITS:
        raise GraphError(f"{packer.name} packs {dtype}, which cannot number elements")
    bits = _DIGIT_BITS[dtype]
    count = int(np.prod(shape))
    original = np.arange(1, count + 1, dtype=np.int64).reshape(shape)
    found = np.zeros(packed.shape, np.int64)
    for shift in range(0, max(1, count.bit_length()), bits):
        digits = np.zeros_like(packed)
        packer((original >> shift & (1 << bits) - 1).astype(packed.dtype), digits)
        with np.errstate(invalid="ignore"):  # of functions that compute
            found |= digits.astype(np.int64) << shift
    return found

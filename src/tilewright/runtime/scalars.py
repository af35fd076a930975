"""Numbers as arguments: from a Python or NumPy scalar to the 8-byte slot of a dtype."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.errors import ArgumentError
from tilewright.ir import DType
from tilewright.ir.dtype import max_value_of, min_value_of
from tilewright.ir.numpy_bridge import to_numpy

_SLOT_BYTES = 8


def scalar_slot(where: str, dtype: str, value: object) -> bytes:
    """The bytes of one number; `where` names the argument in an error."""
    kind = DType(dtype)
    if kind.lanes > 1:
        raise ArgumentError(f"{where}: vectors ({dtype}) cannot be passed as arguments")
    if kind.is_handle:
        return _pointer_slot(where, value)
    if isinstance(value, np.ndarray) and value.ndim:
        raise ArgumentError(
            f"{where}: expected a number of dtype {dtype}, got an array of shape "
            f"{list(value.shape)}"
        )
    return _float_slot(where, kind, value) if kind.is_float else _int_slot(where, kind, value)


def quick_converter(dtype: str) -> Callable[[object], int | None]:
    """A function from the usual Python number to its slot, or to None for a closer look."""
    kind = DType(dtype)
    if kind in _FLOAT_LAYOUTS:
        return _quick_float(*_FLOAT_LAYOUTS[kind])
    if kind.lanes == 1 and (kind.is_integral or kind.is_bool):
        return _quick_integer(int(min_value_of(kind)), int(max_value_of(kind)))
    return lambda value: None


def _quick_integer(low: int, high: int) -> Callable[[object], int | None]:
    # All bits of the type set: the slot of a negative number is its two's complement.
    mask = high - low

    def convert(value: object) -> int | None:
        return value & mask if type(value) is int and low <= value <= high else None

    return convert


# How Python packs a float, and how it reads the same bytes as an integer.
_FLOAT_LAYOUTS = {"float64": ("<d", "<Q"), "float32": ("<f", "<I"), "float16": ("<e", "<H")}


def _quick_float(written: str, read: str) -> Callable[[object], int | None]:
    pack, unpack = struct.Struct(written).pack, struct.Struct(read).unpack

    def convert(value: object) -> int | None:
        if type(value) is not float:
            return None
        try:
            slot: int = unpack(pack(value))[0]
        except OverflowError:
            return None
        return slot

    return convert


def _pointer_slot(where: str, value: Any) -> bytes:
    try:
        address = 0 if value is None else operator.index(value)
    except Exception as error:
        raise ArgumentError(
            f"{where}: expected an address (an integer, or None), got {type(value).__name__}"
        ) from error
    if not 0 <= address < 1 << 64:
        raise ArgumentError(f"{where}: {address} is not an address")
    return struct.pack("<Q", address)


def _int_slot(where: str, kind: DType, value: Any) -> bytes:
    try:
        # NumPy's bool has no __index__; it is a number here, as Python's is.
        number = int(value) if isinstance(value, np.bool_) else operator.index(value)
    except Exception as error:  # whatever the object's own conversion raises
        raise ArgumentError(
            f"{where}: expected an integer of dtype {kind!s}, got {_shown(value)}"
        ) from error
    low, high = int(min_value_of(kind)), int(max_value_of(kind))
    if not low <= number <= high:
        raise ArgumentError(f"{where}: {number} does not fit {kind!s} ({low} to {high})")
    # Compiled code reads a type narrower than a byte as if the rest of the byte were zero.
    return struct.pack("<Q", number & ((1 << kind.bits) - 1))


def _float_slot(where: str, kind: DType, value: Any) -> bytes:
    # float() would also read text.
    if not hasattr(type(value), "__float__") and not hasattr(type(value), "__index__"):
        raise ArgumentError(f"{where}: expected a number of dtype {kind!s}, got {_shown(value)}")
    try:
        number = float(value)
    except Exception as error:
        raise ArgumentError(
            f"{where}: expected a number of dtype {kind!s}, got {_shown(value)}: {error}"
        ) from error
    with np.errstate(all="ignore"):
        stored = np.asarray(number).astype(to_numpy(kind))
    if math.isfinite(number) and not math.isfinite(float(stored)):
        largest = max_value_of(kind)
        raise ArgumentError(f"{where}: {number} does not fit {kind!s} (at most {largest})")
    if math.isinf(number) and not math.isinf(float(stored)):
        raise ArgumentError(f"{where}: {kind!s} has no infinity")
    return stored.tobytes().ljust(_SLOT_BYTES, b"\0")


def _shown(value: object) -> str:
    if value is None:
        return "None"
    kind = type(value).__name__
    return f"{kind} {value!r}" if isinstance(value, float | str) else kind

"""The arrays that callers pass, all seen as NumPy's, and those that they get back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.runtime import dlpack, ndarray
from tilewright.runtime.cpu_device import aligned_memory
from tilewright.runtime.ndarray import NDArray
from tilewright.runtime.tensor_view import Array

# From memory that we allocated to an array of some kind, without a copy.
Wrap: TypeAlias = Callable[[Array], object]


def in_numpy(array: object) -> Any:
    """An array of any kind as one of NumPy that shares its memory.

    What is no array, or is not the CPU's, stays as it is: whoever checks it finds the words.
    """
    if isinstance(array, np.ndarray | np.generic):
        return array
    if isinstance(array, NDArray):
        return array.__tilewright_array__
    try:
        if not hasattr(type(array), "__dlpack__") or dlpack.device_of(array) != "cpu":
            return array
        tensor = dlpack.borrow(array)
        return ndarray.shared_in_numpy(tensor, to_numpy(tensor.dtype))
    except TilewrightError:
        return array


def to_read(array: Any) -> object:
    """The same for an array that is not written; NumPy itself is quick, but may forbid writing."""
    if hasattr(type(array), "__dlpack__") and not isinstance(array, np.ndarray | NDArray):
        with suppress(Exception):  # it knows fewer types than we do, and says less
            if dlpack.device_of(array) == "cpu":
                return np.from_dlpack(array)
    return in_numpy(array)


def contiguous(array: object) -> object:
    """An array that compiled code can take, a copy if it must be."""
    if not isinstance(array, np.ndarray) or (array.flags.c_contiguous and array.flags.aligned):
        return array
    return array.copy(order="C")


def copy_of(array: Array) -> Array:
    """A copy, aligned as what we allocate."""
    made = aligned_memory(array.shape, array.dtype)
    np.copyto(made, array)
    return made


def overlap(a: object, b: object) -> bool:
    """True if two arrays may share memory."""
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.may_share_memory(a, b)


def wrapper_for(example: object) -> Wrap | None:
    """How an array like the example is made; None: it is one of NumPy as it is."""
    if example is None or isinstance(example, np.ndarray):
        return None
    take = None if isinstance(example, NDArray) else _from_dlpack(example)
    if take is None:
        return NDArray
    # NumPy lends quickly, but only types of its own.
    return lambda array: take(array if array.dtype.kind in "biufc" else NDArray(array))


def _from_dlpack(example: Any) -> Callable[[object], object] | None:
    """The function `from_dlpack` of the library that an array is from."""
    if hasattr(type(example), "__array_namespace__"):
        namespace = example.__array_namespace__()
    else:
        namespace = sys.modules.get(type(example).__module__.partition(".")[0])
    found: Callable[[object], object] | None = getattr(namespace, "from_dlpack", None)
    return found

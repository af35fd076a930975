"""An array as compiled code sees it: address, shape, strides, dtype, device."""

from __future__ import annotations

import ctypes
import math
import sys
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias

import numpy as np

from tilewright.errors import IRError
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.runtime import dlpack
from tilewright.runtime.devices import Device
from tilewright.runtime.dlpack import TensorView

Array: TypeAlias = np.ndarray[Any, Any]
ElementType: TypeAlias = np.dtype[Any]

# NumPy's flags as `array.flags.num` has them.
C_CONTIGUOUS: Final = 0x0001
ALIGNED: Final = 0x0100
WRITEABLE: Final = 0x0400


class DeviceMemory:
    """An array in the memory of a device that is not the CPU, row-major and compact."""

    __slots__ = ("address", "dtype", "is_readonly", "key", "owner", "place", "shape")

    def __init__(
        self, place: Device, shape: tuple[int, ...], dtype: ElementType, address: int, owner: Any
    ) -> None:
        self.place = place
        self.shape = shape
        self.dtype = dtype
        self.address = address
        self.owner = owner  # keeps the memory alive
        self.is_readonly = False
        self.key = (shape, str(place))

    @property
    def nbytes(self) -> int:
        """The size of the memory."""
        return math.prod(self.shape) * self.dtype.itemsize

    def view(self) -> TensorView:
        """The array as functions take it."""
        strides = dlpack.row_major_strides(self.shape)
        place, readonly = str(self.place), self.is_readonly
        return TensorView(
            self.address, self.shape, strides, self.dtype.name, place, readonly, owner=self
        )


def view_of(array: Any) -> TensorView | None:
    """How `array` looks, or None if it is not an array."""
    if isinstance(array, np.ndarray):
        return _view_of_numpy(array)
    if isinstance(array, np.generic):
        return None  # a NumPy scalar has no memory of its own to write to
    # The class is asked, since an object may answer to any name.
    if hasattr(type(array), "__tilewright_array__"):
        held = array.__tilewright_array__
        return _view_of_numpy(held) if isinstance(held, np.ndarray) else held.view()
    if hasattr(type(array), "__dlpack__"):
        return borrowed(array) or TensorView(0, (), (), "", dlpack.device_of(array))
    return None


def borrowed(array: Any) -> TensorView | None:
    """The memory of another library's array; None if it is on a device that is not there."""
    where = dlpack.device_of(array)
    if where == "cpu":
        return dlpack.borrow(array)
    name, _, number = where.partition(":")
    place = Device(name, int(number))
    if not place.exist:
        return None
    return dlpack.borrow(array, where, place.api.dlpack_stream(place.device_id))


def _view_of_numpy(array: Array) -> TensorView:
    size = array.itemsize
    whole = size > 0 and all(stride % size == 0 for stride in array.strides)
    return TensorView(
        address_of(array),
        array.shape,
        tuple(stride // size if whole else -1 for stride in array.strides),
        array.dtype.name if array.dtype.isnative else f"byte-swapped {array.dtype.name}",
        readonly=not array.flags.writeable,
        owner=array,
    )


def memory_of_tensor(tensor: Any) -> tuple[object, ElementType | None, int] | None:
    """Key (shape and place), type and address of a plain tensor of PyTorch on a GPU; else None.

    Read without DLPack: capsules take longer than small kernels run. Nobody has to wait: our work
    goes to the current stream of PyTorch.
    """
    torch = sys.modules.get("torch")
    if torch is None or type(tensor) is not torch.Tensor or tensor.layout is not torch.strided:
        return None
    if not tensor.is_cuda or tensor.requires_grad or not tensor.is_contiguous():
        return None
    key = (tensor.shape, _place(tensor.get_device()))
    return key, _numpy_dtype(str(tensor.dtype)), tensor.data_ptr()


@cache
def _place(device_id: int) -> str:
    return f"cuda:{device_id}"


@cache
def _numpy_dtype(name: str) -> ElementType | None:
    try:
        return to_numpy(name.removeprefix("torch."))
    except IRError:
        return None


@lru_cache(maxsize=1)
def data_offset() -> int | None:
    """Where an array object holds the address of its data, or None if it is not where we think.

    The public way, `__array_interface__`, takes longer than a small kernel. NumPy's C interface
    promises that the address is the first field behind Python's object header.
    """
    probe = np.zeros(3)
    offset = object.__basicsize__
    found = ctypes.c_void_p.from_address(id(probe) + offset).value
    return offset if found == probe.__array_interface__["data"][0] else None


def address_of(array: Array) -> int:
    """The address of the first element."""
    offset = data_offset()
    if offset is None:
        return int(array.__array_interface__["data"][0])
    return ctypes.c_void_p.from_address(id(array) + offset).value or 0

"""What an array looks like to compiled code: address, shape, strides, dtype, device."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np


@dataclass(frozen=True)
class TensorView:
    """An array that somebody else owns."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    dtype: str
    device: str = "cpu"
    readonly: bool = False


def view_of(array: Any) -> TensorView | None:
    """How `array` looks, or None if it is not an array."""
    if isinstance(array, np.ndarray):
        return _view_of_numpy(array)
    if hasattr(array, "__dlpack__"):
        return _view_of_dlpack(array)
    return None


def _view_of_numpy(array: np.ndarray[Any, Any]) -> TensorView:
    size = array.itemsize or 1
    return TensorView(
        array.__array_interface__["data"][0],
        array.shape,
        tuple(stride // size for stride in array.strides),
        array.dtype.name,
        readonly=not array.flags.writeable,
    )


class _DLTensor(ctypes.Structure):
    _fields_: ClassVar = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}
_SPECIAL_CODES = {6: "bool", 10: "float8_e4m3fn", 12: "float8_e5m2"}
_DEVICES = {1: "cpu", 2: "cuda", 3: "cpu", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm"}

_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _view_of_dlpack(array: Any) -> TensorView:
    """Read the fields of a DLPack capsule; the caller keeps `array`, so the data stays alive."""
    device_type, device_id = array.__dlpack_device__()
    device = _DEVICES.get(int(device_type), f"device type {int(device_type)}")
    if device != "cpu":
        return TensorView(0, (), (), "", f"{device}:{device_id}")
    capsule = array.__dlpack__()
    tensor = _DLTensor.from_address(_get_pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim))
    else:
        step, reverse = 1, []
        for extent in reversed(shape):
            reverse.append(step)
            step *= extent
        strides = tuple(reversed(reverse))
    return TensorView(
        (tensor.data or 0) + tensor.byte_offset, shape, strides, _dlpack_dtype(tensor)
    )


def _dlpack_dtype(tensor: _DLTensor) -> str:
    special = _SPECIAL_CODES.get(tensor.code)
    if special is not None:
        return special
    return f"{_CODES.get(tensor.code, f'dlpack code {tensor.code} ')}{tensor.bits}"

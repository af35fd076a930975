"""The DLPack exchange format: reading other libraries' capsules, and making our own.

A capsule is borrowed, not consumed: it stays as it is, and whoever holds it keeps the data alive.
Its own destructor then gives the memory back, so nothing can be freed twice.

The capsules that we make free themselves in native code. A consumer may drop the array from any
thread, and even while Python shuts down, when a callback written in Python could no longer run.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from operator import mul
from typing import Any, ClassVar

from tilewright.codegen.host.native import capsule_functions
from tilewright.errors import ArgumentError
from tilewright.ir.dlpack_bridge import from_dlpack, to_dlpack
from tilewright.runtime.devices import device_name

VERSION = (1, 0)
_READ_ONLY, SUBBYTE_PADDED = 1, 4
_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"


_Numbers = ctypes.POINTER(ctypes.c_int64)


class DLTensor(ctypes.Structure):
    """An array as DLPack describes it; compiled code hands arrays to packed functions this way."""

    _fields_: ClassVar = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", _Numbers),
        ("strides", _Numbers),
        ("byte_offset", ctypes.c_uint64),
    ]


class DLManagedTensor(ctypes.Structure):
    """What a capsule called `dltensor` points to."""

    _fields_: ClassVar = [
        ("tensor", DLTensor),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class DLManagedTensorVersioned(ctypes.Structure):
    """What a capsule called `dltensor_versioned` points to."""

    _fields_: ClassVar = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


@dataclass(frozen=True)
class TensorView:
    """An array that somebody else owns."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements; (-1,) * ndim where they are not whole elements
    dtype: str
    device: str = "cpu"
    readonly: bool = False
    owner: object = None  # keeps the memory alive


def row_major_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a compact array, in elements."""
    return tuple(accumulate(reversed(shape), mul, initial=1))[-2::-1]


# --- reading ------------------------------------------------------------------------------------


def _python_function(name: str, *types: Any) -> Any:
    """A function of Python's C interface, by the types of its result and of what it takes."""
    return ctypes.PYFUNCTYPE(*types)((name, ctypes.pythonapi))


_get_pointer = _python_function(
    "PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p
)
_is_valid = _python_function("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)


def device_of(array: Any) -> str:
    """Where an array says it is, e.g. "cuda:0"; "cpu" for all memory that the CPU can read."""
    try:
        device_type, device_id = array.__dlpack_device__()
        name = device_name(int(device_type))
    except Exception as error:
        raise ArgumentError(
            f"{type(array).__name__} does not say where its memory is: {error}"
        ) from error
    return name if name == "cpu" else f"{name}:{device_id}"


def borrow(array: object, device: str = "cpu", stream: int | None = None) -> TensorView:
    """The memory behind an array of another library, to be used on a stream of its device.

    What the library itself raises comes out as an ArgumentError that repeats it.
    """
    lender: Any = array
    try:
        options = {} if stream is None else {"stream": stream}
        try:
            capsule = lender.__dlpack__(max_version=VERSION, **options)
        except TypeError:  # libraries from before DLPack 1.0 take no version
            capsule = lender.__dlpack__(**options)
    except Exception as error:
        raise ArgumentError(f"{type(array).__name__} does not share its memory: {error}") from error
    if _is_valid(capsule, _VERSIONED):
        managed = DLManagedTensorVersioned.from_address(_get_pointer(capsule, _VERSIONED))
        if managed.major > VERSION[0]:
            raise ArgumentError(
                f"{type(array).__name__} speaks DLPack {managed.major}.{managed.minor}, "
                f"expected {VERSION[0]}.x"
            )
        return view_of_tensor(managed.tensor, managed.flags, capsule, device)
    if _is_valid(capsule, _PLAIN):
        plain = DLManagedTensor.from_address(_get_pointer(capsule, _PLAIN))
        return view_of_tensor(plain.tensor, 0, capsule, device)
    raise ArgumentError(
        f"__dlpack__() of {type(array).__name__} returned {type(capsule).__name__}, expected a "
        "fresh 'dltensor' capsule"
    )


def view_of_tensor(tensor: DLTensor, flags: int, owner: object, device: str = "cpu") -> TensorView:
    """The array that DLPack describes, which `owner` keeps alive."""
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else row_major_strides(shape)
    dtype = from_dlpack(tensor.code, tensor.bits, tensor.lanes)
    if tensor.bits < 8 and not flags & SUBBYTE_PADDED:
        dtype = f"packed {dtype}"
    address = (tensor.data or 0) + tensor.byte_offset
    readonly = bool(flags & _READ_ONLY)
    return TensorView(address, shape, strides, dtype, device, readonly, owner)


# --- making -------------------------------------------------------------------------------------

_MANAGER_AT = {
    _PLAIN: DLManagedTensor.manager.offset,
    _VERSIONED: DLManagedTensorVersioned.manager.offset,
}


@lru_cache(maxsize=1)
def _native() -> dict[str, int]:
    return capsule_functions({name.decode(): at for name, at in _MANAGER_AT.items()})


_raw_malloc = _python_function("PyMem_RawMalloc", ctypes.c_void_p, ctypes.c_size_t)
_increment = _python_function("Py_IncRef", None, ctypes.py_object)
_new_capsule = _python_function("PyCapsule_New", ctypes.py_object, *[ctypes.c_void_p] * 3)


def lend(tensor: TensorView, device: tuple[int, int], versioned: bool) -> object:
    """A capsule for compact memory on a device, given in DLPack's numbers."""
    shape, owner = tensor.shape, tensor.owner
    kind = (_VERSIONED if versioned else _PLAIN).decode()
    layout = DLManagedTensorVersioned if versioned else DLManagedTensor
    head = ctypes.sizeof(layout)
    block = _raw_malloc(head + 16 * max(1, len(shape)))
    if not block:
        raise MemoryError("no memory for a DLPack capsule")
    extents = (ctypes.c_int64 * len(shape)).from_address(block + head)
    strides = (ctypes.c_int64 * len(shape)).from_address(block + head + 8 * len(shape))
    extents[:], strides[:] = [*shape], [*row_major_strides(shape)]
    managed = layout.from_address(block)
    managed.manager = id(owner)
    managed.deleter = _native()[f"tw_dlpack_delete_{kind}"]
    code, bits, lanes = to_dlpack(tensor.dtype)
    if isinstance(managed, DLManagedTensorVersioned):
        managed.major, managed.minor = VERSION
        managed.flags = _READ_ONLY * tensor.readonly | SUBBYTE_PADDED * (bits < 8)
    layout_of = (ctypes.cast(each, _Numbers) for each in (extents, strides))
    managed.tensor = DLTensor(
        tensor.address, *device, len(shape), code, bits, lanes, *layout_of, byte_offset=0
    )
    _increment(owner)
    # A capsule keeps the pointer to its name, which therefore lies in our native code.
    return _new_capsule(
        block, _native()[f"tw_dlpack_name_{kind}"], _native()[f"tw_dlpack_drop_{kind}"]
    )

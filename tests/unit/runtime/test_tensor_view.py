"""Arrays of other libraries, seen through NumPy and DLPack."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import pytest

from tilewright.errors import ArgumentError
from tilewright.lowering.host_abi import ArgumentSpec
from tilewright.runtime.arguments import ArgumentBinder
from tilewright.runtime.ndarray import array
from tilewright.runtime.tensor_view import data_offset, view_of

_new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))


class _Tensor(ctypes.Structure):
    _fields_: ClassVar = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Plain(ctypes.Structure):
    _fields_: ClassVar = [("t", _Tensor), ("manager", ctypes.c_void_p), ("free", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_: ClassVar = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("t", _Tensor),
    ]


class Producer:
    """Another library's array, written from the text of the DLPack standard."""

    def __init__(
        self,
        memory: np.ndarray[Any, Any],
        kind: tuple[int, int] = (2, 32),
        *,
        shape: tuple[int, ...] | None = None,
        strides: tuple[int, ...] | None = None,
        device: tuple[int, int] = (1, 0),
        offset: int = 0,
        lanes: int = 1,
    ) -> None:
        self.memory, self.device = memory, device
        extents = memory.shape if shape is None else shape
        self.shape = (ctypes.c_int64 * max(1, len(extents)))(*extents)
        steps = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
        self.strides = steps
        self.tensor = _Tensor(
            memory.ctypes.data,
            *device,
            len(extents),
            *kind,
            lanes,
            ctypes.addressof(self.shape),
            None if steps is None else ctypes.addressof(steps),
            offset,
        )
        self.managed: Any = None

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self) -> object:
        self.managed = _Plain(self.tensor, None, None)
        return _new_capsule(ctypes.addressof(self.managed), b"dltensor", None)


class VersionedProducer(Producer):
    version = (1, 0)
    flags = 0

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None) -> object:
        if max_version is None:
            return super().__dlpack__()
        self.managed = _Versioned(*self.version, None, None, self.flags, self.tensor)
        return _new_capsule(ctypes.addressof(self.managed), b"dltensor_versioned", None)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_numpy_keeps_the_address_where_we_read_it() -> None:
    values = floats(3)
    offset = data_offset()
    assert offset is not None
    assert ctypes.c_void_p.from_address(id(values) + offset).value == values.ctypes.data


@pytest.mark.parametrize("make", [Producer, VersionedProducer])
def test_a_dlpack_array_is_seen_as_it_is(make: type[Producer]) -> None:
    memory = floats(2, 6)
    view = view_of(make(memory, shape=(2, 3), strides=(6, 2), offset=4))
    assert view is not None
    assert view.address == memory.ctypes.data + 4
    assert (view.shape, view.strides, view.dtype) == ((2, 3), (6, 2), "float32")
    assert (view.device, view.readonly) == ("cpu", False)
    plain = view_of(make(memory))
    assert plain is not None
    assert plain.strides == (6, 1)


KINDS = {
    "int8": (0, 8), "uint16": (1, 16), "int64": (0, 64), "float16": (2, 16), "float64": (2, 64),
    "bfloat16": (4, 16), "bool": (6, 8), "float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8),
    "packed int4": (0, 4), "DLPack type 5 of 64 bits": (5, 64), "DLPack type 17 of 8 bits": (17, 8),
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "kind"), KINDS.items())
def test_dtypes(dtype: str, kind: tuple[int, int]) -> None:
    view = view_of(Producer(np.zeros(8, np.uint8), kind, shape=(1,)))
    assert view is not None
    assert view.dtype == dtype


def test_small_integers_with_a_byte_each_and_vectors() -> None:
    class Padded(VersionedProducer):
        flags = 4

    padded = view_of(Padded(np.zeros(8, np.uint8), (0, 4)))
    assert padded is not None
    assert padded.dtype == "int4"
    vector = view_of(Producer(np.zeros(8, np.float32), shape=(2,), lanes=4))
    assert vector is not None
    assert vector.dtype == "float32x4"


def test_the_read_only_flag() -> None:
    class Frozen(VersionedProducer):
        flags = 1

    view = view_of(Frozen(floats(3)))
    assert view is not None
    assert view.readonly


def bind_one(value: Any, access: Any = "rw") -> bytes:
    spec = ArgumentSpec("A", "buffer", "float32", (2, 3), access=access)
    return ArgumentBinder("f", [spec], True).bind((value,))[0]


def test_a_dlpack_array_is_passed_without_a_copy() -> None:
    memory = floats(2, 3)
    assert bind_one(Producer(memory)) == memory.ctypes.data.to_bytes(8, "little")


class _Refuses(Producer):
    def __dlpack__(self) -> object:
        raise RuntimeError("it requires a gradient")


class _Lost(Producer):
    def __dlpack_device__(self) -> tuple[int, int]:
        raise ValueError("no idea")


class _Nonsense(Producer):
    def __dlpack__(self) -> object:
        return "capsule"


class _FromTheFuture(VersionedProducer):
    version = (2, 3)


class _Frozen(VersionedProducer):
    flags = 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Producer(floats(2, 3), device=(2, 1)), "the array is on cuda:1, expected it on cpu"),
        (
            Producer(floats(2, 3), device=(99, 0)),
            "the array is on device type 99:0, expected it on cpu",
        ),
        (_Refuses(floats(2, 3)), "_Refuses does not share its memory: it requires a gradient"),
        (
            _Nonsense(floats(2, 3)),
            "__dlpack__() of _Nonsense returned str, expected a fresh 'dltensor' capsule",
        ),
        (_Lost(floats(2, 3)), "_Lost does not say where its memory is: no idea"),
        (_FromTheFuture(floats(2, 3)), "_FromTheFuture speaks DLPack 2.3, expected 1.x"),
        (_Frozen(floats(2, 3)), "the array is read-only but the function writes it"),
        (Producer(floats(2, 3), (2, 64)), "dtype is float64, expected float32"),
        (
            Producer(floats(2, 3), strides=(1, 2)),
            "strides are [1, 2] elements, expected a C-contiguous array; pass "
            "numpy.ascontiguousarray(x), or declare the buffer with strides",
        ),
    ],
)
def test_what_cannot_be_passed(value: Any, expected: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        bind_one(value)
    assert str(caught.value) == f"f(): argument 0 (A): {expected}"


def test_a_null_pointer_is_refused() -> None:
    producer = Producer(floats(2, 3))
    producer.tensor.data = None
    with pytest.raises(ArgumentError, match=r"argument 0 \(A\): the data pointer is null"):
        bind_one(producer)


def test_host_memory_of_an_accelerator_counts_as_cpu() -> None:
    assert bind_one(Producer(floats(2, 3), device=(3, 0)))


def test_objects_that_make_their_memory_when_asked_keep_it_during_the_call() -> None:
    alive: list[weakref.ref[Any]] = []

    class Lazy:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self, **options: Any) -> object:
            made = array(floats(2, 3))
            alive.append(weakref.ref(made))
            return made.__dlpack__(**options)

    spec = ArgumentSpec("A", "buffer", "float32", (2, 3), access="rw")
    bound = ArgumentBinder("f", [spec], True).bind((Lazy(),))
    gc.collect()
    assert alive[0]() is not None
    del bound
    gc.collect()
    assert alive[0]() is None


def test_bfloat16_of_another_library() -> None:
    memory = np.array([1.5, -2.0], ml_dtypes.bfloat16).view(np.uint16)
    view = view_of(Producer(memory, (4, 16)))
    assert view is not None
    assert (view.dtype, view.address) == ("bfloat16", memory.ctypes.data)

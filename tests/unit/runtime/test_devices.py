"""Devices own memory, copies and timing: arrays on one that is not the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tilewright.codegen.artifact import Kernel
from tilewright.errors import ArgumentError
from tilewright.lowering import ArgumentSpec
from tilewright.runtime import NDArray, cpu, cuda, devices, ndarray as nd
from tilewright.runtime.arguments import ArgumentBinder
from tilewright.runtime.devices import DEVICE_APIS, Device, DeviceApi, Timing
from tilewright.runtime.dlpack import TensorView
from tilewright.runtime.tensor_view import address_of

NAME = "hexagon"


class FarMemory:
    """Memory that NumPy cannot see."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.hidden = np.empty(shape, dtype)
        self.shape, self.dtype = shape, dtype

    def view(self) -> TensorView:
        """How functions of the device find it."""
        strides = tuple(step // self.dtype.itemsize for step in self.hidden.strides)
        return TensorView(address_of(self.hidden), self.shape, strides, self.dtype.name, NAME)


class FarApi(DeviceApi):
    """A device with memory of its own, which counts what it is asked for."""

    def __init__(self) -> None:
        self.waited = 0

    def exists(self, device_id: int) -> bool:
        return device_id == 0

    def allocate(self, device_id: int, shape: tuple[int, ...], dtype: Any) -> Any:
        return FarMemory(shape, dtype)

    def copy_in(self, memory: Any, values: Any) -> None:
        memory.hidden[...] = values

    def copy_out(self, memory: Any) -> Any:
        return memory.hidden.copy()

    def synchronize(self, device_id: int) -> None:
        self.waited += 1

    def time(self, kernel: Kernel, slots: bytes, number: int) -> Timing:
        raise NotImplementedError

    def evict(self, memory: Sequence[tuple[int, int]]) -> None:
        raise NotImplementedError


@pytest.fixture
def far() -> Iterator[Device]:
    DEVICE_APIS.register(NAME)(FarApi)
    devices._api_of.cache_clear()
    yield Device(NAME)
    del DEVICE_APIS._members[NAME]
    devices._api_of.cache_clear()


def test_arrays_are_made_and_copied(far: Device) -> None:
    assert far.exist
    array = nd.array([[1, 2, 3], [4, 5, 6]], far, "int32")
    assert (array.device, array.shape, array.dtype, array.ndim) == (far, (2, 3), "int32", 2)
    assert (array.size, array.nbytes, len(array)) == (6, 24, 2)
    assert array.numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    array[1, 2] = 9
    assert array[1].tolist() == [4, 5, 9]
    here = array.copyto(cpu())
    assert here.device == cpu()
    assert here.numpy().tolist() == [[1, 2, 3], [4, 5, 9]]
    assert nd.zeros((2,), "float32", far).copyfrom(np.ones(2, "float32")).numpy().tolist() == [1, 1]
    assert array.__dlpack_device__() == (16, 0)
    with pytest.raises(BufferError, match="the array is on hexagon:0; only arrays on the CPU"):
        array.__dlpack__()


def test_waiting(far: Device) -> None:
    far.sync()
    api = far.api
    assert isinstance(api, FarApi)
    assert api.waited == 1


def test_functions_take_arrays_of_their_device(far: Device) -> None:
    spec = ArgumentSpec("A", "buffer", "int32", (4,), access="r")
    here, there = nd.zeros((4,), "int32"), nd.zeros((4,), "int32", far)
    binder = ArgumentBinder("f", [spec], no_alias=True, device=NAME)
    slots, _ = binder.bind([there])
    assert int.from_bytes(slots, "little") == address_of(there.__tilewright_array__.hidden)
    with pytest.raises(ArgumentError, match="the array is on cpu, expected it on hexagon"):
        binder.bind([here])
    with pytest.raises(ArgumentError, match="the array is on hexagon, expected it on cpu"):
        ArgumentBinder("f", [spec], no_alias=True).bind([there])


def test_devices_that_are_not_there() -> None:
    metal = Device("metal")
    assert not metal.exist
    metal.sync()
    with pytest.raises(ArgumentError, match=r"^nothing here can use metal:0; use cpu\(0\)$"):
        _ = metal.api
    with pytest.raises(ArgumentError, match=r"^empty: cannot place an array on metal:0; use cpu"):
        nd.empty((4,), "int32", metal)


def test_python_functions_are_timed_on_the_cpu() -> None:
    calls: list[bytes] = []

    def kernel(slots: bytes) -> int:
        calls.append(slots)
        return 3 if len(calls) == 4 else 0

    assert cpu().api.time(kernel, b"slots", 2).status == 0
    assert cpu().api.time(kernel, b"slots", 9).status == 3
    assert calls == [b"slots"] * 4


def test_the_cpu_array_is_numpys() -> None:
    array = NDArray(np.arange(3))
    assert array.device == cpu()
    assert np.shares_memory(np.asarray(array), array.__tilewright_array__)


@pytest.mark.parametrize("number", [-1, 1.5, "x", None])
def test_numbers_that_no_device_has(number: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        cuda(number)
    assert str(caught.value) == f"cuda({number!r}): expected the number of a device, from 0 on"

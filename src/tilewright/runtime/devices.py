"""Devices: the owners of memory, of copies, of timing and of synchronisation.

`Device` is a plain value, which may also name what this machine does not have. What a device can do
is a `DeviceApi` that is found under its name: `cpu_device.py` is the one for the CPU.
"""

from __future__ import annotations

import functools
import importlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tilewright.codegen.artifact import Kernel
from tilewright.errors import ArgumentError
from tilewright.support.plugins import Family
from tilewright.support.suggestions import did_you_mean

if TYPE_CHECKING:
    from tilewright.runtime.dlpack import TensorView

# DLPack's numbers of device types.
CPU, CUDA = 1, 2
_NAMES = {
    **{CPU: "cpu", CUDA: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 14: "oneapi"},
    **{15: "webgpu", 16: "hexagon"},
    **dict.fromkeys((3, 11, 13), "cpu"),  # the CPU can read such memory as it is
}


def device_name(device_type: int) -> str:
    """The name behind a DLPack device type."""
    return _NAMES.get(device_type, f"device type {device_type}")


class Timing(NamedTuple):
    """How many nanoseconds some runs took, or the status of the one that failed."""

    status: int
    nanoseconds: int


class DeviceApi(ABC):
    """What the devices of one name can do; memory is a NumPy array, or a `DeviceMemory`."""

    alignment: ClassVar[int] = 1  # bytes that addresses of arguments are a multiple of

    @abstractmethod
    def exists(self, device_id: int) -> bool:
        """Whether this machine has the device."""

    def why_missing(self, device_id: int) -> str:
        """The reason why a device does not exist, if it is known."""
        return ""

    @abstractmethod
    def allocate(self, device_id: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """Memory with undefined contents, for compact elements of a NumPy dtype."""

    @abstractmethod
    def copy_in(self, memory: Any, values: Any) -> None:
        """Overwrite memory with a NumPy array of its shape."""

    def copy_within(self, memory: Any, source: Any) -> bool:
        """Overwrite memory with other memory of the same device and type, if that can be done."""
        return False

    @abstractmethod
    def copy_out(self, memory: Any) -> Any:
        """A copy of memory as a NumPy array."""

    def adopt(self, tensor: TensorView, dtype: Any) -> Any:
        """Memory of the device that another library owns; None if its arrays cannot be used."""
        return None

    def lend(self, memory: Any, stream: Any) -> TensorView | None:
        """Memory that another library will use on a stream of its own; None if that cannot be."""
        return None

    def dlpack_stream(self, device_id: int) -> int | None:
        """The stream, in DLPack's numbers, on which arrays of other libraries will be used."""
        return None

    @abstractmethod
    def synchronize(self, device_id: int) -> None:
        """Wait for all work on the device."""

    @abstractmethod
    def time(self, kernel: Kernel, slots: bytes, number: int) -> Timing:
        """Run a kernel `number` times in a row, or until it fails."""

    @abstractmethod
    def evict(self, memory: Sequence[tuple[int, int]]) -> None:
        """Push memory, given as (address, bytes), out of all caches."""


DEVICE_APIS: Family[DeviceApi] = Family("device", "tilewright.device")
_OURS = {"cpu": "tilewright.runtime.cpu_device", "cuda": "tilewright.runtime.cuda_device"}


@functools.cache
def _api_of(name: str) -> DeviceApi | None:
    if name in _OURS:
        importlib.import_module(_OURS[name])
    return DEVICE_APIS.create(name) if name in DEVICE_APIS else None


@dataclass(frozen=True)
class Device:
    """A device such as `cpu:0`."""

    name: str
    device_id: int = 0

    def __post_init__(self) -> None:
        given: Any = self.device_id
        if not hasattr(given, "__index__") or given < 0:
            raise ArgumentError(
                f"{self.name}({given!r}): expected the number of a device, from 0 on"
            )

    @property
    def device_type(self) -> int:
        """DLPack's number of the device type."""
        return next(number for number, name in _NAMES.items() if name == self.name)

    @property
    def exist(self) -> bool:
        """Whether the device is there; the CPU always is."""
        api = _api_of(self.name)
        return api is not None and api.exists(self.device_id)

    @property
    def api(self) -> DeviceApi:
        """What the device can do."""
        api = _api_of(self.name)
        if api is None:
            raise ArgumentError(f"nothing here can use {self}; use cpu(0)")
        return api

    @property
    def why_missing(self) -> str:
        """The reason why the device is not there; empty if it is, or if nothing can be said."""
        api = _api_of(self.name)
        return "" if api is None or api.exists(self.device_id) else api.why_missing(self.device_id)

    def sync(self) -> None:
        """Wait for all work on the device; a function on the CPU has finished when it returns."""
        if self.exist:
            self.api.synchronize(self.device_id)

    def __str__(self) -> str:
        return f"{self.name}:{self.device_id}"


def cpu(device_id: int = 0) -> Device:
    """The CPU. There is one, whatever its number of cores."""
    if device_id != 0:
        raise ArgumentError(f"cpu({device_id}): there is one CPU device, cpu(0)")
    return Device("cpu", 0)


def cuda(device_id: int = 0) -> Device:
    """A GPU of NVIDIA; it may be named where there is none, then `exist` is False."""
    return Device("cuda", device_id)


hexagon, metal, opencl, rocm, vulkan = (
    functools.partial(Device, name) for name in ("hexagon", "metal", "opencl", "rocm", "vulkan")
)


def device(name: str, device_id: int = 0) -> Device:
    """A device by name: `device("cpu")`, `device("cpu:0")`, `device("cuda", 1)`."""
    kind, _, number = name.split(" ")[0].partition(":")
    if number.isdigit():
        device_id = int(number)
    if kind in ("cpu", "llvm", "c"):
        return cpu(device_id)
    if kind in DEVICE_APIS:
        return Device(kind, device_id)
    if kind not in _NAMES.values():
        raise ArgumentError(
            f"device({name!r}): no such device{did_you_mean(kind, _NAMES.values())}"
        )
    return Device(kind, device_id)

"""Devices: where an array lies and where a function runs."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from tilewright.errors import ArgumentError
from tilewright.support.suggestions import did_you_mean

# DLPack's numbers of device types. Memory of the last three can be read by the CPU as it is.
CPU, CUDA = 1, 2
_NAMES = {
    1: "cpu",
    2: "cuda",
    4: "opencl",
    7: "vulkan",
    8: "metal",
    10: "rocm",
    14: "oneapi",
    15: "webgpu",
    16: "hexagon",
    3: "cpu",
    11: "cpu",
    13: "cpu",
}


def device_name(device_type: int) -> str:
    """The name behind a DLPack device type."""
    return _NAMES.get(device_type, f"device type {device_type}")


@dataclass(frozen=True)
class Device:
    """A device such as `cpu:0`."""

    name: str
    device_id: int = 0

    @property
    def device_type(self) -> int:
        """DLPack's number of the device type."""
        return next(number for number, name in _NAMES.items() if name == self.name)

    @property
    def exist(self) -> bool:
        """Whether the device is there; the CPU always is."""
        return self.name == "cpu" and self.device_id == 0

    def sync(self) -> None:
        """Wait for all work on the device; a function on the CPU has finished when it returns."""

    def __str__(self) -> str:
        return f"{self.name}:{self.device_id}"


def cpu(device_id: int = 0) -> Device:
    """The CPU. There is one, whatever its number of cores."""
    if device_id != 0:
        raise ArgumentError(f"cpu({device_id}): there is one CPU device, cpu(0)")
    return Device("cpu", 0)


def cuda(device_id: int = 0) -> Device:
    """A GPU of NVIDIA; it may be named, but `exist` is False: no array can lie there yet."""
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
    if kind not in _NAMES.values():
        raise ArgumentError(
            f"device({name!r}): no such device{did_you_mean(kind, _NAMES.values())}"
        )
    return Device(kind, device_id)

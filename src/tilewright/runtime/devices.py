"""Devices: where an array lies and where a function runs."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import ArgumentError

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


def device(name: str, device_id: int = 0) -> Device:
    """A device by name: `device("cpu")`, `device("cpu:0")`."""
    kind, _, number = name.partition(":")
    if number.isdigit():
        device_id = int(number)
    if kind not in ("cpu", "llvm"):
        raise ArgumentError(f"device({name!r}): arrays live on 'cpu' only so far")
    return cpu(device_id)

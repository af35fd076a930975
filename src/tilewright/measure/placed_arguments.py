"""Arguments in the memory of a device, with their guards around them there, too."""

from __future__ import annotations

from typing import Any

from tilewright.measure.arguments import GUARD_BYTES, ArgumentSet, GuardedArray
from tilewright.runtime import ndarray
from tilewright.runtime.devices import Device
from tilewright.runtime.ndarray import NDArray
from tilewright.runtime.tensor_view import DeviceMemory


class PlacedArguments:
    """A copy of arguments on a device; `fetch` brings back what became of them."""

    def __init__(self, arguments: ArgumentSet, device: Device) -> None:
        self._originals = arguments.guarded
        self._memory = [ndarray.array(each.whole, device) for each in arguments.guarded]
        self.arrays = [
            _between_guards(memory, guarded)
            for memory, guarded in zip(self._memory, arguments.guarded, strict=True)
        ]

    def fetch(self) -> None:
        """Overwrite the arguments, guards included, with what is on the device."""
        for guarded, memory in zip(self._originals, self._memory, strict=True):
            guarded.whole[...] = memory.numpy()


def _between_guards(memory: NDArray, guarded: GuardedArray) -> NDArray:
    held: Any = memory.__tilewright_array__
    shape, dtype = guarded.array.shape, guarded.array.dtype
    if isinstance(held, DeviceMemory):
        inner: Any = DeviceMemory(held.place, shape, dtype, held.address + GUARD_BYTES, held)
    else:
        inner = held[GUARD_BYTES:-GUARD_BYTES].view(dtype).reshape(shape)
    return NDArray(inner, memory.device)

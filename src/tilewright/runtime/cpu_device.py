"""The CPU as a device: memory is NumPy's, and native code times what runs."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.codegen.artifact import Kernel, SimulatedKernel
from tilewright.codegen.host import native
from tilewright.codegen.host.shared_library import PACKED_TYPE
from tilewright.native.platform import platform_of
from tilewright.native.timer_ir import evicts_lines
from tilewright.runtime.devices import DEVICE_APIS, DeviceApi, Timing
from tilewright.runtime.tensor_view import Array, ElementType, address_of
from tilewright.target.isa import host

ALIGNMENT = 64  # bytes: a cache line, and the widest vector register
_READ_THROUGH_BYTES = 256 << 20


def aligned_memory(shape: tuple[int, ...], dtype: ElementType, *, zeros: bool = False) -> Array:
    """An array with undefined elements, or zeros, aligned to a cache line, as NumPy's own."""
    make = np.zeros if zeros else np.empty  # zeros of a large array cost nothing until it is used
    raw = make(math.prod(shape) * dtype.itemsize + ALIGNMENT, np.uint8)
    made: Array = np.ndarray(shape, dtype, raw, -address_of(raw) % ALIGNMENT)
    return made


@dataclass(frozen=True)
class _NativeTimer:
    repeat: Callable[..., int] | None  # None where there is no clock
    evict: Callable[..., None]
    evicts_lines: bool


@lru_cache(maxsize=1)
def _native() -> _NativeTimer:
    addresses = native.symbols()
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    repeat = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, pointer, number, pointer)
    evict = ctypes.CFUNCTYPE(None, pointer, number)(addresses["tw_evict"])
    timer = repeat(addresses["tw_repeat"]) if "tw_repeat" in addresses else None
    return _NativeTimer(timer, evict, evicts_lines(platform_of(host().triple)))


@DEVICE_APIS.register("cpu")
class CpuApi(DeviceApi):
    """The one CPU of this machine."""

    def exists(self, device_id: int) -> bool:
        """There is one CPU, whatever its number of cores."""
        return device_id == 0

    def allocate(self, device_id: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """A NumPy array that is aligned to a cache line."""
        return aligned_memory(shape, dtype)

    def copy_in(self, memory: Any, values: Any) -> None:
        """Assign."""
        memory[...] = values

    def copy_out(self, memory: Any) -> Any:
        """A copy."""
        return np.array(memory)

    def synchronize(self, device_id: int) -> None:
        """A function on the CPU has finished when it returns."""

    def time(self, kernel: Kernel, slots: bytes, number: int) -> Timing:
        """Time machine code from native code, so that Python takes no part in what is measured.

        A simulated machine has a clock of its own, which does not depend on numbers: nothing runs.
        """
        if isinstance(kernel, SimulatedKernel):
            return Timing(0, kernel.nanoseconds * number)
        repeat = _native().repeat if isinstance(kernel, PACKED_TYPE) else None
        if repeat is None:
            return _timed_by_python(kernel, slots, number)
        elapsed = ctypes.c_int64(0)
        status = repeat(kernel, slots, number, ctypes.addressof(elapsed))
        return Timing(int(status), elapsed.value)

    def evict(self, memory: Sequence[tuple[int, int]]) -> None:
        """Evict cache lines where that can be done, else read so much that nothing else stays."""
        native_timer = _native()
        if native_timer.evicts_lines:
            for address, size in memory:
                if size > 0:
                    ahead = address % ALIGNMENT
                    native_timer.evict(address - ahead, size + ahead)
            return
        buffer = ctypes.create_string_buffer(_READ_THROUGH_BYTES)
        native_timer.evict(ctypes.addressof(buffer), _READ_THROUGH_BYTES)


def _timed_by_python(kernel: Kernel, slots: bytes, number: int) -> Timing:
    status, start = 0, time.perf_counter_ns()
    for _ in range(number):
        status = kernel(slots)
        if status:
            break
    return Timing(status, time.perf_counter_ns() - start)

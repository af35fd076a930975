"""Launches of one kernel: its arguments laid out for the driver, its limits, its failures."""

from __future__ import annotations

import ctypes
import math
import struct
import threading
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tilewright.errors import DeviceError
from tilewright.native.cuda_driver import CudaDriver, DriverCallError

# Blocks in x, y and z, then threads of a block in x, y and z.
Shape: TypeAlias = Sequence[int]

# Parameters that are more than a slot: size, alignment, and their format in `struct`.
_LARGE_PARAMETERS = {"tensormap": (128, 64, "128s")}
_KEPT_CONFIGS = 64  # of launches of a kernel


class _ArgumentMemory:
    """Memory that the driver reads arguments from, as a launch wants it."""

    def __init__(self, dtypes: Sequence[str]) -> None:
        layout, offsets, end = "<", [], 0
        for dtype in dtypes:
            slot = (8, 8, "q" if dtype.startswith("int") else "Q")
            size, alignment, code = _LARGE_PARAMETERS.get(dtype, slot)
            padding = -end % alignment
            layout += f"{padding}x{code}"
            offsets.append(end + padding)
            end += padding + size
        alignment = max(alignment for _, alignment, _ in _LARGE_PARAMETERS.values())
        self._memory = ctypes.create_string_buffer(end + alignment)
        self._first = -ctypes.addressof(self._memory) % alignment
        base = ctypes.addressof(self._memory) + self._first
        self._pointers = (ctypes.c_void_p * len(offsets))(*(base + offset for offset in offsets))
        self._layout = struct.Struct(layout)
        self.address = ctypes.addressof(self._pointers)

    def fill(self, arguments: Sequence[int | bytes]) -> None:
        self._layout.pack_into(self._memory, self._first, *arguments)


class Launcher:
    """Launches one kernel of a loaded library."""

    def __init__(self, described: Mapping[str, Any], driver: CudaDriver, library: Any) -> None:
        self._name = str(described["symbol"])
        self._driver = driver
        self._kernel = driver("cuLibraryGetKernel", library, self._name.encode())
        self._start = driver.module.cuLaunchKernel
        self._memory = _ArgumentMemory(described["params"])
        self._is_early = bool(described["early"])
        self._lock = threading.Lock()
        self.is_in_a_graph = False  # of somebody else, who may run it at any time
        self._allowed_shared: dict[int, int] = {}  # bytes, by device
        self._configs: dict[tuple[int, ...], Any] = {}  # by shape and bytes of shared memory

    def launch(
        self, device_id: int, shape: Shape, shared: int, arguments: Sequence[int | bytes]
    ) -> None:
        """Send a launch to the current stream; `shared` is in bytes."""
        stream = self._driver.stream(device_id)
        if stream and not self.is_in_a_graph:
            self.is_in_a_graph = self._driver.is_recorded(stream)
        try:
            with self._lock:
                if shared > self._allowed_shared.get(device_id, 0):
                    self._allow_shared(device_id, shared)
                self._memory.fill(arguments)
                self._send(shape, shared, stream)
        except DriverCallError as error:
            raise self._failure(device_id, shape, shared, error) from error

    def _send(self, shape: Shape, shared: int, stream: int) -> None:
        driver, address = self._driver, self._memory.address
        if not self._is_early:
            driver.check(self._start(self._kernel, *shape, shared, stream, address, 0))
            return
        known = (*shape, shared)
        config = self._configs.get(known)
        if config is None:
            if len(self._configs) >= _KEPT_CONFIGS:
                self._configs.clear()
            config = self._configs[known] = self._config(shape, shared)
        config.hStream = stream
        driver("cuLaunchKernelEx", config, self._kernel, address, 0)

    def _config(self, shape: Shape, shared: int) -> Any:
        """A launch that may start early; making one takes longer than the launch."""
        driver, module = self._driver, self._driver.module
        config = module.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = shape[:3]
        config.blockDimX, config.blockDimY, config.blockDimZ = shape[3:]
        config.sharedMemBytes = shared
        early = module.CUlaunchAttribute()
        name = "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION"
        early.id = driver.constant("CUlaunchAttributeID", name)
        value = module.CUlaunchAttributeValue()
        value.programmaticStreamSerializationAllowed = 1
        early.value = value
        config.attrs, config.numAttrs = [early], 1
        return config

    def _allow_shared(self, device_id: int, shared: int) -> None:
        """Kernels get more than 48 KB of shared memory only if they say so."""
        name = "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
        which = self._driver.constant("CUfunction_attribute", name)
        device = self._driver.device(device_id)
        self._driver("cuKernelSetAttribute", which, shared, self._kernel, device)
        self._allowed_shared[device_id] = shared

    def _failure(
        self, device_id: int, shape: Shape, shared: int, error: DriverCallError
    ) -> DeviceError:
        grid, block = (" × ".join(map(str, part)) for part in (shape[:3], shape[3:]))
        limit = "" if error.is_lost else self._limit(device_id, shape, shared)
        tried = f"{self._name} cannot be launched with {grid} blocks of {block} threads"
        return DeviceError(f"{tried}: {limit or error}", is_lost=error.is_lost)

    def _limit(self, device_id: int, shape: Shape, shared: int) -> str:
        """The limit of the GPU that a launch exceeds; empty if there is none."""
        driver, threads = self._driver, math.prod(shape[3:])
        wanted = (
            (threads, "threads", "MAX_THREADS_PER_BLOCK"),
            (
                shared + self._attribute(device_id, "SHARED_SIZE_BYTES"),
                "bytes of shared memory",
                "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
            ),
            (
                threads * self._attribute(device_id, "NUM_REGS"),
                "registers",
                "MAX_REGISTERS_PER_BLOCK",
            ),
        )
        for amount, what, name in wanted:
            limit = driver.attribute(device_id, name)
            if amount > limit:
                return f"a block has {amount} {what}, {driver.name(device_id)} allows {limit}"
        return ""

    def _attribute(self, device_id: int, name: str) -> int:
        which = self._driver.constant("CUfunction_attribute", f"CU_FUNC_ATTRIBUTE_{name}")
        device = self._driver.device(device_id)
        return int(self._driver("cuKernelGetAttribute", which, self._kernel, device))

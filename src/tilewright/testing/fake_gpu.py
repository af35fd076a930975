"""A driver of a GPU that does not exist: its memory is the host's, its kernels are Python's.

It has the form of `cuda.bindings.driver`, as far as we call that, so that everything above the
driver can be tested on machines without a GPU, and so can the messages of drivers that fail.
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeAlias

from tilewright.native import cuda_driver, cuda_memory
from tilewright.target import gpu

# Takes a shape (blocks, threads) and the addresses of the arguments.
PythonKernel: TypeAlias = Callable[[tuple[int, ...], list[int]], None]

_ALIGNMENT = 256
_NOT_IN_GRAPHS = ("cuMemAlloc", "cuMemFree", "cuCtxSynchronize", "cuStreamSynchronize")

_H200 = {
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "MULTIPROCESSOR_COUNT": 132,
    "WARP_SIZE": 32,
    "MAX_THREADS_PER_BLOCK": 1024,
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": 32,
    "MAX_REGISTERS_PER_BLOCK": 65536,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536,
    "MAX_SHARED_MEMORY_PER_BLOCK": 49152,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 233472,
    "L2_CACHE_SIZE": 62914560,
    "CLOCK_RATE": 1980000,
    "MEMORY_CLOCK_RATE": 3201000,
    "GLOBAL_MEMORY_BUS_WIDTH": 6144,
}


class FakeStatus(enum.IntEnum):
    """The errors that tests let functions fail with."""

    SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900


class _Names:
    """An enumeration whose members are their own names."""

    def __getattr__(self, name: str) -> str:
        return name


@dataclass
class FakeDriver:
    """The module `cuda.bindings.driver`."""

    device_count: int = 1
    version: int = 13000
    name: str = "NVIDIA H200"
    other_names: dict[int, str] = field(default_factory=dict)  # of GPUs that are not called so
    memory_bytes: int = 1 << 30
    attributes: dict[str, int] = field(default_factory=lambda: dict(_H200))
    kernel_attributes: dict[str, int] = field(
        default_factory=lambda: {"NUM_REGS": 32, "SHARED_SIZE_BYTES": 0}
    )
    kernels: dict[str, PythonKernel] = field(default_factory=dict)
    parameter_count: int = 0  # of all kernels
    # Launchers fill their memory anew for each launch; in graphs of several launches of a kernel,
    # all with `parameter_count` slots of 8 bytes, each has to keep its own.
    keeps_arguments: bool = False
    failures: dict[str, FakeStatus] = field(default_factory=dict)  # by function
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    maps: list[Any] = field(default_factory=list)  # tensor maps, each of other bytes
    _memory: dict[int, Any] = field(default_factory=dict)
    is_recorded: bool = False  # by somebody else
    _captured: list[Callable[[], object]] | None = None
    _is_relaxed: bool = False
    _clock_ms: float = 0.0

    CUdevice_attribute = _Names()
    CUpointer_attribute = _Names()
    CUfunction_attribute = _Names()
    CUstream_flags = _Names()
    CUstreamCaptureMode = _Names()
    CUlaunchAttributeID = _Names()
    CUtensorMapDataType = CUtensorMapInterleave = CUtensorMapSwizzle = _Names()
    CUtensorMapL2promotion = CUtensorMapFloatOOBfill = _Names()

    CUlaunchConfig = CUlaunchAttribute = CUlaunchAttributeValue = SimpleNamespace

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("cuuint"):
            return int
        if not name.startswith("cu"):
            return super().__getattribute__(name)

        def call(*args: Any) -> tuple[Any, ...]:
            self.calls.append((name, *args))
            is_strict = self._captured is not None and not self._is_relaxed
            if is_strict and name in _NOT_IN_GRAPHS:
                return (FakeStatus.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, None)
            if name in self.failures:
                return (self.failures[name], None)
            method = vars(type(self)).get(name)
            result = None if method is None else method(self, *args)
            return (FakeStatus.SUCCESS,) if result is None else (FakeStatus.SUCCESS, *result)

        return call

    def cuGetErrorName(self, status: FakeStatus) -> tuple[bytes]:
        return (status.name.encode(),)

    def cuGetErrorString(self, status: FakeStatus) -> tuple[bytes]:
        return (status.name.removeprefix("CUDA_ERROR_").replace("_", " ").lower().encode(),)

    def cuDriverGetVersion(self) -> tuple[int]:
        return (self.version,)

    def cuDeviceGetCount(self) -> tuple[int]:
        return (self.device_count,)

    def cuDeviceGet(self, number: int) -> tuple[int]:
        return (number,)

    def cuDeviceGetName(self, length: int, device: int) -> tuple[bytes]:
        name = self.other_names.get(device, self.name)
        return (name.encode().ljust(length, b"\0"),)

    def cuDeviceGetAttribute(self, name: str, device: int) -> tuple[int]:
        return (self.attributes[name.removeprefix("CU_DEVICE_ATTRIBUTE_")],)

    def cuDeviceTotalMem(self, device: int) -> tuple[int]:
        return (self.memory_bytes,)

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[str]:
        return (f"context {device}",)

    def cuPointerGetAttribute(self, name: str, address: int) -> tuple[int]:
        return (0,)

    def cuMemGetInfo(self) -> tuple[int, int]:
        used = sum(len(memory) for memory in self._memory.values())
        return (self.memory_bytes - used, self.memory_bytes)

    def cuMemAlloc(self, size: int) -> tuple[int]:
        memory = ctypes.create_string_buffer(size + _ALIGNMENT)
        address = -(-ctypes.addressof(memory) // _ALIGNMENT) * _ALIGNMENT
        self._memory[address] = memory
        return (address,)

    def cuMemFree(self, address: int) -> None:
        del self._memory[address]

    def cuMemcpyHtoDAsync(self, target: int, source: int, size: int, stream: int) -> None:
        ctypes.memmove(target, source, size)

    cuMemcpyDtoHAsync = cuMemcpyHtoDAsync

    def cuMemcpyDtoDAsync(self, target: int, source: int, size: int, stream: int) -> None:
        if self._captured is None:
            ctypes.memmove(target, source, size)
        else:
            self._captured.append(lambda: ctypes.memmove(target, source, size))

    def cuMemsetD32Async(self, address: int, value: int, count: int, stream: int) -> None:
        ctypes.memset(address, value, 4 * count)

    def cuLibraryLoadData(self, *args: Any) -> tuple[str]:
        return ("library",)

    def cuLibraryGetKernel(self, library: str, name: bytes) -> tuple[str]:
        return (name.decode(),)

    def cuKernelGetAttribute(self, name: str, kernel: str, device: int) -> tuple[int]:
        return (self.kernel_attributes[name.removeprefix("CU_FUNC_ATTRIBUTE_")],)

    def cuTensorMapEncodeTiled(self, *args: Any) -> tuple[Any]:
        self.maps.append((ctypes.c_uint8 * 128)(len(self.maps) + 1))
        return (SimpleNamespace(getPtr=lambda: ctypes.addressof(self.maps[-1])),)

    cuTensorMapEncodeIm2col = cuTensorMapEncodeTiled

    def cuLaunchKernel(self, kernel: str, *args: Any) -> None:
        shape, first = args[:6], args[8]
        arguments = [*(ctypes.c_uint64 * self.parameter_count).from_address(first)]
        if self._captured is not None:
            kept = [_kept(address) for address in arguments] if self.keeps_arguments else []
            pointers = [*map(ctypes.addressof, kept)] or arguments
            self._captured.append(lambda: self._run(kernel, shape, pointers, kept))
        else:
            self._run(kernel, shape, arguments, [])

    def cuLaunchKernelEx(self, config: Any, kernel: str, pointers: int, extra: int) -> None:
        shape = [
            getattr(config, f"{part}Dim{axis}") for part in ("grid", "block") for axis in "XYZ"
        ]
        self.cuLaunchKernel(kernel, *shape, config.sharedMemBytes, config.hStream, pointers, extra)

    def _run(
        self, kernel: str, shape: tuple[int, ...], arguments: list[int], kept: list[Any]
    ) -> None:
        self._clock_ms += 0.5
        self.kernels[kernel](shape, arguments)

    def cuStreamCreate(self, flags: str) -> tuple[int]:
        return (77,)

    def cuStreamIsCapturing(self, stream: int) -> tuple[int]:
        return (int(self.is_recorded),)

    def cuThreadExchangeStreamCaptureMode(self, mode: str) -> tuple[str]:
        self._is_relaxed = mode == "CU_STREAM_CAPTURE_MODE_RELAXED"
        return ("the mode before",)

    def cuStreamBeginCapture(self, stream: int, mode: str) -> None:
        self._captured = []

    def cuStreamEndCapture(self, stream: int) -> tuple[Any]:
        captured, self._captured = self._captured, None
        return (captured,)

    def cuGraphInstantiate(self, graph: Any, flags: int) -> tuple[Any]:
        return (graph,)

    def cuGraphLaunch(self, graph: Any, stream: int) -> None:
        for work in graph:
            work()

    def cuEventCreate(self, flags: int) -> tuple[list[float]]:
        return ([],)

    def cuEventRecord(self, event: list[float], stream: int) -> None:
        event.append(self._clock_ms)

    def cuEventElapsedTime(self, before: list[float], after: list[float]) -> tuple[float]:
        return (after[-1] - before[-1],)


def _kept(address: int) -> Any:
    return ctypes.c_uint64.from_buffer_copy((ctypes.c_char * 8).from_address(address))


class NoDriver:
    """The bindings on a machine without a driver."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("libcuda.so.1 cannot be found")


@contextmanager
def installed(fake: object) -> Iterator[None]:
    """Let everything use a driver that is none; an exception stands for one that is missing."""

    real = cuda_driver.load_bindings

    def load(name: str) -> object:
        if name != "driver":
            return real(name)
        if isinstance(fake, Exception):
            raise fake
        return fake

    cuda_driver.load_bindings = load
    _forget()
    try:
        yield
    finally:
        cuda_driver.load_bindings = real
        _forget()


def _forget() -> None:
    cuda_driver.cuda_driver.cache_clear()
    cuda_memory.memory_pool.cache_clear()
    gpu.detected_gpu.cache_clear()
    gpu.detected_attributes.cache_clear()

"""NVIDIA's GPUs as devices: memory from a pool, copies, events and graphs that time kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from tilewright.codegen.artifact import Kernel
from tilewright.codegen.cuda.loading import PlannedFunction
from tilewright.errors import ArgumentError
from tilewright.native.cuda_driver import CudaDriver, cuda_driver, why_missing
from tilewright.native.cuda_memory import CudaBlock, memory_pool
from tilewright.runtime.cuda_graph import CudaGraph
from tilewright.runtime.devices import DEVICE_APIS, Device, DeviceApi, Timing, device
from tilewright.runtime.dlpack import TensorView
from tilewright.runtime.tensor_view import DeviceMemory

# A graph of more launches takes long to make, and says nothing more.
_LAUNCHES_PER_GRAPH = 200
_LEAST_FLUSH_BYTES = 128 << 20
_LEGACY_STREAM, _NO_STREAM = 1, -1  # of DLPack; the first is the driver's number, too
_VECTOR_BYTES = 16  # loads and stores of kernels, and the engine that copies tensors


@DEVICE_APIS.register("cuda")
class CudaApi(DeviceApi):
    """The GPUs of this machine."""

    alignment: ClassVar[int] = _VECTOR_BYTES

    def exists(self, device_id: int) -> bool:
        """Whether driver and GPU are there."""
        return not why_missing(device_id)

    def why_missing(self, device_id: int) -> str:
        """The part that is missing: package, driver or GPU."""
        return why_missing(device_id)

    def allocate(self, device_id: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """Memory from the pool."""
        block = memory_pool(device_id).allocate(math.prod(shape) * dtype.itemsize)
        return DeviceMemory(Device("cuda", device_id), shape, dtype, block.address, block)

    def copy_in(self, memory: Any, values: Any) -> None:
        """Copy to the GPU, and wait for it."""
        source = np.ascontiguousarray(np.broadcast_to(values, memory.shape), memory.dtype)
        self._copy(memory, "cuMemcpyHtoDAsync", memory.address, source.ctypes.data)

    def copy_within(self, memory: Any, source: Any) -> bool:
        """Copy on the GPU, without waiting for it."""
        driver, device_id = cuda_driver(), memory.place.device_id
        driver.activate(device_id)
        if memory.nbytes:
            stream = driver.stream(device_id)
            driver("cuMemcpyDtoDAsync", memory.address, source.address, memory.nbytes, stream)
        return True

    def copy_out(self, memory: Any) -> Any:
        """Wait for all work on the current stream, and copy its result."""
        made = np.empty(memory.shape, memory.dtype)
        self._copy(memory, "cuMemcpyDtoHAsync", made.ctypes.data, memory.address)
        return made

    def _copy(self, memory: DeviceMemory, how: str, target: int, source: int) -> None:
        driver, device_id = cuda_driver(), memory.place.device_id
        driver.activate(device_id)
        stream = driver.stream(device_id)
        if memory.nbytes:
            driver(how, target, source, memory.nbytes, stream)
        driver("cuStreamSynchronize", stream)

    def adopt(self, tensor: TensorView, dtype: Any) -> Any:
        """Memory of PyTorch, CuPy, JAX and others."""
        place = device(tensor.device)
        memory = DeviceMemory(place, tensor.shape, dtype, tensor.address, tensor)
        memory.is_readonly = tensor.readonly
        return memory

    def lend(self, memory: Any, stream: Any) -> TensorView:
        """Let the consumer's stream wait for ours; -1 means that it does not want that."""
        if isinstance(memory.owner, CudaBlock):
            memory.owner.is_lent = True
        driver, device_id = cuda_driver(), memory.place.device_id
        ours, theirs = driver.stream(device_id) or _LEGACY_STREAM, stream or _LEGACY_STREAM
        if theirs not in (ours, _NO_STREAM):
            driver.activate(device_id)
            event = driver("cuEventCreate", 0)
            driver("cuEventRecord", event, ours)
            driver("cuStreamWaitEvent", theirs, event, 0)
            driver("cuEventDestroy", event)
        view: TensorView = memory.view()
        return view

    def dlpack_stream(self, device_id: int) -> int:
        """The current stream."""
        return cuda_driver().stream(device_id) or _LEGACY_STREAM

    def synchronize(self, device_id: int) -> None:
        """Wait for all work on the GPU; a kernel that failed is reported here."""
        driver = cuda_driver()
        driver.activate(device_id)
        driver("cuCtxSynchronize")

    def time(self, kernel: Kernel, slots: bytes, number: int) -> Timing:
        """Time between events on the GPU; several runs are replayed as a graph.

        The runs are replayed twice, one row behind the other, and the second row is timed: before
        the first, the GPU waits for work. So a function that changes its own inputs runs more often
        than `number` says, unless that is 1.
        """
        if not isinstance(kernel, PlannedFunction):
            raise ArgumentError("only functions that were compiled for a GPU are timed on one")
        driver, device_id = cuda_driver(), kernel.device_of(slots)
        driver.activate(device_id)
        if number == 1:
            statuses: list[int] = []
            took = elapsed(driver, device_id, lambda: statuses.append(kernel(slots)))
            return Timing(statuses[0], took)
        launches = min(number, _LAUNCHES_PER_GRAPH)
        # A first run loads the kernels, and says whether the arguments are good.
        if status := kernel(slots):
            return Timing(status, 0)
        graph = CudaGraph(driver, device_id, lambda: kernel(slots), launches)
        return Timing(0, _replayed(driver, device_id, graph, number, launches))

    def evict(self, memory: Sequence[tuple[int, int]]) -> None:
        """Write so much that nothing else stays in the cache of the GPU."""
        driver = cuda_driver()
        device_id = driver.device_of(next((address for address, _ in memory if address), 0))
        driver.activate(device_id)
        size = max(2 * driver.attribute(device_id, "L2_CACHE_SIZE"), _LEAST_FLUSH_BYTES)
        block = memory_pool(device_id).allocate(size)
        driver("cuMemsetD32Async", block.address, 0, size // 4, driver.stream(device_id))


def _replayed(
    driver: CudaDriver, device_id: int, graph: CudaGraph, number: int, launches: int
) -> int:
    """Nanoseconds of `number` runs, from a graph of some."""
    stream, rows = driver.stream(device_id), -(-number // launches)
    graph.replay(stream)

    def replay() -> None:
        for _ in range(rows):
            graph.replay(stream)

    return elapsed(driver, device_id, replay) * number // (rows * launches)


def elapsed(driver: CudaDriver, device_id: int, run: Callable[[], object]) -> int:
    """Nanoseconds that the GPU works on what a function sends to the current stream."""
    stream, before, after = driver.stream(device_id), driver("cuEventCreate", 0), None
    try:
        after = driver("cuEventCreate", 0)
        driver("cuEventRecord", before, stream)
        run()
        driver("cuEventRecord", after, stream)
        driver("cuEventSynchronize", after)
        return int(driver("cuEventElapsedTime", before, after) * 1e6)
    finally:
        for event in (before, after):
            if event is not None:
                driver("cuEventDestroy", event)

"""Memory of GPUs: blocks that go back to a pool when nobody holds them any more."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections import defaultdict
from collections.abc import Callable

from tilewright.errors import DeviceError
from tilewright.native.cuda_driver import OUT_OF_MEMORY, CudaDriver, DriverCallError, cuda_driver

_SMALL, _SMALL_STEP, _LARGE_STEP = 1 << 20, 1 << 9, 1 << 21
# The part of a GPU's memory that unused blocks may hold; others want to use it, too.
_KEPT_PART = 8
_UNKNOWN_STREAM = -1


class CudaBlock:
    """Memory of a GPU, as long as this object lives.

    Work on the stream that is current when the object goes may still use the memory: it is given
    out again to work on the same stream, or when the GPU has finished all work.
    """

    def __init__(self, pool: MemoryPool, address: int, size: int) -> None:
        self.address = address
        self._size = size
        self._pool: MemoryPool | None = pool
        self.is_lent = False  # to somebody who may use it on streams that we do not know

    def __del__(self, is_exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        pool, self._pool = getattr(self, "_pool", None), None
        if pool is not None and not is_exiting():
            pool.give_back(self.address, self._size, self.is_lent)


class MemoryPool:
    """The memory of one GPU that is not in use, by size."""

    def __init__(self, driver: CudaDriver, device_id: int) -> None:
        self._driver = driver
        self._device_id = device_id
        # A block may go back while another is taken, in one thread: when garbage is collected.
        self._lock = threading.RLock()
        self._unused: dict[int, list[tuple[int, int]]] = defaultdict(list)  # address, stream
        self._unused_bytes = 0
        driver.activate(device_id)
        self._limit = driver("cuMemGetInfo")[1] // _KEPT_PART

    def allocate(self, size: int) -> CudaBlock:
        """Memory for `size` bytes, aligned to 256 bytes."""
        own: MemoryPool | None = self._driver.own_pool
        if own is not None and own is not self:
            return own.allocate(size)
        rounded = _rounded(size)
        if self._driver.is_recorded(self._driver.stream(self._device_id)):
            return self._for_a_graph(rounded)
        with self._lock:
            if self._unused[rounded]:
                address, stream = self._unused[rounded].pop()
                self._unused_bytes -= rounded
                if stream != self._driver.stream(self._device_id):
                    self._driver.activate(self._device_id)
                    self._driver("cuCtxSynchronize")
                return CudaBlock(self, address, rounded)
        with self._driver.while_recorded() if own is self else contextlib.nullcontext():
            return CudaBlock(self, self._new(rounded), rounded)

    def _for_a_graph(self, size: int) -> CudaBlock:
        """Memory that is used whenever a graph of others runs, so nobody else may ever have it."""
        with self._driver.while_recorded():
            block = CudaBlock(self, self._new(size), size)
        self._driver.used_by_graphs.append(block)
        return block

    def _new(self, size: int) -> int:
        self._driver.activate(self._device_id)
        try:
            return int(self._driver("cuMemAlloc", size))
        except DriverCallError as error:
            if error.code != OUT_OF_MEMORY:
                raise
        self.trim()
        try:
            return int(self._driver("cuMemAlloc", size))
        except DriverCallError as error:
            if error.code != OUT_OF_MEMORY:
                raise
            free, total = self._driver("cuMemGetInfo")
            raise DeviceError(
                f"cuda:{self._device_id} has {_gigabytes(free)} of its {_gigabytes(total)} free, "
                f"expected {_gigabytes(size)}"
            ) from error

    def give_back(self, address: int, size: int, is_lent: bool) -> None:
        """Keep memory for the next who asks for that size."""
        stream = _UNKNOWN_STREAM if is_lent else self._driver.stream(self._device_id)
        with self._lock:
            self._unused[size].append((address, stream))
            self._unused_bytes += size
            if self._unused_bytes > self._limit:
                self.trim()

    def trim(self) -> None:
        """Free all memory that is not in use."""
        with self._lock:
            blocks = [address for found in self._unused.values() for address, _ in found]
            self._unused.clear()
            self._unused_bytes = 0
        self._driver.activate(self._device_id)
        for address in blocks:
            self._driver("cuMemFree", address)


@functools.cache
def memory_pool(device_id: int) -> MemoryPool:
    """The pool of a GPU."""
    return MemoryPool(cuda_driver(), device_id)


def _rounded(size: int) -> int:
    step = _SMALL_STEP if size <= _SMALL else _LARGE_STEP
    return max(-(-size // step), 1) * step


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.3g} GB" if size >= 10**7 else f"{size / 1e6:.3g} MB"

"""CUDA graphs: launches that are recorded once and replayed with next to no cost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tilewright.native.cuda_driver import CudaDriver
from tilewright.native.cuda_memory import MemoryPool


class CudaGraph:
    """Launches of a function, ready to be replayed; memory that they take lives with it."""

    def __init__(
        self, driver: CudaDriver, device_id: int, launch: Callable[[], object], number: int = 1
    ) -> None:
        self._driver = driver
        driver.activate(device_id)
        self._pool = MemoryPool(driver, device_id)  # launches use its memory at every replay
        # The default stream cannot be captured.
        flags = driver.constant("CUstream_flags", "CU_STREAM_NON_BLOCKING")
        stream = driver("cuStreamCreate", flags)
        try:
            with driver.using(int(stream)), driver.taking_from(self._pool):
                graph = _captured(driver, stream, launch, number)
        finally:
            driver("cuStreamDestroy", stream)
        try:
            self._executable = driver("cuGraphInstantiate", graph, 0)
        finally:
            driver("cuGraphDestroy", graph)

    def replay(self, stream: int) -> None:
        """Send all launches to a stream."""
        self._driver("cuGraphLaunch", self._executable, stream)

    def __del__(self, is_exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "_executable", None) is not None and not is_exiting():
            self._driver("cuGraphExecDestroy", self._executable)
            self._pool.trim()


def _captured(driver: CudaDriver, stream: Any, launch: Callable[[], object], number: int) -> Any:
    mode = driver.constant("CUstreamCaptureMode", "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL")
    driver("cuStreamBeginCapture", stream, mode)
    try:
        for _ in range(number):
            launch()
    except BaseException:
        driver.module.cuStreamEndCapture(stream)
        raise
    return driver("cuStreamEndCapture", stream)

"""NVIDIA's driver: its functions with their results checked, and the GPUs of this machine.

The driver is called through the package `cuda.bindings`, which is loaded when a GPU is first asked
for. Machines without a GPU, and those without that package, get a `DeviceError` that says so.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilewright.errors import DeviceError

INSTALL = "`pip install 'tilewright[cuda]'` installs it"
OLDEST_DRIVER = 12000  # the first with kernels that need no context

OUT_OF_MEMORY = 2
# After one of these the process can do nothing more with the GPU; a new process can.
_LOST = frozenset({226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 999})


class DriverCallError(DeviceError):
    """A function of the driver that failed, with the driver's number of the error."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message, is_lost=code in _LOST)
        self.code = code


class CudaDriver:
    """The functions of the driver."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self._local = threading.local()
        self._contexts: dict[int, Any] = {}
        # Machine code that nobody holds; unloading waits for the GPU, so the next load does it.
        self.unused_libraries: list[Any] = []
        # What graphs of others use: nobody tells when those graphs go.
        self.used_by_graphs: list[Any] = []
        try:
            self("cuInit", 0)
            version = int(self("cuDriverGetVersion"))
            self.device_count = int(self("cuDeviceGetCount"))
        except DriverCallError as error:
            raise DeviceError(f"the NVIDIA driver does not start: {error}") from error
        except DeviceError:
            raise
        except Exception as error:  # the bindings find no driver
            raise DeviceError(
                "no NVIDIA driver was found; install one that supports CUDA "
                f"{_version_text(OLDEST_DRIVER)} or later"
            ) from error
        if version < OLDEST_DRIVER:
            raise DeviceError(
                f"the NVIDIA driver supports CUDA {_version_text(version)}, expected "
                f"{_version_text(OLDEST_DRIVER)} or later; update the driver"
            )
        self.version = _version_text(version)
        self._is_forked = False
        os.register_at_fork(after_in_child=self._forbid)

    def _forbid(self) -> None:
        self._is_forked = True

    def __call__(self, name: str, *args: Any) -> Any:
        """Call a function; its result, or a tuple of its results."""
        return self.check(getattr(self.module, name)(*args))

    def check(self, answer: tuple[Any, ...]) -> Any:
        """The results in the answer of one of the driver's functions."""
        status, *results = answer
        if status:
            raise DriverCallError(self._described(status), int(status))
        return results[0] if len(results) == 1 else tuple(results)

    def _described(self, status: Any) -> str:
        code = int(status)
        name = _text(self.module.cuGetErrorName(status), f"error {code}")
        meaning = _text(self.module.cuGetErrorString(status), "")
        lost = "; this process cannot use the GPU any more, start it again"
        return f"{name}{f' ({meaning})' if meaning else ''}{lost if code in _LOST else ''}"

    def constant(self, kind: str, name: str) -> Any:
        """A member of one of the driver's enumerations."""
        return getattr(getattr(self.module, kind), name)

    def attribute(self, device_id: int, name: str) -> int:
        """A property of a GPU, by its name in the driver."""
        which = self.constant("CUdevice_attribute", f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self("cuDeviceGetAttribute", which, self.device(device_id)))

    def name(self, device_id: int) -> str:
        """The name of a GPU, such as "NVIDIA H200"."""
        name: bytes = self("cuDeviceGetName", 256, self.device(device_id))
        return name.split(b"\0")[0].decode(errors="replace")

    def arch(self, device_id: int) -> str:
        """The architecture of a GPU, such as "sm_90"."""
        names = ("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR")
        major, minor = (self.attribute(device_id, name) for name in names)
        return f"sm_{major}{minor}"

    def why_missing(self, device_id: int) -> str:
        """The reason why there is no GPU of that number; empty if there is one."""
        count = self.device_count
        if self._is_forked:
            return "this process is a fork of one that used a GPU; start it anew instead (spawn)"
        if 0 <= device_id < count:
            return ""
        if count == 0:
            return "the NVIDIA driver finds no GPU"
        numbers = "cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        return f"there is no cuda:{device_id}; this machine has {numbers}"

    def device(self, device_id: int) -> Any:
        """The driver's handle of a GPU."""
        reason = self.why_missing(device_id)
        if reason:
            raise DeviceError(reason)
        return self("cuDeviceGet", device_id)

    def activate(self, device_id: int) -> None:
        """Make a GPU the one that this thread works with."""
        known = getattr(self._local, "device_id", None)
        if known != device_id or self.device_count > 1 or self._is_forked:
            self.device(device_id)  # checks it
            if device_id not in self._contexts:
                context = self("cuDevicePrimaryCtxRetain", self.device(device_id))
                self._contexts[device_id] = context
            self("cuCtxSetCurrent", self._contexts[device_id])
            self._local.device_id = device_id

    def device_of(self, address: int) -> int:
        """The number of the GPU whose memory an address lies in."""
        if self.device_count == 1 or not address:
            return 0
        which = self.constant("CUpointer_attribute", "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL")
        return int(self("cuPointerGetAttribute", which, address))

    def stream(self, device_id: int) -> int:
        """The stream that work goes to: one chosen by `using`, PyTorch's current, or the default.

        PyTorch's is taken so that its own work and ours follow one another.
        """
        chosen: int | None = getattr(self._local, "stream", None)
        if chosen is not None:
            return chosen
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
            return int(torch.cuda.current_stream(device_id).cuda_stream)
        return 0

    def is_recorded(self, stream: int) -> bool:
        """Whether somebody else makes a graph of the work that goes to a stream."""
        if not stream or getattr(self._local, "stream", None) == stream:
            return False
        return bool(int(self("cuStreamIsCapturing", stream)))

    @contextmanager
    def while_recorded(self) -> Iterator[None]:
        """Do what has no part in the graph that others make of the work of this thread."""
        modes = "CUstreamCaptureMode"
        relaxed = self.constant(modes, "CU_STREAM_CAPTURE_MODE_RELAXED")
        before = self("cuThreadExchangeStreamCaptureMode", relaxed)
        try:
            yield
        finally:
            self("cuThreadExchangeStreamCaptureMode", before)

    @contextmanager
    def using(self, stream: int) -> Iterator[None]:
        """Send the work of this thread to a stream."""
        before = getattr(self._local, "stream", None)
        self._local.stream = stream
        try:
            yield
        finally:
            self._local.stream = before

    @contextmanager
    def taking_from(self, pool: Any) -> Iterator[None]:
        """Let this thread take memory from a pool of its own, which decides how long it lives."""
        before = self.own_pool
        self._local.pool = pool
        try:
            yield
        finally:
            self._local.pool = before

    @property
    def own_pool(self) -> Any:
        """The pool that `taking_from` chose, or None."""
        return getattr(self._local, "pool", None)


def _version_text(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _text(answer: tuple[Any, Any], default: str) -> str:
    status, text = answer
    return default if int(status) or not text else text.decode(errors="replace")


def load_bindings(name: str) -> Any:
    """A part of `cuda.bindings`, such as "driver"."""
    try:
        return importlib.import_module(f"cuda.bindings.{name}")
    except ImportError as error:
        raise DeviceError(f"the package cuda-bindings is missing; {INSTALL}") from error


@functools.cache
def cuda_driver() -> CudaDriver:
    """The driver of this machine."""
    return CudaDriver(load_bindings("driver"))


def why_missing(device_id: int) -> str:
    """The reason why this process cannot use a GPU; empty if it can."""
    try:
        return cuda_driver().why_missing(device_id)
    except DeviceError as error:
        return str(error)

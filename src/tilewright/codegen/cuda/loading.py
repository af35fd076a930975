"""Kernels in memory of GPUs, and functions that launch them as their plan says."""

from __future__ import annotations

import json
import operator
import re
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tilewright.codegen.artifact import Artifact, Kernel
from tilewright.codegen.cuda.launch_plan import DYNAMIC_SHARED, Plan, Steps, evaluator
from tilewright.codegen.cuda.launcher import Launcher
from tilewright.codegen.cuda.tensor_maps import MapMaker
from tilewright.errors import DeviceError
from tilewright.native.cuda_driver import CudaDriver, DriverCallError, cuda_driver
from tilewright.native.cuda_memory import memory_pool

Values: TypeAlias = dict[str, Any]  # integers, and tensor maps as bytes
# Carries a step out; 0, or the number of the message that it failed with.
Action: TypeAlias = Callable[[Values], int]

_TAGS = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z")
_SIGNED = {"int8": "b7x", "int16": "h6x", "int32": "i4x", "int64": "q"}


class CudaLibrary:
    """Machine code for GPUs; it is loaded when a function is first asked for."""

    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact
        self._plan: Plan = json.loads(artifact.meta["plan"])
        self._handle: Any = None
        self._unused: list[Any] = []
        self._launchers: list[Launcher] = []

    def kernel(self, name: str, /) -> Kernel:
        """A function of the plan."""
        try:
            driver = cuda_driver()
            driver.activate(0)
            handle = self._loaded(driver)
        except DeviceError as error:
            message = f"{name}() cannot run: {error}"
            raise DeviceError(message, is_lost=error.is_lost) from error
        launchers = {
            kernel: Launcher(described, driver, handle)
            for kernel, described in self._plan["kernels"].items()
        }
        self._launchers += launchers.values()
        return PlannedFunction(name, self._plan, driver, launchers)

    def _loaded(self, driver: CudaDriver) -> Any:
        if self._handle is None:
            reason = why_wrong_gpu(self._artifact.meta["arch"], driver)
            if reason:
                raise DeviceError(f"{reason}; build it for target='cuda' on this machine")
            self._unused = driver.unused_libraries
            _unload_unused(driver)
            image = self._artifact.data
            try:
                self._handle = driver("cuLibraryLoadData", image, None, None, 0, None, None, 0)
            except DriverCallError as error:
                raise DeviceError(
                    f"the driver, which supports CUDA {driver.version}, does not load machine code "
                    f"of NVRTC {self._artifact.meta['compiler']}: {error}; update the driver",
                    is_lost=error.is_lost,
                ) from error
        return self._handle

    def __del__(self, is_exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "_handle", None) is None or is_exiting():
            return
        if not any(launcher.is_in_a_graph for launcher in self._launchers):
            self._unused.append(self._handle)


def why_wrong_gpu(compiled: str, driver: CudaDriver) -> str:
    """Why machine code for an architecture does not run on the first GPU; empty if it does."""
    here = driver.arch(0)
    if _runs_on(compiled, here):
        return ""
    return f"it was compiled for {compiled}, but cuda:0 is {driver.name(0)} ({here})"


def _runs_on(compiled: str, here: str) -> bool:
    """Machine code runs on later GPUs of its generation, with "a" on just its own."""
    ours, theirs = (re.fullmatch(r"sm_(\d+)(\d)([af]?)", arch) for arch in (compiled, here))
    if ours is None or theirs is None or ours[1] != theirs[1]:
        return False
    return ours[2] == theirs[2] if ours[3] == "a" else int(ours[2]) <= int(theirs[2])


def _unload_unused(driver: CudaDriver) -> None:
    if driver.unused_libraries:
        driver("cuCtxSynchronize")
        while driver.unused_libraries:
            driver("cuLibraryUnload", driver.unused_libraries.pop())


class PlannedFunction:
    """A function on slots that carries out its plan on the GPU that holds its first array."""

    def __init__(
        self, name: str, plan: Plan, driver: CudaDriver, launchers: Mapping[str, Launcher]
    ) -> None:
        params = plan["functions"][name]["params"]
        self._driver = driver
        self._names = [param for param, _ in params]
        self._read = struct.Struct("<" + "".join(_SIGNED.get(dtype, "Q") for _, dtype in params))
        self._pointers = [at for at, (_, dtype) in enumerate(params) if dtype == "handle"]
        self._run = _Carrier(plan["kernels"], launchers, driver).steps(
            plan["functions"][name]["steps"]
        )

    def __call__(self, slots: bytes) -> int:
        numbers = self._read.unpack(slots)
        device_id = self._device_of(numbers)
        self._driver.activate(device_id)
        values = dict(zip(self._names, numbers, strict=True))
        values[_DEVICE] = device_id
        return self._run(values)

    def device_of(self, slots: bytes) -> int:
        """The GPU that a call with such arguments runs on."""
        return self._device_of(self._read.unpack(slots))

    def _device_of(self, numbers: Sequence[int]) -> int:
        first = next((numbers[at] for at in self._pointers if numbers[at]), 0)
        return self._driver.device_of(first)


def _all_of(expressions: Sequence[Any]) -> Callable[[Values], Sequence[int]]:
    """The values of several expressions; of constants and of plain variables without evaluation."""
    if all(isinstance(item, int) for item in expressions):
        numbers = tuple(expressions)
        return lambda values: numbers
    if len(expressions) > 1 and all(isinstance(item, str) for item in expressions):
        return operator.itemgetter(*expressions)
    evaluators = tuple(map(evaluator, expressions))
    return lambda values: tuple([item(values) for item in evaluators])


_DEVICE = "the device"  # no name of a variable has a space


class _Carrier:
    """Turns steps of a plan into actions."""

    def __init__(
        self, kernels: Mapping[str, Plan], launchers: Mapping[str, Launcher], driver: CudaDriver
    ) -> None:
        self._driver = driver
        self._actions: dict[str, Callable[..., Action]] = {
            "launch": self._launch,
            "let": self._let,
            "map": self._map,
            "allocate": self._allocate,
            "loop": self._loop,
            "if": self._if,
            "assert": self._assert,
        }
        self._kernels = kernels
        self._launchers = launchers

    def steps(self, steps: Steps) -> Action:
        """An action that does all steps in order, up to one that fails."""
        actions = [self._actions[step[0]](*step[1:]) for step in steps]
        if len(actions) == 1:
            only: Action = actions[0]
            return only

        def run(values: Values) -> int:
            return next((status for action in actions if (status := action(values))), 0)

        return run

    def _launch(self, kernel: str, args: list[Any], extents: list[Any]) -> Action:
        launcher = self._launchers[kernel]
        given = dict(zip(self._kernels[kernel]["tags"], extents, strict=True))
        shape_of = _all_of([given.get(tag, 1) for tag in _TAGS])
        shared, arguments = evaluator(given.get(DYNAMIC_SHARED, 0)), _all_of(args)

        def launch(values: Values) -> int:
            shape = shape_of(values)
            if 0 not in shape:
                launcher.launch(values[_DEVICE], shape, shared(values), arguments(values))
            return 0

        return launch

    def _let(self, name: str, value: Any, steps: Steps) -> Action:
        evaluate, body = evaluator(value), self.steps(steps)

        def run(values: Values) -> int:
            values[name] = evaluate(values)
            return body(values)

        return run

    def _map(
        self, name: str, kind: str, dtype: str, address: Any, numbers: list[int], steps: Steps
    ) -> Action:
        maker, body = MapMaker(kind, dtype, numbers), self.steps(steps)
        place, driver = evaluator(address), self._driver

        def run(values: Values) -> int:
            values[name] = maker.map_at(driver, place(values))
            return body(values)

        return run

    def _allocate(self, name: str, size: Any, steps: Steps) -> Action:
        evaluate, body = evaluator(size), self.steps(steps)

        def run(values: Values) -> int:
            block = memory_pool(values[_DEVICE]).allocate(evaluate(values))
            values[name] = block.address
            return body(values)

        return run

    def _loop(self, name: str, first: Any, count: Any, steps: Steps) -> Action:
        start, extent, body = evaluator(first), evaluator(count), self.steps(steps)

        def run(values: Values) -> int:
            begin = start(values)
            for number in range(begin, begin + extent(values)):
                values[name] = number
                if status := body(values):
                    return status
            return 0

        return run

    def _if(self, condition: Any, steps: Steps, others: Steps) -> Action:
        holds, then, other = evaluator(condition), self.steps(steps), self.steps(others)
        return lambda values: then(values) if holds(values) else other(values)

    def _assert(self, condition: Any, message: int) -> Action:
        holds = evaluator(condition)
        return lambda values: 0 if holds(values) else message

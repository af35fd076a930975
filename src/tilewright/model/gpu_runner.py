"""Running a program on a GPU: all its kernels in one CUDA graph, replayed at each call.

Weights lie in the memory of the GPU, intermediate values at fixed places in one block of it. A
graph holds the addresses of inputs and outputs, so there is one for each set of addresses: who
calls with the same arrays again replays it without a copy. Where addresses keep changing, inputs
and outputs are copied to and from arrays of the model's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from tilewright.model.gpu_arguments import input_views, output_views
from tilewright.model.gpu_frame import GpuFrame, Places, address_of
from tilewright.model.profiling import ModelProfile, checked_repeats, gpu_profile_of
from tilewright.model.program import ModelProgram, Packing, ValueInfo
from tilewright.model.runner import StepRun
from tilewright.native.cuda_driver import cuda_driver
from tilewright.runtime.binding import packer_names, shape_of
from tilewright.runtime.cuda_device import elapsed
from tilewright.runtime.cuda_graph import CudaGraph
from tilewright.runtime.devices import Device
from tilewright.runtime.module import Module
from tilewright.runtime.ndarray import NDArray
from tilewright.runtime.tensor_view import Array

_GRAPHS = 8  # for different addresses of inputs and outputs
_ROW = 20  # runs of each kernel in a row, when it is timed


class GpuRunner:
    """Runs a program on a GPU; not from two threads at a time."""

    def __init__(
        self,
        program: ModelProgram,
        kernels: Sequence[Module],
        constants: Sequence[Array],
        device_id: int = 0,
    ) -> None:
        self.program = program
        self.device = Device("cuda", device_id)
        self._kernels = kernels
        self._constants = constants
        self._graphs: dict[Places, CudaGraph] = {}

    @cached_property
    def _frame(self) -> GpuFrame:
        """What a run needs in the memory of the GPU; it is brought there by the first run."""
        return GpuFrame(self.program, self._kernels, self._constants, self.device)

    def __call__(
        self, *inputs: Any, out: Sequence[Any] | None = None, **named: Any
    ) -> tuple[Any, ...]:
        """The outputs for inputs on the GPU, by position or by name, in the order of the model.

        Runs on the current stream; the GPU may still work when it returns. `out` are arrays for the
        outputs, which are returned.
        """
        places, outputs = self._places(inputs, named, out)
        if places not in self._graphs and len(self._graphs) >= _GRAPHS:
            self._run_on_own_arrays(places)
        else:
            self._replay(places)
        return outputs

    def run(
        self, inputs: Mapping[str, Any], *, out: Sequence[Any] | None = None
    ) -> tuple[Any, ...]:
        """The outputs for inputs by name."""
        return self(out=out, **inputs)

    def profile(self, *inputs: Any, repeats: int = 5, **named: Any) -> ModelProfile:
        """The time of each kernel when it runs again and again; it prints as a table.

        Times are those between events on the GPU, shares of the roofline of what it is built for.
        """
        frame = self._frame
        places, outputs = self._places(inputs, named, None)
        frame.run(places)  # values that decide how long a kernel takes
        steps = range(len(self.program.steps))
        runs = [
            [frame.nanoseconds(step, places, _ROW) for step in steps]
            for _ in range(checked_repeats(repeats))
        ]
        whole = [self._nanoseconds(places) for _ in range(repeats)]
        del outputs
        return gpu_profile_of(self.program, runs, whole)

    def trace(self, *inputs: Any, **named: Any) -> Iterator[StepRun]:
        """Run step by step, with copies of what each step reads and makes."""
        places, outputs = self._places(inputs, named, None)
        for step, (read, made) in zip(self.program.steps, self._frame.trace(places), strict=True):
            yield StepRun(step, tuple(read), tuple(made), has_packed_constants=False)
        del outputs

    @property
    def memory_bytes(self) -> int:
        """Intermediate values and constants on the GPU, once it has run."""
        places = {place for step in self.program.steps for place in step.arguments}
        plain = {place.index for place in places if place.memory == "constant"}
        return (
            self.program.arena_bytes
            + sum(self._constants[number].nbytes for number in plain)
            + sum(map(self._packed_bytes, self.program.packings))
        )

    def _packed_bytes(self, packing: Packing) -> int:
        module = self._kernels[packing.kernel]
        result = module.signature(packer_names(module)[packing.position])[1]
        return ValueInfo("", shape_of(result), result.dtype).bytes

    # --- running --------------------------------------------------------------------------------

    def _places(
        self, inputs: Sequence[Any], named: Mapping[str, Any], out: Sequence[Any] | None
    ) -> tuple[Places, tuple[Any, ...]]:
        """Addresses of inputs and outputs, and the outputs."""
        frame = self._frame  # first of all: without a GPU that says what is missing
        given = tuple(
            view.address for view in input_views(self.program, self.device, inputs, named)
        )
        if out is None:
            outputs = frame.empty(self.program.outputs)
            return Places(given, tuple(map(address_of, outputs))), outputs
        views = output_views(self.program, self.device, out)
        return Places(given, tuple(view.address for view in views)), tuple(out)

    def _replay(self, places: Places) -> None:
        driver, device_id = cuda_driver(), self.device.device_id
        if places not in self._graphs:
            if not self._graphs:
                self._frame.run(places)  # loads the kernels
            self._graphs[places] = CudaGraph(driver, device_id, lambda: self._frame.run(places))
        driver.activate(device_id)
        self._graphs[places].replay(driver.stream(device_id))

    def _nanoseconds(self, places: Places) -> int:
        """The time of one run, behind another."""
        self._replay(places)
        return elapsed(cuda_driver(), self.device.device_id, lambda: self._replay(places))

    def _run_on_own_arrays(self, places: Places) -> None:
        own = Places(*(tuple(map(address_of, part)) for part in self._own_arrays))
        copy, program = self._frame.copy, self.program
        for info, target, source in zip(program.inputs, own.inputs, places.inputs, strict=True):
            copy(target, source, info.bytes)
        self._replay(own)
        for info, target, source in zip(program.outputs, places.outputs, own.outputs, strict=True):
            copy(target, source, info.bytes)

    @cached_property
    def _own_arrays(self) -> tuple[tuple[NDArray, ...], tuple[NDArray, ...]]:
        """Inputs and outputs with a graph of their own, which takes the place of the oldest."""
        self._graphs.pop(next(iter(self._graphs)))
        empty = self._frame.empty
        return empty(self.program.inputs), empty(self.program.outputs)

"""The interface of compiled models, wherever they run: of what `compile_model` and `load` return.

`Executable` implements it on the CPU, `GpuExecutable` on a GPU; models from files have the part
that needs no compiler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tilewright.runtime import ndarray
from tilewright.runtime.devices import CPU, Device

if TYPE_CHECKING:
    from tilewright.graph.graph import Array, Graph
    from tilewright.model.checking import CheckReport, ReferenceFunction
    from tilewright.model.planning import ModelCall
    from tilewright.model.profiling import ModelProfile
    from tilewright.model.program import ModelProgram
    from tilewright.model.rounding import TiledConvolution
    from tilewright.model.runner import StepRun


class RunnableModel(Protocol):
    """A model that runs: compiled just now, or read from a file."""

    program: ModelProgram

    @property
    def graph(self) -> Graph:
        """What it computes."""
        ...

    @property
    def device(self) -> Device:
        """Where its inputs and outputs are."""
        ...

    @property
    def memory_bytes(self) -> int:
        """Intermediate values and constants."""
        ...

    def __call__(
        self, *inputs: Any, out: Sequence[Any] | None = None, **named: Any
    ) -> tuple[Any, ...]:
        """The outputs for inputs by position or by name; `out` are arrays for them."""
        ...

    def run(
        self, inputs: Mapping[str, Any], *, out: Sequence[Any] | None = None
    ) -> tuple[Any, ...]:
        """The outputs for inputs by name."""
        ...

    def profile(self, *inputs: Any, repeats: int = ..., **named: Any) -> ModelProfile:
        """The time of each kernel, beside what the machine could do."""
        ...

    def trace(self, *inputs: Any, **named: Any) -> Iterator[StepRun]:
        """Run step by step, with copies of what each step reads and makes."""
        ...


class CompiledModel(RunnableModel, Protocol):
    """A model that was compiled in this process."""

    @property
    def calls(self) -> Sequence[ModelCall]:
        """Its kernels, and what others run, in order."""
        ...

    @property
    def tiled(self) -> Sequence[TiledConvolution]:
        """The convolutions that Winograd's tiles compute."""
        ...

    def check(
        self,
        graph: Graph,
        *inputs: Any,
        reference: ReferenceFunction | None = None,
        tolerances: Mapping[str, float] | None = None,
        **named: Any,
    ) -> CheckReport:
        """Compare one run, step by step, with the graph that the model was compiled from."""
        ...

    def save(self, path: str | Path) -> Path:
        """Write the model to one file, which `tilewright.model.load` runs without compiling."""
        ...

    def export_library(self, path: str | Path) -> tuple[Path, ...]:
        """Write a shared library that C can call."""
        ...


def check_against(
    model: CompiledModel,
    graph: Graph,
    inputs: Sequence[Array],
    reference: ReferenceFunction | None,
    tolerances: Mapping[str, float] | None,
) -> CheckReport:
    """Compare one run of a model, for inputs of NumPy, with the graph that it was made of."""
    from tilewright.model.checking import TOLERANCES, Checking, expected_values

    expected = expected_values(graph, inputs, reference)
    checking = Checking(model.graph, model.calls, graph, {**TOLERANCES, **(tolerances or {})})
    steps = model.trace(*on_device_of(model, inputs))
    return checking.report(steps, results_of(model, inputs), expected)


def on_device_of(model: RunnableModel, inputs: Sequence[Array]) -> list[Any]:
    """Inputs where a model takes them: of NumPy for the CPU, copies for a GPU."""
    if model.device.device_type == CPU:
        return list(inputs)
    return [ndarray.array(np.ascontiguousarray(array), model.device) for array in inputs]


def results_of(model: RunnableModel, inputs: Sequence[Array]) -> list[Array]:
    """Outputs as arrays of NumPy for inputs of NumPy, wherever the model runs."""
    made = model(*on_device_of(model, inputs))
    return [array if isinstance(array, np.ndarray) else array.numpy() for array in made]

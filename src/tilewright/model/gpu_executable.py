"""A compiled model on a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.errors import RuntimeFailure
from tilewright.graph.graph import Graph
from tilewright.measure.side_by_side import on_host
from tilewright.model import saving
from tilewright.model.arguments import given_inputs
from tilewright.model.checking import CheckReport, ReferenceFunction
from tilewright.model.compiled import check_against
from tilewright.model.gpu_runner import GpuRunner
from tilewright.model.kernels import KernelCall
from tilewright.model.planning import plan_program
from tilewright.model.rounding import TiledConvolution


class GpuExecutable(GpuRunner):
    """Runs a graph with kernels that were compiled for a GPU."""

    def __init__(self, graph: Graph, calls: Sequence[KernelCall], device_id: int = 0) -> None:
        self.graph = graph
        self.calls = tuple(calls)
        self.tiled: Sequence[TiledConvolution] = ()
        self._plan = plan_program(graph, self.calls)
        kernels = [kernel.module for kernel in self._plan.kernels]
        super().__init__(self._plan.program, kernels, self._plan.constants, device_id)

    def check(
        self,
        graph: Graph,
        *inputs: Any,
        reference: ReferenceFunction | None = None,
        tolerances: Mapping[str, float] | None = None,
        **named: Any,
    ) -> CheckReport:
        """Compare one run, step by step, with the graph that the model was compiled from.

        As `Executable.check`; inputs are arrays of NumPy, or on the GPU.
        """
        arrays = [on_host(x) for x in given_inputs(self.program, inputs, named)]
        return check_against(self, graph, arrays, reference, tolerances)

    def save(self, path: str | Path) -> Path:
        """Write the model to one file, which `tilewright.model.load` runs without compiling."""
        return saving.save(Path(path), self._plan, self.graph.script())

    def export_library(self, path: str | Path) -> tuple[Path, ...]:
        """Refused: such libraries have kernels of the CPU."""
        raise RuntimeFailure(
            f"cannot export {Path(path).name}: libraries for C have kernels for the CPU, and these "
            "are for a GPU; save() writes a file that tilewright.model.load runs"
        )

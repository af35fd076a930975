"""A compiled model: its kernels in a row, run by one call of native code.

Intermediate values have fixed places in one block of memory, constants are packed once, and the
slots from which kernels take their arguments are filled in before the first run. What is left for
each run are the addresses of inputs and outputs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.byoc import prepare_node
from tilewright.graph.external import is_external
from tilewright.graph.graph import Graph, GraphValue
from tilewright.model import exporting, saving
from tilewright.model.arguments import input_arrays
from tilewright.model.checking import CheckReport, ReferenceFunction
from tilewright.model.compiled import check_against
from tilewright.model.constants import KeptConstants
from tilewright.model.external import ExternalCall
from tilewright.model.frame import LoadedCode
from tilewright.model.planning import ModelCall, Plan, plan_program
from tilewright.model.rounding import tiled_convolutions
from tilewright.model.runner import ModelRunner


class Executable(ModelRunner):
    """Runs a graph with kernels that were compiled for it."""

    def __init__(self, graph: Graph, calls: Sequence[ModelCall]) -> None:
        self.calls = tuple(_with_external_calls(graph, calls))
        self._plan = plan_program(graph, self.calls)
        self.tiled = tiled_convolutions(graph)
        kept = KeptConstants(graph.constants, self._plan.kept)
        self.graph = dataclasses.replace(graph, constants=kept)
        code = _loaded_code(self._plan, self.calls)
        super().__init__(self._plan.program, code, self._plan.constants)

    def check(
        self,
        graph: Graph,
        *inputs: Any,
        reference: ReferenceFunction | None = None,
        tolerances: Mapping[str, float] | None = None,
        **named: Any,
    ) -> CheckReport:
        """Compare one run, step by step, with the graph that the model was compiled from.

        Each kernel is compared with plain loops on the same inputs, the outputs and what lies
        between with a run of the graph: `reference` takes inputs by name and returns arrays by the
        names of nodes or values; without it plain loops run the graph, which takes a while.
        `tolerances` are errors allowed by element type, as shares of the largest element.
        """
        arrays = input_arrays(self.program, inputs, named)
        return check_against(self, graph, arrays, reference, tolerances)

    def save(self, path: str | Path) -> Path:
        """Write the model to one file, which `tilewright.model.load` runs without compiling."""
        return saving.save(Path(path), self._plan, self.graph.script())

    def export_library(self, path: str | Path) -> tuple[Path, ...]:
        """Write a shared library that C can call; its header and an example come with it.

        `NAME.so` has one function `NAME_run(inputs, outputs)`, and the weights inside. It needs
        nothing of Python. Returns the files written.
        """
        return exporting.export_library(Path(path), self._plan)


def _with_external_calls(graph: Graph, calls: Sequence[ModelCall]) -> list[ModelCall]:
    """Calls, and between them those of nodes that others compute, unless they are there already."""
    position = {value: n for n, node in enumerate(graph.nodes) for value in node.outputs}
    made = {value for call in calls for value in _outputs(call)}
    last = len(graph.nodes)  # for kernels whose results nobody reads
    placed = [(max((position[v] for v in _outputs(call)), default=last), call) for call in calls]
    for node in filter(is_external, graph.nodes):
        if not made.issuperset(node.outputs):
            part = prepare_node(node, graph.constants)
            call = ExternalCall(part.name, part.function, part.inputs, part.outputs)
            placed.append((position[node.outputs[0]], call))
    return [call for _, call in sorted(placed, key=lambda pair: pair[0])]


def _outputs(call: ModelCall) -> tuple[GraphValue, ...]:
    return call.outputs if isinstance(call, ExternalCall) else call.group.outputs


def _loaded_code(plan: Plan, calls: Sequence[ModelCall]) -> LoadedCode:
    externals = {n: c.function for n, c in enumerate(calls) if isinstance(c, ExternalCall)}
    functions = [kernel.function for kernel in plan.kernels]
    messages = [kernel.module.info.messages for kernel in plan.kernels]
    return LoadedCode([f.address for f in functions], messages, externals, functions)

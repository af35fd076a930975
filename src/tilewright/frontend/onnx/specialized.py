"""Models whose shapes are known when they run: compiled for what they are called with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import ArgumentError, GraphError
from tilewright.frontend.onnx.context import UnknownValueError
from tilewright.frontend.onnx.importer import ImportOptions, graph_of, input_protos
from tilewright.frontend.onnx.loading import checked_dtype, load_model
from tilewright.graph.graph import Array, Graph
from tilewright.graph.passes.pipeline import simplify
from tilewright.model.executable import Executable
from tilewright.model.kernels import Scheduler, compile_calls, without_search
from tilewright.target import Target


class SpecializedModel:
    """A model that takes any shapes; for new ones, and for new numbers that decide about shapes
    (the target of a Reshape, the axes of a Slice), it is compiled again, once."""

    def __init__(
        self,
        source: str | Path | bytes | Any,
        target: Target | None = None,
        schedule: Scheduler = without_search,
        partial: bool = False,
    ) -> None:
        self._model, self._folder = load_model(source)
        self._target = target or Target.current() or Target("llvm")
        self._schedule = schedule
        self._partial = partial
        self._inputs = {given.name: given for given in input_protos(self._model)}
        self._deciding: set[str] = set()  # inputs whose numbers decide about shapes
        self._compiled: dict[tuple[Any, ...], Executable] = {}

    @property
    def input_names(self) -> list[str]:
        """In the order of the model."""
        return list(self._inputs)

    def __call__(self, inputs: Mapping[str, Any]) -> tuple[Array, ...]:
        """The outputs for inputs by name."""
        arrays = self._checked(inputs)
        executable = self.executable(arrays)
        return executable(*(arrays[name] for name in self._inputs if name not in self._deciding))

    def computes(self, inputs: Mapping[str, Any]) -> bool:
        """True if some output depends on the numbers that go in, and not on shapes alone."""
        graph = self.executable(self._checked(inputs)).graph
        reached = set(graph.inputs)
        for node in graph.nodes:
            if reached & set(node.operands):
                reached.update(node.outputs)
        return bool(reached & set(graph.outputs))

    def executable(self, arrays: Mapping[str, Array]) -> Executable:
        """What runs for inputs of these shapes."""
        key = self._key(arrays)
        if key not in self._compiled:
            graph = simplify(self._graph(arrays))
            key = self._key(arrays)  # importing may have found more inputs that decide
            calls = compile_calls(graph, self._target, self._schedule)
            self._compiled[key] = Executable(graph, calls)
        return self._compiled[key]

    def _key(self, arrays: Mapping[str, Array]) -> tuple[Any, ...]:
        return tuple(
            (name, array.shape, array.tobytes() if name in self._deciding else None)
            for name, array in arrays.items()
        )

    def _graph(self, arrays: Mapping[str, Array]) -> Graph:
        while True:
            known = {name: arrays[name] for name in self._deciding}
            shapes = {name: a.shape for name, a in arrays.items() if name not in self._deciding}
            try:
                options = ImportOptions(
                    shapes=shapes, values=known, partial=self._partial, asks_for_values=True
                )
                return graph_of(self._model, self._folder, options)
            except UnknownValueError as error:
                if not error.inputs:
                    raise GraphError(str(error)) from error
                # The graph lists those that are left in the order of the model.
                left = [name for name in self._inputs if name not in self._deciding]
                self._deciding |= {left[position] for position in error.inputs}

    def _checked(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        if not isinstance(inputs, Mapping):
            raise ArgumentError(
                f"the model takes its inputs by name, as a mapping; got {type(inputs).__name__}"
            )
        if set(inputs) != set(self._inputs):
            raise ArgumentError(
                f"the model takes inputs {', '.join(self._inputs) or 'of no name'}; "
                f"got {', '.join(inputs) or 'none'}"
            )
        for name in self._inputs:
            self._check_kind(name)
        arrays = {name: np.asarray(inputs[name]) for name in self._inputs}
        for name, array in arrays.items():
            self._check_type(name, array)
        return arrays

    def _check_kind(self, name: str) -> None:
        kind = self._inputs[name].type
        if not kind.HasField("tensor_type"):
            raise GraphError(f"input {name} is not a tensor")
        checked_dtype(kind.tensor_type.elem_type, f"input {name}")

    def _check_type(self, name: str, array: Array) -> None:
        kind = self._inputs[name].type.tensor_type
        dtype = checked_dtype(kind.elem_type, f"input {name}")
        wanted = [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim]
        fits = not kind.HasField("shape") or (
            len(wanted) == array.ndim
            and all(n is None or n == m for n, m in zip(wanted, array.shape, strict=True))
        )
        if array.dtype.name != dtype or not fits:
            shown = ", ".join("?" if n is None else str(n) for n in wanted)
            raise ArgumentError(
                f"input {name}: expected {dtype}[{shown}], got {array.dtype}{list(array.shape)}"
            )

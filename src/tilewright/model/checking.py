"""Finding the first operator of a compiled model that computes something else.

Every step is run on its own inputs a second time, by plain loops in double precision: a wrong
kernel shows where it is, whatever runs before it. The outputs, and all values that the original
graph has, too, are compared with a run of that graph, or with numbers from elsewhere: a pass or an
import that changed the meaning shows there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.errors import GraphError, TilewrightError
from tilewright.graph.graph import Array, Graph, GraphNode, GraphValue, TensorType
from tilewright.graph.passes.pipeline import simplify
from tilewright.ir import DType
from tilewright.model.kernels import KernelCall
from tilewright.model.planning import ModelCall, owners_of
from tilewright.model.reference import GraphReference
from tilewright.model.runner import StepRun
from tilewright.model.unpacking import packs_to, unpacked

# From inputs by name to arrays by the names of nodes or values of the original model.
ReferenceFunction = Callable[[Mapping[str, Array]], Mapping[str, Array]]

# Of the largest element of an array; whole numbers have to be the same.
TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
_ALONG_THE_WAY = 10  # errors of many layers add up
_STEP = 1 / 128  # of quantized numbers, as a share of the largest


@dataclass(frozen=True)
class ValueCheck:
    """One array, and how far it is from what it should be."""

    value: str
    operators: tuple[str, ...]
    nodes: tuple[str, ...]  # what they are called in the original model
    error: float  # as a share of the largest element
    tolerance: float

    @property
    def is_right(self) -> bool:
        """True if it is as near as its type allows."""
        return self.error <= self.tolerance

    def __str__(self) -> str:
        nodes = f" ({', '.join(self.nodes)})" if self.nodes else ""
        return (
            f"{self.value} of {', '.join(self.operators) or 'no operator'}{nodes} differs by "
            f"{self.error:.3g} of its largest element, at most {self.tolerance:.3g} is rounding"
        )


@dataclass(frozen=True)
class CheckReport:
    """What was compared, in the order in which it runs."""

    kernels: tuple[ValueCheck, ...]  # against plain loops on the same inputs
    layers: tuple[ValueCheck, ...]  # against the values of the original graph
    outputs: tuple[ValueCheck, ...]  # the same for the outputs
    unchecked: tuple[str, ...]  # steps for which there is nothing to compare with, and why

    @property
    def is_right(self) -> bool:
        """True if all kernels and all outputs are right."""
        return self.first is None

    @property
    def first(self) -> ValueCheck | None:
        """The first one that differs; a kernel, or else what the original graph has otherwise.

        Passes may change what lies between: that only counts if outputs are wrong, too.
        """
        wrong_kernel = next((c for c in self.kernels if not c.is_right), None)
        wrong_output = next((c for c in self.outputs if not c.is_right), None)
        if wrong_kernel is not None or wrong_output is None:
            return wrong_kernel
        return next((c for c in self.layers if not c.is_right), wrong_output)

    def __str__(self) -> str:
        wrong = self.first
        if wrong is not None and wrong in self.kernels:
            verdict = f"wrong kernel: {wrong}"
        elif wrong is not None:
            verdict = f"kernels are right, but not the model: {wrong}"
        else:
            worst = max((c.error for c in self.outputs), default=0.0)
            verdict = f"all {len(self.kernels)} kernels and the outputs are right ({worst:.2g})"
        return "\n".join([verdict, *(f"not checked: {text}" for text in self.unchecked)])


@dataclass(frozen=True)
class Checking:
    """A compiled model beside the graph that it was made of."""

    compiled: Graph
    calls: Sequence[ModelCall]
    original: Graph
    tolerances: Mapping[str, float]

    @functools.cached_property
    def _references(self) -> tuple[GraphReference, GraphReference]:
        return GraphReference(is_wide=True), GraphReference(is_wide=False)

    @functools.cached_property
    def _owners(self) -> dict[GraphValue, GraphValue]:
        return owners_of(self.compiled)

    @functools.cached_property
    def _makers(self) -> dict[GraphValue, Sequence[GraphNode]]:
        """The nodes of the kernel that makes each value."""
        return {
            self._owners.get(value, value): call.group.nodes
            for call in self.calls
            if isinstance(call, KernelCall)
            for value in call.group.outputs
        }

    @functools.cached_property
    def _originals(self) -> dict[tuple[str, TensorType], list[Array]]:
        """Constants of the original graph, before and after the usual passes."""
        found: dict[tuple[str, TensorType], list[Array]] = {}
        for graph in (self.original, simplify(self.original)):
            for value, array in graph.constants.items():
                found.setdefault((value.name, value.type), []).append(array)
        return found

    def report(
        self,
        runs: Iterable[StepRun],
        outputs: Sequence[Array],
        expected: Mapping[GraphValue, Array],
    ) -> CheckReport:
        """Compare a run, step by step; `expected` are values of the original graph."""
        kernels: list[ValueCheck] = []
        layers: list[ValueCheck] = []
        unchecked: list[str] = []
        counterparts = _counterparts(self.compiled, self.original)
        for call, run in zip(self.calls, runs, strict=True):
            made = call.values[len(run.inputs) :]
            try:
                kernels += self._kernel_checks(call, run)
            except TilewrightError as error:
                unchecked.append(f"{run.step.name}: {error}")
            for value, array in zip(made, run.outputs, strict=True):
                theirs = counterparts.get(value)
                if theirs is not None and theirs in expected:
                    layers.append(self._layer_check(value, array, expected[theirs]))
        return CheckReport(
            tuple(kernels), tuple(layers), self._output_checks(outputs, expected), tuple(unchecked)
        )

    def _kernel_checks(self, call: ModelCall, run: StepRun) -> list[ValueCheck]:
        if not isinstance(call, KernelCall):
            raise GraphError("a Python function runs it")
        known = {
            value: self._as_in_graph(call, position, array)
            if run.has_packed_constants
            else array.reshape(value.type.extents)
            for position, (value, array) in enumerate(
                zip(call.group.inputs, run.inputs, strict=True)
            )
        }
        checks: list[ValueCheck] = []
        for reference in self._references:
            values = reference.run_nodes(call.group.nodes, known)
            checks = [
                self._check(value, array, values[value])
                for value, array in zip(call.group.outputs, run.outputs, strict=True)
            ]
            if all(check.is_right for check in checks):
                break  # else double precision may have decided otherwise, say, which is larger
        return checks

    def _as_in_graph(self, call: KernelCall, position: int, array: Array) -> Array:
        """An input of a kernel as the graph has it."""
        packer = call.kernel.packers.get(position)
        value, shape = call.group.inputs[position], call.group.inputs[position].type.extents
        owner = self._owners.get(value, value)
        if packer is None or owner not in self.compiled.constants:
            return array.reshape(shape)
        try:
            return unpacked(packer, array, shape)
        except GraphError:  # it computes something: look for what that was made of
            for known in self._originals.get((owner.name, owner.type), ()):
                if packs_to(packer, known.reshape(shape), array):
                    return known.reshape(shape)
            raise

    def _layer_check(self, value: GraphValue, array: Array, expected: Array) -> ValueCheck:
        """Passes may have chosen another layout, so the same elements in any order will do."""
        check = self._check(value, array, expected, _ALONG_THE_WAY)
        if check.is_right:
            return check
        return self._check(
            value, np.sort(array, axis=None), np.sort(expected, axis=None), _ALONG_THE_WAY
        )

    def _output_checks(
        self, outputs: Sequence[Array], expected: Mapping[GraphValue, Array]
    ) -> tuple[ValueCheck, ...]:
        return tuple(
            self._check(ours, array, expected[theirs], _ALONG_THE_WAY)
            for ours, theirs, array in zip(
                self.compiled.outputs, self.original.outputs, outputs, strict=True
            )
            if theirs in expected
        )

    def _check(
        self, value: GraphValue, array: Array, expected: Array, factor: float = 1
    ) -> ValueCheck:
        tolerance = max(self.tolerances.get(value.type.dtype, 0.0), self._step(value)) * factor
        error = difference(array, np.asarray(expected).reshape(array.shape))
        nodes = self._makers.get(self._owners.get(value, value), ())
        sources = tuple(dict.fromkeys(node.source for node in nodes if node.source))
        return ValueCheck(value.name, tuple(node.op for node in nodes), sources, error, tolerance)

    def _step(self, value: GraphValue) -> float:
        """What numbers that were rounded to steps may differ by: they lie between two, at times."""
        if not self._is_quantized:
            return 0.0
        is_float = DType(value.type.dtype).is_float
        return _STEP / _ALONG_THE_WAY if is_float else float(DType(value.type.dtype).bits == 8)

    @functools.cached_property
    def _is_quantized(self) -> bool:
        return any(node.op.startswith("qnn.") for node in self.compiled.nodes)


def difference(array: Array, expected: Array) -> float:
    """The largest difference as a share of the largest element; infinite where NaNs differ."""
    a, b = array.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf")
    distance = np.abs(a[finite] - b[finite]).max(initial=0.0)
    if np.isnan(distance):
        return float("inf")
    if array.dtype.kind in "iub":
        return float(distance)
    return float(distance / (np.abs(b[finite]).max(initial=0.0) or 1.0))


def _counterparts(compiled: Graph, original: Graph) -> dict[GraphValue, GraphValue]:
    """Values of the original graph that are the same there, as far as can be told.

    A node says which node of the model it came from; several may have come from one, then the
    result is that of the last. Where nothing is said names decide.
    """
    names = _by_name(original)
    found: dict[str, dict[GraphValue, GraphValue]] = {}
    for node in compiled.nodes:
        keys = [node.source] if node.source else [value.name for value in node.outputs]
        pairs = zip(node.outputs, (names.get(key) for key in keys), strict=False)
        found[keys[0]] = {
            ours: theirs
            for ours, theirs in pairs
            if theirs is not None and _may_be_same(ours.type, theirs.type)
        }
    return {ours: theirs for each in found.values() for ours, theirs in each.items()}


def _may_be_same(ours: TensorType, theirs: TensorType) -> bool:
    return ours.dtype == theirs.dtype and ours.size == theirs.size


def _by_name(graph: Graph) -> dict[str, GraphValue]:
    """Values by their names, and the results of nodes by what these were called in the model."""
    values = {value.name: value for value in graph.values()} | dict(graph.named_outputs)
    return values | {node.source: node.outputs[0] for node in graph.nodes if node.source}


def expected_values(
    graph: Graph, inputs: Sequence[Array], reference: ReferenceFunction | None
) -> dict[GraphValue, Array]:
    """Values of the original graph: run by plain loops, or taken from elsewhere."""
    if reference is None:
        return GraphReference().run_graph(graph, inputs)
    given = reference(
        {name: array for (name, _), array in zip(graph.named_inputs, inputs, strict=True)}
    )
    names = _by_name(graph)
    found = {names[name]: np.asarray(array) for name, array in given.items() if name in names}
    if not found:
        raise GraphError(
            f"the reference gives {', '.join(given) or 'nothing'}, none of which is a value or a "
            f"node of {graph.name}"
        )
    return found

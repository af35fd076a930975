"""External backends by name: they compute the nodes of a graph that are not ours.

    @external_backends.register("acme")
    def run_with_acme(part: ExternalPart) -> ExternalFunction:
        engine = acme.load(part.program, part.constants)
        return lambda arrays: engine(arrays)

is all that one needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tilewright.errors import RuntimeFailure, TilewrightError
from tilewright.graph.graph import Array, GraphNode, GraphValue, TensorType
from tilewright.ir.numpy_bridge import to_numpy
from tilewright.support.plugins import Family

ExternalFunction: TypeAlias = Callable[[Sequence[Array]], Sequence[Array]]


@dataclass(frozen=True)
class ExternalPart:
    """What a backend has to compute: inputs that are known come along by position."""

    name: str
    program: str
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    constants: Mapping[int, Array]


external_backends: Family[ExternalFunction] = Family(
    "external backend", "tilewright.external_backend"
)


@dataclass(frozen=True, eq=False)
class PreparedNode:
    """An external node that can run: its function takes the inputs that are not known."""

    name: str
    function: ExternalFunction
    inputs: tuple[GraphValue, ...]
    outputs: tuple[GraphValue, ...]


def prepare_node(node: GraphNode, constants: Mapping[GraphValue, Array]) -> PreparedNode:
    """Hand a node to its backend."""
    known = {n: constants[v] for n, v in enumerate(node.operands) if v in constants}
    name = node.source or node.outputs[0].name
    part = ExternalPart(
        name,
        node.attrs["program"],
        tuple(value.type for value in node.operands),
        tuple(value.type for value in node.outputs),
        known,
    )
    inputs = tuple(value for value in node.operands if value not in constants)
    label, function = prepare_part(node.attrs["backend"], part)
    return PreparedNode(label, function, inputs, node.outputs)


def prepare_part(backend: str, part: ExternalPart) -> tuple[str, ExternalFunction]:
    """What a backend makes of a part, and what it is called in messages."""
    label = f"{backend}({part.name})"
    return label, _checked(external_backends.create(backend, part), label, part.outputs)


def _checked(run: ExternalFunction, label: str, wanted: Sequence[TensorType]) -> ExternalFunction:
    """Results must have the types that the graph was compiled for."""

    def checked(arrays: Sequence[Array]) -> Sequence[Array]:
        try:
            made = [np.asarray(result) for result in run(arrays)]
        except TilewrightError:
            raise
        except Exception as error:  # of whatever library it is
            raise RuntimeFailure(f"{label} failed: {_first_line(error)}") from error
        types = [TensorType(array.shape, array.dtype.name) for array in made]
        if any(
            kind.shape != found.shape or to_numpy(kind.dtype) != array.dtype
            for kind, found, array in zip(wanted, types, made, strict=False)
        ) or len(made) != len(wanted):
            raise RuntimeFailure(
                f"{label} returned {', '.join(map(str, types)) or 'nothing'}, "
                f"expected {', '.join(map(str, wanted))}"
            )
        return made

    return checked


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")

"""Steps of a model that no kernel serves: a function on arrays runs them instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.graph.graph import Array, GraphValue

ExternalFunction = Callable[[Sequence[Array]], Sequence[Array]]


@dataclass(frozen=True, eq=False)
class ExternalCall:
    """A function on values of a graph: an operator run by a reference, a subgraph run elsewhere.

    The function must not write to its inputs, nor keep them: their memory is used again after the
    step. What it returns is copied. Two runs of a model at the same time may call it at the same
    time.
    """

    name: str  # what messages and profiles call it
    function: ExternalFunction
    inputs: tuple[GraphValue, ...]
    outputs: tuple[GraphValue, ...]

    @property
    def values(self) -> tuple[GraphValue, ...]:
        """Inputs before outputs, as for calls of kernels."""
        return (*self.inputs, *self.outputs)

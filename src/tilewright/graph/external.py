"""Nodes that no kernel of ours computes: a library, a reference or another framework does.

Such a node says who computes it (`backend`), what (`program`, a text that the backend reads) and
the types of its results. It is plain data, so graphs with such nodes are printed, parsed and
rewritten as all others; who runs it is found by name when the model is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.errors import GraphError
from tilewright.graph.builder import GraphBuilder
from tilewright.graph.graph import GraphNode, GraphValue, TensorType
from tilewright.graph.operator import operator
from tilewright.te import Tensor

EXTERNAL = "external"


@operator(EXTERNAL)
def external(
    *inputs: Tensor, backend: str, program: str, results: Sequence[Sequence[Any]]
) -> list[Tensor]:
    """What `backend` makes of a program; `results` are element types and extents."""
    if not results:
        raise GraphError(f"{backend} is given a part without results")
    return [te.placeholder(shape, dtype, name=f"y{n}") for n, (dtype, shape) in enumerate(results)]


def is_external(node: GraphNode) -> bool:
    """True if something else than a kernel computes a node."""
    return node.op == EXTERNAL


def add_external(
    builder: GraphBuilder,
    backend: str,
    program: str,
    inputs: Sequence[GraphValue],
    results: Sequence[tuple[str, TensorType]],
    source: str = "",
) -> tuple[GraphValue, ...]:
    """The results, by name and type, of a program that something else runs."""
    types = [[kind.dtype, list(kind.extents)] for _, kind in results]
    attrs = {"backend": backend, "program": program, "results": types}
    return builder.calls(EXTERNAL, inputs, attrs, [name for name, _ in results], source)

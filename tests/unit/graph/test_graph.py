"""Types of values, and what cannot be a graph."""

from __future__ import annotations

import pytest

from tilewright.errors import GraphError
from tilewright.graph import (
    Graph,
    GraphBuilder,
    GraphNode,
    GraphValue,
    TensorType,
    operator,
    operator_names,
)
from tilewright.graph.rewriting import without_dead_nodes


def _types(op: str, *inputs: TensorType | None, **attrs: object) -> list[str]:
    builder = GraphBuilder()
    values = [None if kind is None else builder.input("x", kind) for kind in inputs]
    return [str(value.type) for value in builder.calls(op, values, attrs)]


def _floats(*shape: int) -> TensorType:
    return TensorType(shape, "float32")


@pytest.mark.parametrize(
    ("kind", "count"),
    [("bool", 6), ("int8", 6), ("int4", 6), ("float16", 12), ("float64", 48)],
)
def test_bytes_are_those_of_memory(kind: str, count: int) -> None:
    """A bool and a 4-bit integer take a byte each."""
    assert TensorType((2, 3), kind).bytes == count


def test_types_follow_from_the_expressions() -> None:
    assert _types("nn.dense", _floats(2, 8), _floats(4, 8)) == ["float32[2, 4]"]
    assert _types("sum", TensorType((2, 8), "int8"), axis=[1]) == ["int32[2]"]
    assert _types("matmul", _floats(5, 1, 2, 3), _floats(4, 3, 6)) == ["float32[5, 4, 2, 6]"]
    assert _types("topk", _floats(2, 8), k=3) == ["float32[2, 3]", "int64[2, 3]"]
    assert _types("nn.layer_norm", _floats(2, 8), _floats(8), None, axis=[1]) == ["float32[2, 8]"]


def test_types_that_do_not_fit() -> None:
    with pytest.raises(GraphError) as caught:
        _types("add", _floats(2, 3), _floats(4))
    assert str(caught.value).startswith("add of float32[2, 3], float32[4]: ")
    with pytest.raises(GraphError) as caught:
        _types("relu", _floats(2))
    assert str(caught.value).startswith("relu of float32[2]: there is no operator 'relu'")


def test_a_graph_reads_what_was_made_before() -> None:
    x, y = (GraphValue(name, _floats(2)) for name in "xy")
    node = GraphNode("abs", (y,), (x,), source="first")
    with pytest.raises(GraphError) as caught:
        Graph("main", (), (x,), (node,))
    assert str(caught.value) == (
        "graph main: abs (first) reads y, which nothing before it makes; nodes must come after "
        "those that make their inputs"
    )
    with pytest.raises(GraphError, match=r"^graph main: nothing makes the output y$"):
        Graph("main", (x,), (y,), ())


def test_dead_nodes_and_constants_go() -> None:
    import numpy as np

    builder = GraphBuilder()
    x = builder.input("x", _floats(2))
    weight = builder.constant(np.ones(2, np.float32))
    kept = builder.call("abs", x)
    builder.call("add", x, weight)
    lean = without_dead_nodes(builder.graph([kept]))
    assert [node.op for node in lean.nodes] == ["abs"]
    assert not lean.constants


def test_a_name_is_registered_once() -> None:
    assert operator_names() == sorted(set(operator_names()))
    with pytest.raises(GraphError, match=r"^operator 'abs' is registered already$"):
        operator("abs")(lambda x: x)

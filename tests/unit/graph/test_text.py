"""Graphs as text, and back."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tilewright.errors import GraphError
from tilewright.graph import GraphBuilder, TensorType, parse_graph

_TEXT = """\
def main(x: float32[1, 8], flag: bool[()]):
    w = constant(float32[16, 8])
    dense = nn.dense(x, w, None)  # float32[1, 16]
    low, high = split(dense, indices_or_sections=[4], axis=1)  # float32[1, 4], float32[1, 12]
    full = full(shape=[1, 4], dtype='float32', fill_value=float('-inf'))  # float32[1, 4]
    where = where(flag, low, full)  # float32[1, 4]
    return where, high
"""


def test_text_is_read_as_it_was_written() -> None:
    assert parse_graph(_TEXT).script() == _TEXT


def test_numbers_that_python_has_no_literal_for() -> None:
    builder = GraphBuilder()
    for number in (math.inf, -math.inf, math.nan):
        builder.call("full", shape=[1], dtype="float32", fill_value=number)
    text = builder.graph([builder.nodes[0].outputs[0]]).script()
    again = parse_graph(text)
    assert [str(node.attrs["fill_value"]) for node in again.nodes] == ["inf", "-inf", "nan"]
    assert again.script() == text


def test_names_that_python_would_not_read() -> None:
    builder = GraphBuilder()
    kind = TensorType((2,), "float32")
    values = [builder.input(name, kind) for name in ("in", "1/x:0", "größe", "", "in")]
    graph = builder.graph([builder.call("add", values[0], values[2])])
    assert parse_graph(graph.script()).script() == graph.script()
    assert len({value.name for value in graph.inputs}) == 5


def test_symbolic_extents_are_the_same_variable() -> None:
    graph = parse_graph("def f(x: float32[n, 4], y: float32[n, 4]):\n    return x, y\n")
    assert graph.inputs[0].type.shape[0] is graph.inputs[1].type.shape[0]
    assert not graph.inputs[0].type.is_static


def test_constants_are_given_beside_the_text() -> None:
    weight = np.arange(128, dtype=np.float32).reshape(16, 8)
    (held,) = parse_graph(_TEXT, {"w": weight}).constants.values()
    np.testing.assert_array_equal(held, weight)
    with pytest.raises(GraphError) as caught:
        parse_graph(_TEXT, {"w": weight[:4]})
    expected = "line 2: constant w is float32[4, 8], the text says float32[16, 8]"
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "a graph is one function, `def main(x: float32[1, 8]): ...`"),
        ("def f(x):\n    return x", "line 1: input x has no type"),
        ("def f(x: int):\n    return x", "line 1: expected a type such as float32[1, 8]"),
        ("def f(x: float32[1.5]):\n    return x", "line 1: 1.5 is not an extent"),
        (
            "def f(x: float32[2]):\n    x + 1\n    return x",
            "line 2: expected `name = operator(...)`",
        ),
        ("def f(x: float32[2]):\n    return y", "line 2: nothing is called y"),
        ("def f(x: float32[2]):\n    y = abs(x)", "line 2: a graph ends with `return`"),
        (
            "def f(x: float32[2]):\n    y = full(shape=open('a'))\n    return y",
            "line 2: open('a') is not a plain value",
        ),
        (
            "def f(x: float32[2]):\n    y = abz(x)\n    return y",
            "abz of float32[2]: there is no operator 'abz'; did you mean 'abs'?",
        ),
        (
            "def f(x: float32[2]):\n    y = cast(x)\n    return y",
            "cast of float32[2]: missing a required argument: 'dtype'",
        ),
        (
            "def f(x: float32[2]):\n    y = abs(x, axis=1)\n    return y",
            "abs of float32[2]: got an unexpected keyword argument 'axis'",
        ),
        (
            "def f(x: float32[2]):\n    y = constant()\n    return y",
            "line 2: expected `name = constant(float32[1, 8])`",
        ),
        (
            "def f(x: float32[2]):\n    y, z = abs(x)\n    return y",
            "line 2: abs has 1 results, not 2",
        ),
    ],
)
def test_text_that_is_no_graph(text: str, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        parse_graph(text)
    assert str(caught.value) == message


def test_text_that_is_no_python() -> None:
    with pytest.raises(GraphError, match=r"^a graph is one function: "):
        parse_graph("def f(:")
    with pytest.raises(GraphError, match=r"^a graph is one function: "):
        parse_graph("")

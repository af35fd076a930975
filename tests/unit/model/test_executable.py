"""Compiled graphs against NumPy: views, shared memory, outputs that are inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tilewright import ir
from tilewright.errors import ArgumentError
from tilewright.graph import Graph, GraphBuilder, GraphValue, TensorType, parse_graph
from tilewright.graph.passes.pipeline import simplify
from tilewright.model import Executable, compile_model
from tilewright.model.kernels import compile_calls
from tilewright.target import Target

_TARGET = Target("llvm")


def _plain(func: ir.PrimFunc, target: Target) -> ir.IRModule:
    return ir.IRModule({str(func.attrs["global_symbol"]): func})


def _compiled(graph: Graph) -> Executable:
    return Executable(graph, compile_calls(graph, _TARGET, _plain))


def _run(text: str, *inputs: Any) -> tuple[Any, ...]:
    return _compiled(parse_graph(text))(*inputs)


def test_inputs_constants_and_views_as_outputs() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    text = """
def main(x: float32[2, 3]):
    c = constant(float32[2])
    flat = reshape(x, newshape=[6])
    twice = add(x, x)
    twice_flat = reshape(twice, newshape=[6])
    return x, c, flat, twice, twice_flat, twice
"""
    given_x, c, flat, twice, twice_flat, again = _run(text, x)
    np.testing.assert_array_equal(given_x, x)
    np.testing.assert_array_equal(c, [0, 0])
    np.testing.assert_array_equal(flat, x.reshape(6))
    np.testing.assert_array_equal(twice, 2 * x)
    np.testing.assert_array_equal(twice_flat, 2 * x.reshape(6))
    np.testing.assert_array_equal(again, 2 * x)
    assert not np.shares_memory(given_x, x)


def test_nodes_that_nobody_reads() -> None:
    x = np.ones(4, np.float32)
    text = """
def main(x: float32[4]):
    a = exp(x)
    low, high = split(x, indices_or_sections=2)
    return high
"""
    np.testing.assert_array_equal(_run(text, x)[0], [1, 1])


def test_masks_take_a_byte_an_element() -> None:
    """Many masks alive at once: each keeps its own bytes."""
    x = np.linspace(-1, 1, 4096, dtype=np.float32)
    text = """
def main(x: float32[4096]):
    zero = constant(float32[()])
    a = less(x, zero)
    b = sort(x)
    c = greater(b, zero)
    d = sort(b)
    e = where(a, d, x)
    f = where(c, e, d)
    return f, a, c
"""
    f, a, c = _run(text, x)
    np.testing.assert_array_equal(a, x < 0)
    np.testing.assert_array_equal(c, x > 0)
    np.testing.assert_array_equal(f, np.where(x > 0, np.where(x < 0, x, x), x))


@pytest.mark.parametrize("op", ["nn.matmul", "matmul", "nn.dense"])
def test_products_of_two_inputs_keep_the_layout_of_both(op: str) -> None:
    """Only constants are packed before a model runs."""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((4, 4)).astype(np.float32) for _ in range(2))
    text = f"def main(a: float32[4, 4], b: float32[4, 4]):\n    y = {op}(a, b)\n    return y\n"
    (made,) = compile_model(parse_graph(text))(a, b)
    np.testing.assert_allclose(made, a @ (b.T if op == "nn.dense" else b), rtol=1e-5, atol=1e-5)


def test_wrong_inputs() -> None:
    executable = _compiled(parse_graph("def main(x: float32[4]):\n    y = exp(x)\n    return y\n"))
    with pytest.raises(ArgumentError) as caught:
        executable()
    assert str(caught.value) == "main takes 1 input (x: float32[4]), got 0"
    with pytest.raises(ArgumentError) as caught:
        executable(np.zeros(4))
    assert str(caught.value) == "input x: expected float32[4], got float64[4]"
    with pytest.raises(ArgumentError) as caught:
        executable(np.zeros((4, 1), np.float32))
    assert str(caught.value) == "input x: expected float32[4], got float32[4, 1]"


def test_strided_inputs_are_copied() -> None:
    executable = _compiled(parse_graph("def main(x: float32[4]):\n    y = abs(x)\n    return y\n"))
    x = -np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(executable(x[::2])[0], [0, 2, 4, 6])


def _deep(graph: GraphBuilder, value: GraphValue) -> GraphValue:
    return graph.call("reshape", value, newshape=[2, 2, 6])


def _flat(graph: GraphBuilder, value: GraphValue) -> GraphValue:
    return graph.call("reshape", value, newshape=[4, 6])


# Operators that keep a 4 x 6 shape, by name: what they are in ours and in NumPy.
Step: TypeAlias = Callable[[GraphBuilder, GraphValue, GraphValue], GraphValue]
_STEPS: dict[str, tuple[Step, Callable[..., Any]]] = {
    "add": (lambda g, a, b: g.call("add", a, b), lambda a, b: a + b),
    "maximum": (lambda g, a, b: g.call("maximum", a, b), np.maximum),
    "negative": (lambda g, a, b: g.call("negative", a), lambda a, b: -a),
    "turn": (
        lambda g, a, b: g.call(
            "reshape", g.call("transpose", a, axes=[1, 0]), newshape=[4, 6]
        ),
        lambda a, b: a.T.reshape(4, 6),
    ),
    "view": (
        lambda g, a, b: g.call("reshape", g.call("reshape", a, newshape=[24]), newshape=[4, 6]),
        lambda a, b: a,
    ),
    "centre": (
        lambda g, a, b: g.call("subtract", a, g.call("max", b, axis=[1], keepdims=True)),
        lambda a, b: a - b.max(axis=1, keepdims=True),
    ),
    "halves": (
        lambda g, a, b: g.call(
            "concatenate",
            *g.calls("split", [a], {"indices_or_sections": 2, "axis": 1})[::-1],
            axis=1,
        ),
        lambda a, b: np.concatenate([a[:, 3:], a[:, :3]], axis=1),
    ),
    "deep": (
        lambda g, a, b: _flat(g, g.call("maximum", _deep(g, a), _deep(g, b))),
        np.maximum,
    ),
    "row": (
        lambda g, a, b: _flat(g, g.call("add", _deep(g, a), g.call("max", b, axis=[0]))),
        lambda a, b: a + b.max(axis=0),
    ),
    "sort": (lambda g, a, b: g.call("sort", a, axis=1), lambda a, b: np.sort(a, axis=1)),
    "choose": (
        lambda g, a, b: g.call("where", g.call("less", a, b), a, b),
        lambda a, b: np.where(a < b, a, b),
    ),
}  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(_STEPS)), st.integers(0, 20), st.integers(0, 20)),
        min_size=1,
        max_size=10,
    ),
    st.lists(st.integers(0, 20), min_size=1, max_size=3),
    st.booleans(),
)
def test_random_graphs_agree_with_numpy(
    steps: list[tuple[str, int, int]], outputs: list[int], simplified: bool
) -> None:
    builder = GraphBuilder()
    values = [builder.input("x", TensorType((4, 6), "float32"))]
    weight = np.arange(24, dtype=np.float32).reshape(4, 6) % 7 - 3
    values.append(builder.constant(weight))
    x = np.arange(24, dtype=np.float32).reshape(4, 6) % 5 - 2
    arrays: list[Any] = [x, weight]
    for name, a, b in steps:
        ours, theirs = _STEPS[name]
        first, second = a % len(values), b % len(values)
        values.append(ours(builder, values[first], values[second]))
        arrays.append(theirs(arrays[first], arrays[second]))
    chosen = [n % len(values) for n in outputs]
    graph = builder.graph([values[n] for n in chosen])
    results = _compiled(simplify(graph) if simplified else graph)(x)
    for n, result in zip(chosen, results, strict=True):
        np.testing.assert_array_equal(result, arrays[n])

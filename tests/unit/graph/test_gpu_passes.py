"""Passes that make graphs ready for GPUs: results stay, and nodes become those that are wanted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.errors import GraphError
from tilewright.graph import Graph, GraphBuilder, TensorType, to_float16
from tilewright.graph.passes.merge_equal_nodes import merge_equal_nodes
from tilewright.graph.passes.pipeline import GPU_PASSES, simplify
from tilewright.model import compile_model

HEADS, WIDTH, TOKENS = 2, 32, 6


def attention_layer(dtype: str, *, shares_input: bool = True, is_causal: bool = False) -> Graph:
    """Attention as a frontend leaves it: linear layers, reshapes and transposes around it."""
    builder, rng = GraphBuilder(), np.random.default_rng(3)
    features = HEADS * WIDTH
    inputs = [
        builder.input(name, TensorType((TOKENS, features), dtype))
        for name in (["x"] if shares_input else ["x", "y", "z"])
    ]

    def heads(number: int) -> Any:
        x = inputs[number % len(inputs)]
        weight = builder.constant((rng.normal(size=(features, features)) / 8).astype(dtype), "w")
        made = builder.call("nn.dense", x, weight)
        if number < 2:
            made = builder.call(
                "add", made, builder.constant(rng.normal(size=features).astype(dtype))
            )
        shaped = builder.call("reshape", made, newshape=[1, TOKENS, HEADS, WIDTH])
        return builder.call("transpose", shaped, axes=[0, 2, 1, 3])

    mixed = builder.call("nn.attention", *map(heads, range(3)), is_causal=is_causal)
    turned = builder.call("transpose", mixed, axes=[0, 2, 1, 3])
    return builder.graph([builder.call("reshape", turned, newshape=[TOKENS, features])])


def results(graph: Graph) -> Any:
    rng = np.random.default_rng(5)
    inputs = [rng.normal(size=v.type.extents).astype(v.type.dtype) for v in graph.inputs]
    return compile_model(graph)(*inputs)


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes if node.op != "reshape"]


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_of_float32_is_two_products_on_one_linear_layer(is_causal: bool) -> None:
    graph = attention_layer("float32", is_causal=is_causal)
    made = simplify(graph, GPU_PASSES)
    parts = ["nn.attention_scores", "nn.attention_weights", "nn.attention_values"]
    assert operators(made) == ["nn.dense", "add", *parts]
    np.testing.assert_allclose(results(made)[0], results(graph)[0], rtol=1e-4, atol=1e-5)


def test_attention_of_float16_is_one_node() -> None:
    graph = attention_layer("float16")
    made = simplify(graph, GPU_PASSES)
    assert operators(made) == ["nn.dense", "add", "nn.head_attention"]
    np.testing.assert_allclose(results(made)[0], results(graph)[0], rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_layers_of_different_inputs_stay_apart(dtype: str) -> None:
    graph = attention_layer(dtype, shares_input=False)
    made = simplify(graph, GPU_PASSES)
    assert operators(made).count("nn.dense") == 3
    assert "transpose" not in operators(made)
    np.testing.assert_allclose(results(made)[0], results(graph)[0], rtol=5e-3, atol=5e-3)


def test_equal_nodes_become_one() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType((2, 3), "float32"))
    same = [builder.call("reshape", x, newshape=[6]) for _ in range(2)]
    other = builder.call("reshape", x, newshape=[3, 2])
    graph = builder.graph([builder.call("add", *same), other])
    made = merge_equal_nodes(graph)
    assert [node.op for node in made.nodes] == ["reshape", "reshape", "add"]
    for a, b in zip(results(made), results(graph), strict=True):
        np.testing.assert_array_equal(a, b)


def test_models_become_float16() -> None:
    graph = attention_layer("float32")
    made = to_float16(graph)
    assert {value.type.dtype for value in made.values()} == {"float16"}
    wanted = results(graph)[0]
    np.testing.assert_allclose(results(made)[0], wanted, rtol=0.02, atol=0.02)


def test_constants_that_float16_cannot_hold_are_refused() -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType((2,), "float32"))
    big = builder.constant(np.array([1.0, 1e6], "float32"), "big")
    graph = builder.graph([builder.call("add", x, big)])
    with pytest.raises(GraphError) as caught:
        to_float16(graph)
    assert str(caught.value) == (
        "the constant big has numbers up to 1e+06, float16 ends at 65504; keep the model in float32"
    )

"""Attention in graphs: found, moved to rows of tokens, its projections merged; the same results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tilewright.graph import Graph, GraphBuilder, GraphValue, TensorType, parse_graph
from tilewright.graph.passes.cancel_transposes import cancel_transposes
from tilewright.graph.passes.find_attention import find_attention
from tilewright.graph.passes.merge_projections import merge_projections
from tilewright.graph.passes.pipeline import simplify
from tilewright.graph.passes.split_heads import split_heads
from tilewright.model import compile_model

TOKENS, HEADS, DEPTH = 9, 3, 4
WIDTH = HEADS * DEPTH


def _ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def _softmax(scores: Any) -> Any:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _attention(arrays: Sequence[Any], mask: Any = 0.0, scale: float = 0.5) -> Any:
    q, k, v = (np.asarray(x, np.float64) for x in arrays)
    return _softmax(q @ np.swapaxes(k, -1, -2) * scale + mask) @ v


# --- finding it ---------------------------------------------------------------------------------

WAYS_TO_SCALE = {
    "none": ("s", 1.0),
    "behind": ("multiply(s, half)", 0.5),
    "behind, number first": ("multiply(half, s)", 0.5),
    "divided": ("divide(s, half)", 2.0),
}


@pytest.mark.parametrize("way", WAYS_TO_SCALE)
@pytest.mark.parametrize("masked", [False, True])
def test_products_around_a_softmax_are_attention(way: str, masked: bool) -> None:
    scaled, scale = WAYS_TO_SCALE[way]
    scaled = f"    t = {scaled}\n" if scaled != "s" else "    t = identity(s)\n"
    scaled = scaled if way != "none" else ""
    scores = "s" if way == "none" else "t"
    add = f"    u = add(m, {scores})\n" if masked else ""
    text = (
        "def main(q: float32[1, 3, 9, 4], k: float32[1, 3, 7, 4], v: float32[1, 3, 7, 4], "
        "m: float32[1, 1, 9, 7]):\n"
        "    half = constant(float32[()])\n"
        "    kt = transpose(k, axes=[0, 1, 3, 2])\n"
        "    s = matmul(q, kt)\n"
        f"{scaled}{add}"
        f"    p = nn.softmax({'u' if masked else scores}, axis=-1)\n"
        "    y = matmul(p, v)\n"
        "    return y\n"
    )
    graph = find_attention(parse_graph(text, {"half": np.float32(0.5)}))
    (node,) = (node for node in graph.nodes if node.op == "nn.attention")
    assert not {"nn.softmax", "matmul"} & set(_ops(graph))
    assert node.attrs["scale"] == pytest.approx(scale)
    assert (node.inputs[3] is None) is not masked
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(v.type.extents).astype("float32") for v in graph.inputs]
    (made,) = compile_model(graph)(*arrays)
    wanted = _attention(arrays[:3], arrays[3] if masked else 0.0, scale)
    np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5)


def test_scales_on_both_operands_and_zeros_for_nan() -> None:
    text = """
def main(q: float32[1, 3, 9, 4], x: float32[1, 7, 3, 4], v: float32[1, 3, 7, 4]):
    part = constant(float32[1])
    zero = constant(float32[()])
    kt = transpose(x, axes=[0, 2, 3, 1])
    a = multiply(q, part)
    b = multiply(kt, part)
    s = matmul(a, b)
    p = nn.softmax(s, axis=3)
    n = isnan(p)
    w = where(n, zero, p)
    y = matmul(w, v)
    return y
"""
    graph = find_attention(parse_graph(text, {"part": np.asarray([0.5], "float32")}))
    (node,) = (node for node in graph.nodes if node.op == "nn.attention")
    assert node.attrs["scale"] == pytest.approx(0.25)
    rng = np.random.default_rng(1)
    q, x, v = (rng.standard_normal(i.type.extents).astype("float32") for i in graph.inputs)
    wanted = _attention([q, x.transpose(0, 2, 1, 3), v], scale=0.25)
    np.testing.assert_allclose(compile_model(graph)(q, x, v)[0], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("lines", "outputs"),
    [
        ("s = matmul(q, k)\n    p = nn.softmax(s, axis=2)\n    y = matmul(p, v)", "y"),
        ("s = matmul(q, k)\n    p = nn.softmax(s, axis=-1)\n    y = matmul(p, v)", "y, p"),
        ("s = matmul(q, k)\n    p = nn.softmax(s, axis=-1)\n    y = matmul(p, v)", "y, s"),
        ("s = matmul(q, k)\n    e = exp(s)\n    y = matmul(e, v)", "y"),
    ],
)
def test_what_only_looks_like_attention_stays(lines: str, outputs: str) -> None:
    """A softmax along queries; weights or scores that somebody else wants; no softmax at all."""
    text = (
        "def main(q: float32[1, 2, 5, 5], x: float32[1, 2, 5, 5], v: float32[1, 2, 5, 5]):\n"
        "    k = transpose(x, axes=[0, 1, 3, 2])\n"
        f"    {lines}\n    return {outputs}\n"
    )
    assert "nn.attention" not in _ops(find_attention(parse_graph(text)))


# --- transpositions -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ([[1, 0, 2], [1, 0, 2]], []),
        ([[1, 2, 0], [1, 2, 0]], ["transpose"]),
        ([[1, 2, 0], [1, 2, 0], [1, 2, 0]], []),
        ([[2, 1, 0]], ["transpose"]),
        ([[0, 1, 2]], []),
    ],
)
def test_transpositions_in_a_row(axes: list[list[int]], expected: list[str]) -> None:
    builder = GraphBuilder()
    x = value = builder.input("x", TensorType((2, 3, 4), "float32"))
    array = wanted = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for one in axes:
        value, wanted = builder.call("transpose", value, axes=one), wanted.transpose(one)
    value = builder.call("negative", value)
    graph = cancel_transposes(builder.graph([value]))
    assert _ops(graph) == [*expected, "negative"]
    np.testing.assert_array_equal(compile_model(graph)(array)[0], -wanted)
    assert x.name == "x"


def test_axes_of_one_element_are_moved_by_a_view() -> None:
    text = (
        "def main(x: float32[1, 5, 1, 4]):\n    y = transpose(x, axes=[1, 2, 0, 3])\n    return y\n"
    )
    graph = cancel_transposes(parse_graph(text))
    assert _ops(graph) == ["reshape"]
    assert graph.outputs[0].type.shape == (5, 1, 1, 4)


# --- heads --------------------------------------------------------------------------------------


def _linear(builder: GraphBuilder, x: GraphValue, name: str, op: str) -> tuple[GraphValue, Any]:
    rng = np.random.default_rng(len(builder.constants))
    weight = rng.standard_normal((WIDTH, WIDTH)).astype("float32")
    bias = rng.standard_normal(WIDTH).astype("float32")
    product = builder.call(op, x, builder.constant(weight, f"w{name}"))
    made = builder.call("add", product, builder.constant(bias, f"b{name}"))

    def expected(rows: Any) -> Any:
        own = weight.T if op == "nn.dense" else weight
        return np.asarray(rows, np.float64) @ own + bias

    return made, expected


def _self_attention(op: str, batch: int, **attrs: Any) -> tuple[Graph, Callable[[Any], Any]]:
    """A layer of self-attention as importers make it, and NumPy's."""
    builder = GraphBuilder()
    x = builder.input("x", TensorType((batch * TOKENS, WIDTH), "float32"))
    heads, expected = [], []
    for name in "qkv":
        value, function = _linear(builder, x, name, op)
        split = builder.call("reshape", value, newshape=[batch, TOKENS, HEADS, DEPTH])
        heads.append(builder.call("transpose", split, axes=[0, 2, 1, 3]))
        expected.append(function)
    mixed = builder.call("nn.attention", *heads, None, **attrs)
    joined = builder.call("transpose", mixed, axes=[0, 2, 1, 3])
    result = builder.call("reshape", joined, newshape=[batch * TOKENS, WIDTH])

    def reference(rows: Any) -> Any:
        own = [f(rows).reshape(batch, TOKENS, HEADS, DEPTH).transpose(0, 2, 1, 3) for f in expected]
        order = np.arange(TOKENS)
        unseen = np.where(order[None] <= order[:, None], 0.0, -np.inf)
        mask = unseen if attrs.get("is_causal") else 0.0
        mixed = _attention(own, mask, attrs.get("scale") or DEPTH**-0.5)
        return mixed.transpose(0, 2, 1, 3).reshape(batch * TOKENS, WIDTH)

    return builder.graph([result]), reference


@pytest.mark.parametrize("op", ["nn.dense", "nn.matmul"])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("attrs", [{}, {"is_causal": True}, {"scale": 0.3}], ids=str)
def test_self_attention_is_one_product_and_one_kernel(
    op: str, batch: int, attrs: dict[str, Any]
) -> None:
    graph, reference = _self_attention(op, batch, **attrs)
    simple = simplify(graph)
    assert [one for one in _ops(simple) if one != "reshape"] == [op, "add", "nn.head_attention"]
    (node,) = (node for node in simple.nodes if node.op == "nn.head_attention")
    assert node.attrs["offsets"] == [0, WIDTH, 2 * WIDTH]
    rows = np.random.default_rng(2).standard_normal((batch * TOKENS, WIDTH)).astype("float32")
    np.testing.assert_allclose(compile_model(graph)(rows)[0], reference(rows), rtol=1e-4, atol=1e-4)


def test_projections_that_somebody_else_reads_stay_apart() -> None:
    graph, _ = _self_attention("nn.dense", 1)
    query = next(node.outputs[0] for node in graph.nodes if node.op == "add")
    both = Graph(graph.name, graph.inputs, (*graph.outputs, query), graph.nodes, graph.constants)
    merged = merge_projections(split_heads(both))
    assert _ops(merged).count("nn.dense") == 3


def test_attention_without_rows_behind_it_is_a_batch_of_single_heads() -> None:
    text = """
def main(q: float32[2, 3, 9, 4], k: float32[2, 3, 7, 4], v: float32[2, 3, 7, 4], m: bool[9, 7]):
    y = nn.attention(q, k, v, m, is_causal=False, scale=None)
    return y
"""
    graph = parse_graph(text)
    simple = split_heads(graph)
    (node,) = (node for node in simple.nodes if node.op == "nn.head_attention")
    assert node.attrs["heads"] == 1
    assert node.outputs[0].type.shape == (6, 9, 1, 4)
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal(i.type.extents).astype("float32") for i in graph.inputs[:3])
    seen = rng.random((9, 7)) < 0.7
    seen[0] = True
    wanted = _attention([q, k, v], np.where(seen, 0.0, -np.inf))
    np.testing.assert_allclose(compile_model(graph)(q, k, v, seen)[0], wanted, rtol=1e-4, atol=1e-5)


def test_a_mask_of_some_heads_leaves_attention_as_it_is() -> None:
    text = """
def main(q: float32[2, 3, 9, 4], k: float32[2, 3, 7, 4], v: float32[2, 3, 7, 4], m: bool[3, 9, 7]):
    y = nn.attention(q, k, v, m, is_causal=False, scale=None)
    return y
"""
    assert _ops(split_heads(parse_graph(text))) == ["nn.attention"]


def test_deep_values_leave_attention_as_it_is() -> None:
    text = """
def main(q: float32[2, 9, 4], k: float32[2, 7, 4], v: float32[2, 7, 8]):
    y = nn.attention(q, k, v, None, is_causal=False, scale=None)
    return y
"""
    assert _ops(split_heads(parse_graph(text))) == ["nn.attention"]


_PATCHES = """
def main(x: float32[2, 3, 4, 5]):
    a = transpose(x, axes=[0, 3, 1, 2])
    b = reshape(a, newshape={shape})
    c = transpose(b, axes={axes})
    return c
"""


@pytest.mark.parametrize(
    ("shape", "axes", "operators"),
    [
        ([2, 5, 12], [0, 2, 1], ["reshape"]),  # patches of an image, as rows
        ([2, 5, 12], [1, 0, 2], ["reshape", "transpose"]),  # one transposition is left
        ([2, 1, 5, 12], [0, 1, 3, 2], ["transpose", "reshape", "transpose"]),
        ([10, 12], [1, 0], ["transpose", "reshape", "transpose"]),  # axes that were no neighbours
        ([2, 60], [1, 0], ["transpose", "reshape", "transpose"]),
        ([2, 5, 6, 2], [0, 2, 3, 1], ["transpose", "reshape", "transpose"]),  # one is split
    ],
)
def test_a_reshape_between_two_transpositions(
    shape: list[int], axes: list[int], operators: list[str]
) -> None:
    graph = parse_graph(_PATCHES.format(shape=shape, axes=axes))
    simple = cancel_transposes(graph)
    assert [node.op for node in simple.nodes] == operators
    x = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
    expected = x.transpose(0, 3, 1, 2).reshape(shape).transpose(axes)
    np.testing.assert_array_equal(compile_model(simple)(x)[0], expected)

"""Random graphs of the layers of transformers, simplified and run, against NumPy in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from hypothesis import given, settings, strategies as st

from tilewright import ir
from tilewright.graph import GraphBuilder, GraphValue, TensorType
from tilewright.graph.passes.pipeline import simplify
from tilewright.model import Executable
from tilewright.model.kernels import compile_calls
from tilewright.target import Target

TOKENS, HEADS, DEPTH = 5, 2, 4
WIDTH = HEADS * DEPTH
SHAPE = (1, TOKENS, WIDTH)
RNG = np.random.default_rng(5)
WEIGHTS = [RNG.standard_normal((WIDTH, WIDTH)).astype("float32") for _ in range(3)]
ROW = RNG.standard_normal(WIDTH).astype("float32")
MASK = np.where(np.tri(TOKENS) > 0, 0.0, -np.inf).astype("float32")

Layer: TypeAlias = Callable[[GraphBuilder, GraphValue, GraphValue], GraphValue]
Reference: TypeAlias = Callable[[Any, Any], Any]


def _number(graph: GraphBuilder, value: float) -> GraphValue:
    return graph.constant(np.float32(value))


def _linear(graph: GraphBuilder, x: GraphValue, weight: Any) -> GraphValue:
    flat = graph.call("reshape", x, newshape=[TOKENS, WIDTH])
    product = graph.call("nn.dense", flat, graph.constant(weight))
    whole = graph.call("reshape", product, newshape=list(SHAPE))
    return graph.call("add", graph.constant(ROW), whole)


def _heads(graph: GraphBuilder, x: GraphValue, axes: list[int]) -> GraphValue:
    split = graph.call("reshape", x, newshape=[1, TOKENS, HEADS, DEPTH])
    return graph.call("transpose", split, axes=axes)


def _written_out(mask: Any, divided: bool) -> Layer:
    """Attention of x to y, as exporters write it."""

    def layer(graph: GraphBuilder, x: GraphValue, y: GraphValue) -> GraphValue:
        query = _heads(graph, _linear(graph, x, WEIGHTS[0]), [0, 2, 1, 3])
        key = _heads(graph, _linear(graph, y, WEIGHTS[1]), [0, 2, 3, 1])
        value = _heads(graph, _linear(graph, y, WEIGHTS[2]), [0, 2, 1, 3])
        scores = graph.call("matmul", query, key)
        if divided:
            scores = graph.call("divide", scores, _number(graph, math.sqrt(DEPTH)))
        else:
            scores = graph.call("multiply", _number(graph, DEPTH**-0.5), scores)
        if mask is not None:
            scores = graph.call("add", scores, graph.constant(mask))
        weights = graph.call("nn.softmax", scores, axis=-1)
        return _joined(graph, graph.call("matmul", weights, value))

    return layer


def _joined(graph: GraphBuilder, mixed: GraphValue) -> GraphValue:
    rows = graph.call("transpose", mixed, axes=[0, 2, 1, 3])
    return graph.call("reshape", rows, newshape=list(SHAPE))


def _whole(graph: GraphBuilder, x: GraphValue, y: GraphValue) -> GraphValue:
    parts = zip((x, y, y), WEIGHTS, strict=True)
    operands = [_heads(graph, _linear(graph, own, w), [0, 2, 1, 3]) for own, w in parts]
    return _joined(graph, graph.call("nn.attention", *operands, None, is_causal=True, scale=None))


def _attention(x: Any, y: Any, mask: Any = 0.0) -> Any:
    def heads(rows: Any, weight: Any) -> Any:
        return (rows @ weight.T + ROW).reshape(1, TOKENS, HEADS, DEPTH).transpose(0, 2, 1, 3)

    q, k, v = (heads(own, w) for own, w in zip((x, y, y), WEIGHTS, strict=True))
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(DEPTH) + mask
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = powers / powers.sum(-1, keepdims=True) @ v
    return mixed.transpose(0, 2, 1, 3).reshape(SHAPE)


def _norm(x: Any, y: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * ROW + ROW


def _norm_by_parts(graph: GraphBuilder, x: GraphValue, _: GraphValue) -> GraphValue:
    centred = graph.call("subtract", x, graph.call("mean", x, axis=[-1], keepdims=True))
    square = graph.call("multiply", centred, centred)
    variance = graph.call("mean", square, axis=[-1], keepdims=True)
    root = graph.call("sqrt", graph.call("add", variance, _number(graph, 1e-5)))
    scaled = graph.call("multiply", graph.call("divide", centred, root), graph.constant(ROW))
    return graph.call("add", scaled, graph.constant(ROW))


def _gelu(graph: GraphBuilder, x: GraphValue, _: GraphValue) -> GraphValue:
    shifted = graph.call("divide", x, _number(graph, math.sqrt(2)))
    one = graph.call("add", graph.call("erf", shifted), _number(graph, 1.0))
    return graph.call("multiply", graph.call("multiply", x, one), _number(graph, 0.5))


def _turned_twice(graph: GraphBuilder, x: GraphValue, _: GraphValue) -> GraphValue:
    turned = graph.call("nn.relu", graph.call("transpose", x, axes=[2, 0, 1]))
    return graph.call("transpose", turned, axes=[1, 2, 0])


_erf = np.vectorize(math.erf)
LAYERS: dict[str, tuple[Layer, Reference]] = {
    "linear": (
        lambda g, x, y: _linear(g, x, WEIGHTS[0]),
        lambda x, y: x @ WEIGHTS[0].T + ROW,
    ),
    "residual": (lambda g, x, y: g.call("add", x, y), lambda x, y: x + y),
    "attention": (_whole, lambda x, y: _attention(x, y, MASK)),
    "attention, divided": (_written_out(None, True), _attention),
    "attention, masked": (_written_out(MASK, False), lambda x, y: _attention(x, y, MASK)),
    "norm": (
        lambda g, x, y: g.call(
            "nn.layer_norm", x, g.constant(ROW), g.constant(ROW), axis=[2], epsilon=1e-5
        ),
        _norm,
    ),
    "norm by parts": (_norm_by_parts, _norm),
    "gelu": (_gelu, lambda x, y: x * (1 + _erf(x / math.sqrt(2))) / 2),
    "turned twice": (_turned_twice, lambda x, y: np.maximum(x, 0)),
    "bounded": (lambda g, x, y: g.call("tanh", x), lambda x, y: np.tanh(x)),
}  # fmt: skip


def _plain(func: ir.PrimFunc, target: Target) -> ir.IRModule:
    return ir.IRModule({str(func.attrs["global_symbol"]): func})


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(LAYERS)), st.integers(0, 9), st.integers(0, 9)),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 9),
)
def test_layers_agree_with_numpy(steps: list[tuple[str, int, int]], other: int) -> None:
    builder = GraphBuilder()
    x = np.random.default_rng(7).standard_normal(SHAPE).astype("float32")
    values, arrays = [builder.input("x", TensorType(SHAPE, "float32"))], [np.float64(x)]
    for name, a, b in steps:
        layer, reference = LAYERS[name]
        first, second = a % len(values), b % len(values)
        values.append(layer(builder, values[first], values[second]))
        arrays.append(reference(arrays[first], arrays[second]))
    chosen = [len(values) - 1, other % len(values)]
    simple = simplify(builder.graph([values[n] for n in chosen]))
    results = Executable(simple, compile_calls(simple, Target("llvm"), _plain))(x)
    for n, result in zip(chosen, results, strict=True):
        largest = float(np.abs(arrays[n]).max())
        np.testing.assert_allclose(result, arrays[n], rtol=1e-3, atol=1e-4 * max(1.0, largest))

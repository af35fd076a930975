"""Quantized models as a whole: one kernel a layer, checked, saved and loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.graph import Graph, GraphBuilder, GraphValue, TensorType
from tilewright.model import CompiledModel, compile_model, load

_CONV: dict[str, Any] = {
    "strides": [1, 1],
    "padding": [1, 1, 1, 1],
    "dilation": [1, 1],
    "groups": 1,
}


def _parameters(graph: GraphBuilder, scale: float, zero: int, dtype: str) -> list[GraphValue]:
    return [graph.constant(np.float32(scale)), graph.constant(np.array(zero, dtype))]


def _requantized(graph: GraphBuilder, value: GraphValue, scale: float, zero: int) -> GraphValue:
    own = _parameters(graph, scale, zero, "int8")
    return graph.call("qnn.dequantize", graph.call("qnn.quantize", value, *own, dtype="int8"), *own)


def _network() -> Graph:
    """Two convolutions with a residual between bytes."""
    random = np.random.default_rng(0)
    graph = GraphBuilder()
    x = _requantized(graph, graph.input("x", TensorType((1, 16, 6, 6), "float32")), 0.02, 3)
    result = x
    for _ in range(2):
        weights = graph.constant(random.integers(-128, 128, (16, 16, 3, 3)).astype(np.int8))
        scales = graph.constant(random.uniform(1e-3, 2e-3, (16, 1, 1, 1)).astype(np.float32))
        weight = graph.call("qnn.dequantize", weights, scales)
        result = graph.call("nn.relu", graph.call("nn.conv2d", result, weight, **_CONV))
        result = _requantized(graph, result, 0.03, -128)
    return graph.graph([_requantized(graph, graph.call("add", result, x), 0.04, -60)])


@pytest.fixture(scope="module")
def graph() -> Graph:
    return _network()


@pytest.fixture(scope="module")
def model(graph: Graph) -> CompiledModel:
    return compile_model(graph)


def _input() -> Any:
    return np.random.default_rng(1).standard_normal((1, 16, 6, 6)).astype(np.float32)


def test_a_layer_is_one_kernel(model: CompiledModel) -> None:
    names = [call.group.name for call in model.calls]  # type: ignore[union-attr]
    layers = [name for name in names if "conv2d" in name]
    assert layers == [
        "fused_qnn_conv2d_qnn_requantize",
        "fused_qnn_conv2d_qnn_requantize_qnn_add_qnn_dequantize",
    ]
    assert len(names) <= 4  # the others bring input and output into their order


def test_kernels_are_checked(graph: Graph, model: CompiledModel) -> None:
    report = model.check(graph, _input())
    assert report.is_right, str(report)


def test_saved_and_loaded(model: CompiledModel, tmp_path: Path) -> None:
    model.save(tmp_path / "net.tilewright")
    again = load(tmp_path / "net.tilewright")
    np.testing.assert_array_equal(again(_input())[0], model(_input())[0])

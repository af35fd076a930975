"""Small networks from PyTorch and ONNX through everything that a compiled model does."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.graph import Graph
from tilewright.model import CompiledModel, compile_model, load


def _residual_network(torch: Any) -> tuple[Any, Any]:
    """Convolutions with batch norms, a shortcut, a pool and a classifier."""
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
            self.second = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8))

        def forward(self, x: Any) -> Any:
            return torch.relu(x + self.second(self.first(x)))

    stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    model = nn.Sequential(stem, Block(), Block(), head).eval()
    return model, torch.randn(2, 3, 32, 32)


def _transformer(torch: Any) -> tuple[Any, Any]:
    """Attention, norms and an activation."""
    nn = torch.nn

    class Layer(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)
            self.parts, self.joined = nn.Linear(32, 96), nn.Linear(32, 32)
            self.wide = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

        def forward(self, x: Any) -> Any:
            parts = self.parts(self.norm(x)).chunk(3, dim=-1)
            q, k, v = (p.reshape(1, 12, 4, 8).transpose(1, 2) for p in parts)
            made = nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + self.joined(made.transpose(1, 2).reshape(1, 12, 32))
            return x + self.wide(self.norm2(x))

    return nn.Sequential(Layer(), Layer()).eval(), torch.randn(1, 12, 32)


def _compiled(make: Callable[[Any], tuple[Any, Any]]) -> tuple[Graph, CompiledModel, Any, Any]:
    torch = pytest.importorskip("torch")
    from tilewright.frontend.torch import import_exported

    torch.manual_seed(0)
    model, x = make(torch)
    with torch.no_grad():
        graph = import_exported(torch.export.export(model, (x,)))
        return graph, compile_model(graph), x, model(x).numpy()


@pytest.mark.parametrize("make", [_residual_network, _transformer])
@pytest.mark.filterwarnings("ignore")  # of PyTorch's export
def test_a_network_of_pytorch(make: Callable[[Any], tuple[Any, Any]], tmp_path: Path) -> None:
    """Run with tensors, checked, saved and loaded, exported and called as C calls it."""
    graph, executable, x, expected = _compiled(make)
    (made,) = executable(x)
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(executable(x, threads=1)[0], made)  # to the last bit
    report = executable.check(graph, x)
    assert report.is_right, report
    assert report.unchecked == ()
    loaded = load(executable.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded(x)[0], made)
    assert any(step.sources for step in loaded.profile(x, repeats=1))
    executable.export_library(tmp_path / "model.so")
    again = np.empty_like(made)
    inputs, outputs = ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(again.ctypes.data)
    library = ctypes.CDLL(str(tmp_path / "model.so"))
    assert library.model_run(ctypes.byref(inputs), ctypes.byref(outputs)) == 0
    np.testing.assert_array_equal(again, made)


def _onnx_network(onnx: Any) -> Any:
    helper, numbers = onnx.helper, np.random.default_rng(0)
    weights = {
        "w": numbers.standard_normal((6, 3, 3, 3)), "b": numbers.standard_normal(6),
        "v": numbers.standard_normal((6, 4)),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="/conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="/relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="/pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="/flat"),
        helper.make_node("MatMul", ["f", "v"], ["m"], name="/product"),
        helper.make_node("Softmax", ["m"], ["y"], name="/softmax", axis=1),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [value("x", onnx.TensorProto.FLOAT, [1, 3, 8, 8])],
        [value("y", onnx.TensorProto.FLOAT, [1, 4])],
        [onnx.numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_layers_of_onnxruntime_as_the_reference() -> None:
    """Its intermediate results, by the names of the nodes, agree; one that does not is found."""
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from tilewright.frontend.onnx import import_onnx

    model = _onnx_network(onnx)
    graph = import_onnx(model.SerializeToString())
    executable = compile_model(graph)
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=n.output[0]) for n in model.graph.node)
    session = runtime.InferenceSession(model.SerializeToString())
    nodes = [node.name for node in model.graph.node]

    def layers(inputs: Mapping[str, Any]) -> dict[str, Any]:
        return dict(zip(nodes, session.run(None, dict(inputs)), strict=True))

    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    report = executable.check(graph, x, reference=layers)
    assert report.is_right, report
    assert {name for check in report.layers for name in check.nodes} >= {"/relu", "/softmax"}

    def wrong_from_relu_on(inputs: Mapping[str, Any]) -> dict[str, Any]:
        found = layers(inputs)
        return {name: a if name == "/conv" else a + 1 for name, a in found.items()}

    first = executable.check(graph, x, reference=wrong_from_relu_on).first
    assert first is not None
    assert "/relu" in first.nodes

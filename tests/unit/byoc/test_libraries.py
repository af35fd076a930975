"""The flow of TVM's test of TensorRT, with each library that runs parts of graphs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable

import numpy as np
import pytest

from tilewright.byoc import external_nodes, partition, partition_for_onnxruntime
from tilewright.errors import GraphError, TuneError
from tilewright.graph import Graph, GraphBuilder, GraphValue, TensorType
from tilewright.graph.graph import Array
from tilewright.measure import EvaluatorConfig, LocalBuilder, LocalRunner
from tilewright.model import compile_model
from tilewright.records import BuilderInput, RunnerInput, TensorInfo
from tilewright.target import Target
from tilewright.testing import custom_builder_runner as hooks

LIBRARIES = ("onnxruntime", "openvino")
BUILD = {
    "ours": hooks.build_graph,
    "onnxruntime": hooks.build_graph_with_onnxruntime,
    "openvino": hooks.build_graph_with_openvino,
    "tensorrt": hooks.build_graph_with_tensorrt,
}


def need(library: str) -> None:
    for package in ("onnx", library):
        if package != "ours" and importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


def normal(*shape: int) -> Array:
    return (np.random.default_rng(0).standard_normal(shape) / 8).astype(np.float32)


def conv_add_relu() -> Graph:
    """TVM's first case, smaller: a 1x1 convolution, twice itself, an activation."""
    builder = GraphBuilder()
    x = builder.input("data", TensorType((1, 64, 14, 14), "float32"))
    weight = builder.constant(normal(32, 64, 1, 1), "weight")
    conv = builder.call("nn.conv2d", x, weight, strides=[1, 1], padding=[0, 0, 0, 0])
    return builder.graph([builder.call("nn.relu", builder.call("add", conv, conv))])


def residual_network() -> Graph:
    """A stem, a block as ResNet has them, with batch norms, and a classifier."""
    builder = GraphBuilder()
    x = builder.input("data", TensorType((1, 3, 32, 32), "float32"))
    x = _conv(builder, x, 16, 3, 2)
    x = builder.call(
        "nn.pool2d", x, kernel=[3, 3], stride=[2, 2], dilation=[1, 1], padding=[1, 1, 1, 1],
        pool_type="max",
    )  # fmt: skip
    short = _conv(builder, x, 32, 1, 2, act=False)
    body = _conv(builder, _conv(builder, x, 32, 3, 2), 32, 3, 1, act=False)
    x = builder.call("nn.relu", builder.call("add", body, short))
    x = builder.call("mean", x, axis=[2, 3])
    return builder.graph([builder.call("nn.dense", x, builder.constant(normal(10, 32)))])


def _conv(
    builder: GraphBuilder, x: GraphValue, channels: int, kernel: int, stride: int, act: bool = True
) -> GraphValue:
    weight = builder.constant(normal(channels, x.type.extents[1], kernel, kernel))
    pad = [kernel // 2] * 4
    x = builder.call("nn.conv2d", x, weight, strides=[stride, stride], padding=pad)
    numbers = [np.abs(normal(channels)) + 0.5, normal(channels), normal(channels),
               np.abs(normal(channels)) + 0.5]  # fmt: skip
    x = builder.call("nn.batch_norm", x, *map(builder.constant, numbers))
    return builder.call("nn.relu", x) if act else x


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("make", [conv_add_relu, residual_network])
def test_parts_compute_the_same(library: str, make: Callable[[], Graph]) -> None:
    need(library)
    graph = make()
    parts = partition(graph, library)
    assert len(external_nodes(parts, library)) == len(parts.nodes) == 1
    x = normal(*graph.inputs[0].type.extents) * 8
    (found,), (wanted,) = compile_model(parts)(x), compile_model(graph)(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("library", ["ours", *LIBRARIES])
@pytest.mark.parametrize("make", [conv_add_relu, residual_network])
def test_the_flow(library: str, make: Callable[[], Graph]) -> None:
    need(library)
    mod, params = hooks.graph_module(make())
    builder = LocalBuilder(
        f_build=BUILD[library], f_export=hooks.export_graph, timeout_sec=120, max_workers=1
    )
    runner = LocalRunner(
        timeout_sec=120,
        evaluator_config=EvaluatorConfig(number=5, repeat=2, min_repeat_ms=0),
        f_load=hooks.load_graph,
        f_run_evaluator=hooks.run_with_graph_executor,
    )
    target = Target("llvm")
    (built,) = builder.build([BuilderInput(mod, target, params)])
    assert built.error_msg is None
    assert built.artifact_path is not None
    shape = make().inputs[0].type.extents
    info = (TensorInfo("float32", shape),)
    (future,) = runner.run([RunnerInput(built.artifact_path, target.kind.name, info)])
    result = future.result()
    assert result.error_msg is None
    assert result.run_secs is not None
    assert len(result.run_secs) == 2
    assert all(secs >= 0 for secs in result.run_secs)


def test_a_part_that_onnx_cannot_say_stays_ours() -> None:
    need("onnxruntime")
    builder = GraphBuilder()
    x = builder.input("x", TensorType((4, 8), "float32"))
    a = builder.call("nn.dense", x, builder.constant(normal(8, 8)))
    b = builder.call("cosh", a)
    graph = builder.graph([builder.call("nn.dense", b, builder.constant(normal(8, 8)))])
    parts = partition_for_onnxruntime(graph)
    assert [node.op for node in parts.nodes] == ["external", "cosh", "external"]
    (found,), (wanted,) = compile_model(parts)(normal(4, 8)), compile_model(graph)(normal(4, 8))
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


@pytest.mark.parametrize(
    ("library", "why"),
    [
        ("tensorrt",
         "running a part of a model with TensorRT needs the package tensorrt and an "
         "NVIDIA GPU: pip install tensorrt 'tilewright[cuda]'"),
        ("openvino",
         "running a part of a model with OpenVINO needs the package openvino: "
         "pip install openvino"),
        ("onnxruntime",
         "running a part of a model with onnxruntime needs the package onnxruntime: "
         "pip install onnxruntime"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said(library: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    need("onnx")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(GraphError) as error:
        compile_model(partition(conv_add_relu(), library))
    assert str(error.value) == why


def test_what_is_loaded_by_a_hook_is_run_by_one() -> None:
    with pytest.raises(TuneError) as error:
        LocalRunner(f_load=hooks.load_graph)
    assert str(error.value) == ("LocalRunner: what f_load loads needs an f_run_evaluator to run it")

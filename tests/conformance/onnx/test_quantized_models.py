"""Networks that onnxruntime's quantizer made, against onnxruntime, layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.frontend.onnx import import_onnx
from tilewright.graph.passes.pipeline import simplify
from tilewright.model import Executable, compile_model
from tilewright.model.kernels import compile_calls
from tilewright.target import Target
from tilewright.testing.onnx_conformance import without_schedule

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
quantization = pytest.importorskip("onnxruntime.quantization")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

pytestmark = pytest.mark.onnx

_RANDOM = np.random.default_rng(0)
_LAYERS = frozenset(
    {"QuantizeLinear", "QLinearConv", "QLinearAdd", "QLinearGlobalAveragePool", "QGemm"}
)


def _weights(*shape: int) -> Any:
    return (_RANDOM.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def _network() -> Any:
    """Convolutions of several kinds, a residual, pools, activations, a product."""
    arrays = {
        "w1": _weights(8, 3, 3, 3), "b1": _weights(8, 1).reshape(8), "w2": _weights(8, 8, 3, 3),
        "b2": _weights(8, 1).reshape(8), "w3": _weights(8, 1, 3, 3), "w4": _weights(20, 8, 1, 1),
        "w5": _weights(20, 5), "b5": _weights(5, 1).reshape(5), "low": np.float32(0),
        "high": np.float32(6),
    }  # fmt: skip
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], strides=[2, 2], **window),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], **window),
        helper.make_node("Add", ["c2", "r1"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["r2"]),
        helper.make_node("MaxPool", ["r2"], ["p"], strides=[2, 2], **window),
        helper.make_node("Conv", ["p", "w3"], ["c3"], group=8, **window),
        helper.make_node("Clip", ["c3", "low", "high"], ["k"]),
        helper.make_node("Conv", ["k", "w4"], ["c4"], kernel_shape=[1, 1]),
        helper.make_node("Sigmoid", ["c4"], ["s"]),
        helper.make_node("Mul", ["s", "c4"], ["m"]),
        helper.make_node("GlobalAveragePool", ["m"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w5", "b5"], ["y"]),
    ]
    constants = [numpy_helper.from_array(np.asarray(a), name) for name, a in arrays.items()]
    x, y = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 3, 12, 12]), ("y", [1, 5]))
    )
    graph = helper.make_graph(nodes, "main", [x], [y], constants)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


class _Inputs(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        self._inputs = iter([{"x": _input(seed)} for seed in range(2)])

    def get_next(self) -> Any:
        return next(self._inputs, None)


def _input(seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal((1, 3, 12, 12)).astype(np.float32)


def _quantized(folder: Path, scheme: str) -> Any:
    source, target = str(folder / "plain.onnx"), str(folder / "quantized.onnx")
    onnx.save(_network(), source)
    if scheme == "dynamic":
        quantization.quantize_dynamic(source, target)
        return onnx.load(target)
    kinds = quantization.QuantType
    quantization.quantize_static(
        source,
        target,
        _Inputs(),
        quant_format=getattr(quantization.QuantFormat, scheme.split("-")[0]),
        per_channel="tensor" not in scheme,
        activation_type=kinds.QInt8 if "int8" in scheme else kinds.QUInt8,
        weight_type=kinds.QUInt8 if "unsigned" in scheme else kinds.QInt8,
    )
    return onnx.load(target)


def _with_layers_as_outputs(model: Any) -> list[str]:
    names = [node.output[0] for node in model.graph.node if node.op_type in _LAYERS]
    model.graph.output.extend(map(helper.make_empty_tensor_value_info, names))
    return names


def _theirs(model: Any, given: Any) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers)
    return list(session.run(None, {"x": given}))


@pytest.mark.parametrize(
    "scheme", ["QDQ", "QDQ-int8", "QDQ-tensor", "QDQ-tensor-unsigned", "QOperator"]
)
def test_layers(tmp_path: Path, scheme: str) -> None:
    model = _quantized(tmp_path, scheme)
    names = _with_layers_as_outputs(model)
    assert len(names) >= 8
    graph = simplify(import_onnx(bytes(model.SerializeToString())))
    ops = [node.op for node in graph.nodes]
    assert ops.count("qnn.conv2d") >= 4  # more where weights have a zero point
    assert "nn.conv2d" not in ops
    made = Executable(graph, compile_calls(graph, Target("llvm"), without_schedule))(_input(7))
    for name, ours, theirs in zip(names, made[1:], _theirs(model, _input(7))[1:], strict=True):
        assert ours.dtype == theirs.dtype
        assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= 1, name


@pytest.mark.parametrize("scheme", ["QDQ", "QDQ-int8", "QOperator", "dynamic"])
def test_whole_networks_with_schedules(tmp_path: Path, scheme: str) -> None:
    model = _quantized(tmp_path, scheme)
    (ours,) = compile_model(import_onnx(bytes(model.SerializeToString())))(_input(7))
    (theirs,) = _theirs(model, _input(7))
    steps = np.diff(np.unique(theirs))
    step = steps.min() if scheme != "dynamic" else 1e-3 * np.abs(theirs).max()
    assert np.abs(ours - theirs).max() <= 1.001 * step


@pytest.mark.parametrize("scheme", ["QDQ", "QOperator"])
def test_processors_without_dot_products(tmp_path: Path, scheme: str) -> None:
    """Kernels for a CPU that has no instruction for bytes give the same."""
    model = _quantized(tmp_path, scheme)
    old = Target("llvm -mcpu=haswell")
    (ours,) = compile_model(import_onnx(bytes(model.SerializeToString())), old)(_input(7))
    (theirs,) = _theirs(model, _input(7))
    assert np.abs(ours - theirs).max() <= 1.001 * np.diff(np.unique(theirs)).min()


@pytest.mark.parametrize(("low", "high"), [(-3.0, 5.0), (0.0, 1e-3), (-2e4, -1e2), (0.5, 80.0)])
def test_scales_that_are_found_while_running(low: float, high: float) -> None:
    """Bytes, scale and zero point are onnxruntime's to the last bit, given the same numbers."""
    kinds = onnx.TensorProto
    outputs = [("q", kinds.UINT8, [37, 64]), ("s", kinds.FLOAT, []), ("z", kinds.UINT8, [])]
    graph = helper.make_graph(
        [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])],
        "main",
        [helper.make_tensor_value_info("x", kinds.FLOAT, [37, 64])],
        [helper.make_tensor_value_info(*output) for output in outputs],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    x = np.random.default_rng(0).uniform(low, high, (37, 64)).astype(np.float32)
    made = compile_model(import_onnx(bytes(model.SerializeToString())))(x)
    for ours, theirs in zip(made, _theirs(model, x), strict=True):
        assert np.array_equal(ours, theirs)

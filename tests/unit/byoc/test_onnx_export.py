"""Graphs as ONNX models: onnxruntime computes what our kernels compute."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import ir
from tilewright.errors import GraphError
from tilewright.graph import Graph, parse_graph
from tilewright.graph.graph import Array
from tilewright.model.executable import Executable
from tilewright.model.kernels import compile_calls
from tilewright.target import Target

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tilewright.byoc.onnx_export import can_export, exported_operators, to_onnx  # noqa: E402
from tilewright.byoc.onnx_sessions import onnxruntime_session  # noqa: E402

_IMAGE = "x: float32[1, 4, 9, 8]"
_ROWS = "x: float32[2, 5, 8]"
UNARY = [
    "abs", "ceil", "cos", "erf", "exp", "floor", "identity", "negative", "nn.relu", "round",
    "sigmoid", "sign", "sin", "tanh", "nn.silu",
]  # fmt: skip
BINARY = ["add", "subtract", "multiply", "divide", "maximum", "minimum", "power"]

# Inputs, constants, a call.
CASES = [
    *((_ROWS, "", f"{op}(x)") for op in UNARY),
    *(("x: float32[3]", "", f"{op}(x)") for op in ("sqrt", "log", "rsqrt")),
    *(("x: float32[2, 5, 8], y: float32[5, 1]", "", f"{op}(x, y)") for op in BINARY),
    (_ROWS, "", "nn.gelu(x)"),
    (_ROWS, "", "nn.gelu(x, approximate='tanh')"),
    (_ROWS, "", "nn.leaky_relu(x, alpha=0.1)"),
    (_ROWS, "", "clip(x, a_min=-0.5, a_max=0.25)"),
    (_ROWS, "", "mean(x, axis=[1, 2], keepdims=True)"),
    (_ROWS, "", "sum(x, axis=-1)"),
    (_ROWS, "", "max(x)"),
    (_ROWS, "", "min(x, axis=0)"),
    (_ROWS, "", "nn.softmax(x, axis=1)"),
    (_ROWS, "", "nn.log_softmax(x)"),
    (_IMAGE, "w: float32[6, 4, 3, 3]", "nn.conv2d(x, w, strides=[2, 1], padding=[1, 0, 2, 1])"),
    (_IMAGE, "w: float32[6, 2, 3, 1]", "nn.conv2d(x, w, padding=1, dilation=2, groups=2)"),
    (_IMAGE, "w: float32[6, 4, 3, 3]", "nn.conv2d(x, w, padding='VALID')"),
    ("x: float32[1, 4, 9]", "w: float32[6, 4, 3]", "nn.conv1d(x, w, padding=[1, 0])"),
    ("x: float32[1, 2, 4, 4, 4]", "w: float32[3, 2, 2, 2, 2]", "nn.conv3d(x, w, strides=2)"),
    (_IMAGE, "", "nn.pool2d(x, kernel=[3, 2], stride=2, dilation=[1, 2], padding=[1, 0, 1, 1], "
                 "pool_type='max')"),
    (_IMAGE, "", "nn.pool2d(x, kernel=3, stride=2, dilation=1, padding=[1, 1, 1, 1], "
                 "pool_type='avg')"),
    (_IMAGE, "", "nn.pool2d(x, kernel=3, stride=1, dilation=1, padding=[0, 1, 1, 1], "
                 "pool_type='avg', count_include_pad=False)"),
    ("x: float32[1, 4, 9]", "", "nn.pool1d(x, kernel=3, stride=2, dilation=1, padding=[1, 1], "
                                "pool_type='max')"),
    ("x: float32[1, 2, 4, 4, 4]", "", "nn.pool3d(x, kernel=2, stride=2, dilation=1, "
                                      "padding=[0, 0, 0, 0, 0, 0], pool_type='avg')"),
    (_IMAGE, "", "nn.global_pool(x, pool_type='avg')"),
    (_IMAGE, "", "nn.global_pool(x, pool_type='max')"),
    ("x: float32[3, 8]", "w: float32[5, 8]", "nn.dense(x, w)"),
    ("x: float32[3, 8]", "w: float32[5, 8], b: float32[5]", "nn.dense(x, w, b)"),
    ("x: float32[3, 8]", "w: float32[8, 5]", "nn.matmul(x, w)"),
    ("x: float32[8, 3]", "w: float32[5, 8], b: float32[5]",
     "nn.matmul(x, w, b, transpose_a=True, transpose_b=True)"),
    ("x: float32[2, 3, 8]", "w: float32[8, 5]", "matmul(x, w)"),
    ("x: float32[2, 3, 8], y: float32[2, 5, 8]", "", "nn.batch_matmul(x, y)"),
    ("x: float32[2, 3, 8], y: float32[2, 8, 5]", "", "nn.batch_matmul(x, y, transpose_b=False)"),
    (_ROWS, "w: float32[8], b: float32[8]", "nn.layer_norm(x, w, b, axis=[-1], epsilon=0.01)"),
    (_ROWS, "w: float32[5, 8]", "nn.layer_norm(x, w, None, axis=[1, 2])"),
    (_IMAGE, "g: float32[4], b: float32[4], m: float32[4], v: float32[4]",
     "nn.batch_norm(x, g, b, m, v, epsilon=0.01)"),
    ("x: float32[1, 2, 5, 4], k: float32[1, 2, 6, 4], v: float32[1, 2, 6, 3]", "",
     "nn.attention(x, k, v)"),
    ("x: float32[1, 2, 5, 4], k: float32[1, 2, 5, 4], v: float32[1, 2, 5, 3]", "",
     "nn.attention(x, k, v, None, is_causal=True, scale=0.3)"),
    ("x: float32[1, 2, 5, 4], k: float32[1, 2, 6, 4], v: float32[1, 2, 6, 3]", "m: float32[5, 6]",
     "nn.attention(x, k, v, m)"),
    (_ROWS, "", "reshape(x, newshape=[10, -1])"),
    ("x: float32[1, 5, 1]", "", "squeeze(x)"),
    (_ROWS, "", "expand_dims(x, axis=1)"),
    (_ROWS, "", "nn.flatten(x)"),
    (_ROWS, "", "transpose(x)"),
    (_ROWS, "", "layout_transform(x, axes=[0, -1, 1])"),
    ("x: float32[2, 5], y: float32[2, 3]", "", "concatenate(x, y, axis=1)"),
    ("x: float32[5, 1]", "", "broadcast_to(x, shape=[2, 5, 3])"),
    (_ROWS, "", "strided_slice(x, begin=[0, 1, 2], end=[2, 5, -1], strides=[1, 2, 1])"),
    (_ROWS, "", "strided_slice(x, begin=[1], end=[4], axes=[1])"),
    (_ROWS, "", "nn.pad(x, pad_before=[0, 1, 2], pad_after=[1, 0, 3], pad_value=2.5)"),
    ("x: float16[2, 3]", "", "nn.relu(x)"),
]  # fmt: skip


def graph_of(inputs: str, constants: str, call: str) -> Graph:
    declared = constants.replace("], ", "]; ").split("; ") if constants else []
    named = [one.split(": ") for one in declared]
    lines = [f"    {name} = constant({kind})" for name, kind in named]
    text = "\n".join([f"def main({inputs}):", *lines, f"    r = {call}", "    return r", ""])
    plain = parse_graph(text)
    rng = np.random.default_rng(0)
    known = {v.name: np.abs(rng.standard_normal(v.type.extents)).astype(np.float32)
             for v in plain.constants}  # fmt: skip
    return parse_graph(text, known)


def inputs_of(graph: Graph) -> list[Array]:
    rng = np.random.default_rng(1)
    only_positive = graph.nodes[0].op in ("sqrt", "log", "rsqrt", "power", "divide")
    return [
        (np.abs(made) + 0.5 if only_positive else made).astype(value.type.dtype)
        for value in graph.inputs
        for made in [rng.standard_normal(value.type.extents)]
    ]


def compiled(graph: Graph) -> Executable:
    def plain(func: ir.PrimFunc, target: Target) -> ir.IRModule:
        return ir.IRModule({str(func.attrs["global_symbol"]): func})

    return Executable(graph, compile_calls(graph, Target("llvm"), plain))


@pytest.mark.parametrize(("inputs", "constants", "call"), CASES, ids=lambda part: part[:40])
def test_operators(inputs: str, constants: str, call: str) -> None:
    graph = graph_of(inputs, constants, call)
    model = to_onnx(graph)
    onnx.checker.check_model(model, full_check=True)
    arrays = inputs_of(graph)
    theirs = onnxruntime_session(model.SerializeToString())(arrays)
    for a, b in zip(theirs, compiled(graph)(*arrays), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_all_operators_are_tested() -> None:
    tested = {graph_of(*case).nodes[0].op for case in CASES}
    assert set(exported_operators()) - {"split"} == tested


def test_several_results() -> None:
    graph = parse_graph(
        "def main(x: float32[2, 7]):\n"
        "    a, b = split(x, indices_or_sections=[3], axis=1)\n    return a, b\n"
    )
    x = np.arange(14, dtype=np.float32).reshape(2, 7)
    a, b = onnxruntime_session(to_onnx(graph).SerializeToString())([x])
    np.testing.assert_array_equal(a, x[:, :3])
    np.testing.assert_array_equal(b, x[:, 3:])


@pytest.mark.parametrize(
    ("inputs", "constants", "call", "why"),
    [
        ("x: float32[4]", "", "cosh(x)", "cosh cannot be written as ONNX"),
        ("x: int32[4]", "", "abs(x)", "abs cannot be written as ONNX: it has x: int32[4]"),
        ("x: float32[1, 9, 8, 4]", "w: float32[3, 3, 4, 6]",
         "nn.conv2d(x, w, data_layout='NHWC')",
         "nn.conv2d cannot be written as ONNX: ONNX wants channels second, and one type"),
        (_IMAGE, "w: float32[6, 4, 3, 3]", "nn.conv2d(x, w, padding='SAME')",
         "nn.conv2d cannot be written as ONNX: padding is 'SAME'"),
        (_ROWS, "", "strided_slice(x, begin=[1], end=[0], strides=[-1], axes=[0])",
         "strided_slice cannot be written as ONNX: it runs backwards"),
    ],
)  # fmt: skip
def test_what_cannot_be_written(inputs: str, constants: str, call: str, why: str) -> None:
    graph = graph_of(inputs, constants, call)
    assert not can_export(graph.nodes[0])
    with pytest.raises(GraphError) as error:
        to_onnx(graph)
    assert str(error.value) == why

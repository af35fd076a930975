"""Quantised operators of ONNX and of onnxruntime's domain against NumPy, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.errors import GraphError
from tilewright.frontend.onnx import SpecializedModel, import_onnx
from tilewright.graph.passes.pipeline import simplify
from tilewright.testing.onnx_conformance import without_schedule

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

_RANDOM = np.random.default_rng(3)
_SCALE, _OUT = np.float32(0.05), np.float32(0.1)


def _bytes(shape: tuple[int, ...], dtype: str = "uint8") -> Any:
    kind = np.iinfo(dtype)
    return _RANDOM.integers(kind.min, kind.max + 1, shape).astype(dtype)


def _model(op: str, given: dict[str, Any], known: dict[str, Any], **attrs: Any) -> bytes:
    """A model of one node; names tell the order of inputs, those in `attrs` are attributes."""
    domain = attrs.pop("domain", "")
    names = sorted([*given, *known])
    node = helper.make_node(op, names, ["y"], name="n", domain=domain, **attrs)
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in given.items()
    ]
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in known.items()]
    outputs = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph([node], "main", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())


def _run(op: str, given: dict[str, Any], known: dict[str, Any], **attrs: Any) -> Any:
    model = SpecializedModel(_model(op, given, known, **attrs), schedule=without_schedule)
    return model(given)[0]


def _numbered(*arrays: Any) -> dict[str, Any]:
    return {f"i{n}": np.asarray(array) for n, array in enumerate(arrays)}


def _contrib(op: str, *arrays: Any, runs: tuple[int, ...] = (0,), **attrs: Any) -> Any:
    """A node of onnxruntime's domain; inputs at some places are given when the model runs."""
    named = _numbered(*arrays)
    given = {f"i{n}": named.pop(f"i{n}") for n in runs}
    return _run(op, given, named, domain="com.microsoft", **attrs)


def _near(made: Any, real: Any, scale: Any, zero: Any) -> None:
    kind = np.iinfo(zero.dtype)
    wanted = np.clip(np.rint(np.asarray(real, np.float64) / scale) + zero, kind.min, kind.max)
    assert made.dtype == zero.dtype
    assert np.abs(made.astype(int) - wanted.astype(int)).max() <= 1


def _real(q: Any, scale: Any, zero: Any) -> Any:
    return (q.astype(np.float64) - float(zero)) * np.float64(scale)


@pytest.mark.parametrize(("op", "function"), [("QLinearAdd", np.add), ("QLinearMul", np.multiply)])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_two_operands(op: str, function: Any, dtype: str) -> None:
    a, b, zeros = _bytes((2, 3, 4, 5), dtype), _bytes((2, 3, 4, 5), dtype), np.array([3, 9], dtype)
    arrays = a, _SCALE, zeros[0], b, _OUT, zeros[1], _OUT, zeros[0]
    made = _contrib(op, *arrays, runs=(0, 3))
    exact = function(_real(a, _SCALE, zeros[0]), _real(b, _OUT, zeros[1]))
    _near(made, exact, _OUT, zeros[0])


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_gemm_with_scales_for_each_column(is_turned: bool, has_bias: bool) -> None:
    a, weights = _bytes((3, 5)), _bytes((5, 4), "int8")
    scales = np.array([0.01, 0.02, 0.03, 0.04], np.float32)
    bias = np.array([100, -200, 300, 0], np.int32)
    given = weights.T.copy() if is_turned else weights
    arrays: list[Any] = [a, _SCALE, np.uint8(7), given, scales, np.zeros(4, np.int8)]
    node = [*arrays, bias, np.float32(0.2), np.uint8(11)]
    if not has_bias:
        bias = np.zeros(4, np.int32)
        node[6] = bias
    made = _contrib("QGemm", *node, transB=int(is_turned))
    exact = _real(a, _SCALE, 7) @ (weights * scales.astype(np.float64))
    _near(made, exact + bias * scales.astype(np.float64) * float(_SCALE), 0.2, np.uint8(11))


def test_pools_means_and_activations() -> None:
    x, zero = _bytes((2, 3, 4, 4)), np.uint8(9)
    real, parameters = _real(x, _SCALE, zero), (_SCALE, zero, _OUT, np.uint8(2))
    out = float(_OUT), np.uint8(2)
    mean = real.mean(axis=(2, 3), keepdims=True)
    _near(_contrib("QLinearGlobalAveragePool", x, *parameters), mean, *out)
    pooled = real.reshape(2, 3, 2, 2, 2, 2).mean(axis=(3, 5))
    windows: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    _near(_contrib("QLinearAveragePool", x, *parameters, **windows), pooled, *out)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    both: list[tuple[str, dict[str, Any], Any]] = [
        ("QLinearGlobalAveragePool", {}, mean),
        ("QLinearAveragePool", windows, pooled),
    ]
    for op, options, expected in both:
        made = _contrib(op, last, *parameters, channels_last=1, **options)
        _near(made, expected.transpose(0, 2, 3, 1), *out)
    row = real.mean(axis=1)
    _near(_contrib("QLinearReduceMean", x, *parameters, axes=[1], keepdims=0), row, *out)
    _near(_contrib("QLinearSigmoid", x, *parameters), 1 / (1 + np.exp(-real)), *out)
    leaky = np.where(real < 0, real * 0.2, real)
    _near(_contrib("QLinearLeakyRelu", x, *parameters, alpha=0.2), leaky, *out)
    powers = np.exp(real - real.max(axis=-1, keepdims=True))
    softmax = powers / powers.sum(axis=-1, keepdims=True)
    _near(_contrib("QLinearSoftmax", x, *parameters, axis=-1, opset=13), softmax, *out)


def test_concat_and_where() -> None:
    a, b, zero = _bytes((2, 3)), _bytes((2, 4)), np.uint8(4)
    made = _contrib(
        "QLinearConcat", _OUT, zero, a, _SCALE, zero, b, _OUT, zero, runs=(2, 5), axis=1
    )
    parts = [_real(a, _SCALE, zero), _real(b, _OUT, zero)]
    _near(made, np.concatenate(parts, axis=1), float(_OUT), zero)
    chosen, c = np.array([[True], [False]]), _bytes((2, 3))
    arrays = chosen, a, _SCALE, zero, c, _OUT, zero, _OUT, zero
    made = _contrib("QLinearWhere", *arrays, runs=(0, 1, 4))
    _near(made, np.where(chosen, parts[0], _real(c, _OUT, zero)), float(_OUT), zero)


@pytest.mark.parametrize("data", ["uint8", "int8"])
@pytest.mark.parametrize("weight", ["uint8", "int8"])
@pytest.mark.parametrize("has_zero", [False, True])
def test_products_of_integers_with_known_weights(data: str, weight: str, has_zero: bool) -> None:
    a, b = _bytes((2, 3, 5), data), _bytes((5, 4), weight)
    zeros = [np.array(7, data), np.array([1, 2, 3, 4], weight)] if has_zero else []
    named = _numbered(a, b, *zeros)
    made = _run("MatMulInteger", {"i0": named.pop("i0")}, named)
    points = [np.int64(zero) for zero in zeros] or [0, 0]
    np.testing.assert_array_equal(made, (a.astype(int) - points[0]) @ (b.astype(int) - points[1]))


def test_convolutions_of_integers_whose_zero_point_is_known_late() -> None:
    x, weights = _bytes((1, 2, 4, 4)), _bytes((3, 2, 3, 3), "int8")
    given = {"i0": x, "i2": np.array(77, np.uint8)}
    attrs = {"pads": [1, 1, 1, 1], "strides": [2, 1]}
    made = _run("ConvInteger", given, {"i1": weights}, **attrs)
    wide = np.pad(x.astype(int) - 77, [(0, 0), (0, 0), (1, 1), (1, 1)])
    views = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))[:, :, ::2]
    np.testing.assert_array_equal(made, np.einsum("nchwij,ocij->nohw", views, weights.astype(int)))


def test_weights_of_integer_layers_stay_bytes() -> None:
    known = {"i1": _bytes((5, 4), "int8")}
    graph = simplify(import_onnx(_model("MatMulInteger", {"i0": _bytes((3, 5))}, known)))
    assert {str(array.dtype) for array in graph.constants.values()} == {"int8"}


_DEQUANTIZED = {"i0": _bytes((2, 3))}


@pytest.mark.parametrize(
    ("known", "attrs", "message"),
    [
        ({"i1": np.float32(0)}, {}, "a scale is 0, expected positive numbers"),
        ({"i1": np.float32(-1)}, {}, "a scale is -1, expected positive numbers"),
        ({"i1": np.float32(np.inf)}, {}, "a scale is inf, expected positive numbers"),
        (
            {"i1": np.ones(2, np.float32)},
            {"axis": 1},
            "the scale has shape [2], expected one element or one for each of axis 1 of "
            "uint8[2, 3]",
        ),
        (
            {"i1": np.ones(3, np.float32), "i2": np.zeros(2, np.uint8)},
            {"axis": 1},
            "the zero point has shape [2], expected one element or one for each of axis 1 of "
            "uint8[2, 3]",
        ),
        (
            {"i1": np.float32(1), "i2": np.int8(0)},
            {},
            "its inputs 'i0' and 'i2' have elements of types uint8 and int8, expected one type",
        ),
    ],
)
def test_parameters_that_are_refused(
    known: dict[str, Any], attrs: dict[str, Any], message: str
) -> None:
    with pytest.raises(GraphError) as caught:
        import_onnx(_model("DequantizeLinear", _DEQUANTIZED, known, **attrs))
    assert str(caught.value) == f"DequantizeLinear (n): {message}"


def test_a_layer_with_wrong_parameters_is_named() -> None:
    weights = np.zeros((4, 2, 1, 1), np.int8)
    known = _numbered(
        0, _SCALE, np.uint8(0), weights, np.ones(3, np.float32), np.zeros(4, np.int8), _OUT,
        np.uint8(0),
    )  # fmt: skip
    del known["i0"]
    with pytest.raises(GraphError) as caught:
        import_onnx(_model("QLinearConv", {"i0": _bytes((1, 2, 3, 3))}, known))
    assert str(caught.value) == (
        "QLinearConv (n): the scale has shape [3], expected one element or one for each of axis 0 "
        "of int8[4, 2, 1, 1]"
    )


def test_a_result_of_another_type_than_its_zero_point() -> None:
    known = {"i1": np.float32(1), "i2": np.uint8(0)}
    model = onnx.load_from_string(
        _model("QuantizeLinear", {"i0": np.ones(3, np.float32)}, known, output_dtype=3)
    )
    model.opset_import[0].version = 21
    with pytest.raises(GraphError) as caught:
        import_onnx(bytes(model.SerializeToString()))
    assert str(caught.value) == "QuantizeLinear (n): the zero point is uint8, output_dtype is int8"


def test_a_zero_point_that_is_missing() -> None:
    node = helper.make_node(
        "QLinearMul", ["a", "s", "z", "a"], ["y"], name="n", domain="com.microsoft"
    )
    inputs = [helper.make_tensor_value_info("a", onnx.TensorProto.UINT8, [2])]
    constants = [
        numpy_helper.from_array(np.float32(1).reshape(()), "s"),
        numpy_helper.from_array(np.array(0, np.uint8), "z"),
    ]
    outputs = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph([node], "main", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    with pytest.raises(GraphError) as caught:
        import_onnx(bytes(model.SerializeToString()))
    assert str(caught.value) == "QLinearMul (n): input 4 is missing"

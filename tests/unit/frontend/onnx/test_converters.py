"""What operators of ONNX mean in versions and corners where importers trip, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import GraphError
from tilewright.frontend.onnx import SpecializedModel, import_onnx
from tilewright.testing.onnx_conformance import without_schedule

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

Run = Callable[..., list[Any]]

_X = (np.arange(24, dtype=np.float32).reshape(2, 3, 4) * 7 % 11 - 5) / 4
_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def _model(node: Any, arrays: dict[str, Any], known: dict[str, Any], opset: int) -> bytes:
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in arrays.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output]
    constants = [numpy_helper.from_array(array, name) for name, array in known.items()]
    graph = helper.make_graph([node], "main", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return bytes(model.SerializeToString())


def _run(op: str, opset: int, *inputs: Any, outputs: int = 1, **attrs: Any) -> list[Any]:
    """Arrays go in when the model runs; lists are known when it is imported."""
    names = [f"i{n}" for n in range(len(inputs))]
    arrays = {n: a for n, a in zip(names, inputs, strict=True) if isinstance(a, np.ndarray)}
    known = {n: np.array(a) for n, a in zip(names, inputs, strict=True) if n not in arrays}
    node = helper.make_node(op, names, [f"o{n}" for n in range(outputs)], **attrs)
    model = SpecializedModel(_model(node, arrays, known, opset), schedule=without_schedule)
    return list(model(arrays))


def _close(made: Any, expected: Any) -> None:
    np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-6)


def _softmax(x: Any, axis: Any) -> Any:
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def test_softmax_before_13_takes_all_axes_from_one_on() -> None:
    _close(_run("Softmax", 11, _X)[0], _softmax(_X, (1, 2)))
    _close(_run("Softmax", 11, _X, axis=-1)[0], _softmax(_X, -1))
    _close(_run("LogSoftmax", 7, _X, axis=0)[0], np.log(_softmax(_X, (0, 1, 2))))
    _close(_run("Softmax", 13, _X)[0], _softmax(_X, -1))
    _close(_run("Softmax", 13, _X, axis=1)[0], _softmax(_X, 1))


def test_hardmax_takes_the_first_of_equals() -> None:
    x = np.array([[1, 3, 3], [2, 2, 0]], np.float32)
    np.testing.assert_array_equal(_run("Hardmax", 13, x)[0], [[0, 1, 0], [1, 0, 0]])


@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [
        (_MOST, _LEAST, -1, slice(None, None, -1)),
        (-1, -5, -1, slice(None, None, -1)),
        (3, -1, -1, slice(0, 0)),
        (10, 0, -2, slice(3, 0, -2)),
        (-10, _MOST, 3, slice(None, None, 3)),
        (2, 2, 1, slice(0, 0)),
        (1, -1, 1, slice(1, 3)),
    ],
)
def test_slices_are_limited_to_their_axis(start: int, end: int, step: int, expected: slice) -> None:
    (made,) = _run("Slice", 13, _X, [start], [end], [2], [step])
    np.testing.assert_array_equal(made, _X[:, :, expected])


def test_slice_by_attributes() -> None:
    (made,) = _run("Slice", 7, _X, starts=[-2], ends=[_MOST], axes=[1])
    np.testing.assert_array_equal(made, _X[:, -2:])


def test_pads_of_all_modes() -> None:
    for mode in ("reflect", "edge", "wrap"):
        (made,) = _run("Pad", 19, _X, [0, 0, 2, 0, 1, 3], mode=mode)
        np.testing.assert_array_equal(made, np.pad(_X, ((0, 0), (0, 1), (2, 3)), mode=mode))


def test_negative_pads_cut_off() -> None:
    (made,) = _run("Pad", 13, _X, [0, -1, 2, 0, 0, -3], np.array(4, np.float32))
    expected = np.pad(_X, ((0, 0), (0, 0), (2, 0)), constant_values=4)[:, 1:, :-3]
    np.testing.assert_array_equal(made, expected)


def test_clip_with_bounds_the_wrong_way_round() -> None:
    low, high = np.array(1, np.float32), np.array(-1, np.float32)
    np.testing.assert_array_equal(_run("Clip", 13, _X, low, high)[0], np.full_like(_X, -1))
    np.testing.assert_array_equal(_run("Clip", 6 + 1, _X, min=-0.5, max=0.5)[0], _X.clip(-0.5, 0.5))


def test_integers_are_divided_towards_zero() -> None:
    a, b = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    np.testing.assert_array_equal(_run("Div", 14, a, b)[0], [3, -3, -3, 3])
    np.testing.assert_array_equal(_run("Mod", 13, a, b)[0], [1, 1, -1, -1])
    np.testing.assert_array_equal(_run("Mod", 13, a, b, fmod=1)[0], [1, -1, 1, -1])


def test_powers_of_integers_are_exact() -> None:
    base = np.array([3, -1, 2, 0, 10, -3], np.int64)
    exponent = np.array([39, 101, 62, 0, 18, 3], np.int64)
    expected = [3**39, -1, 2**62, 1, 10**18, -27]
    np.testing.assert_array_equal(_run("Pow", 15, base, exponent)[0], expected)


def test_the_power_has_the_type_of_its_base() -> None:
    (made,) = _run("Pow", 15, np.array([4, 9], np.int32), np.array([0.5, 0.5], np.float32))
    assert made.dtype == np.int32
    np.testing.assert_array_equal(made, [2, 3])


def test_shifts_beyond_the_width() -> None:
    x, by = np.array([255, 255], np.uint8), np.array([8, 200], np.uint8)
    for direction in ("LEFT", "RIGHT"):
        np.testing.assert_array_equal(_run("BitShift", 11, x, by, direction=direction)[0], [0, 0])


def test_negative_indices_count_from_the_end() -> None:
    indices = np.array([[0, -1], [2, -3]], np.int64)
    np.testing.assert_array_equal(_run("Gather", 11, _X, indices, axis=1)[0], _X.take(indices, 1))
    hot = _run("OneHot", 11, np.array([0, -1, 5]), [4], np.array([-1, 2], np.float32))[0]
    np.testing.assert_array_equal(hot, [[2, -1, -1, -1], [-1, -1, -1, 2], [-1, -1, -1, -1]])


def test_reductions_of_nothing() -> None:
    empty = np.zeros((2, 0, 3), np.float32)
    for op, start in (("ReduceMax", -np.inf), ("ReduceMin", np.inf), ("ReduceSum", 0)):
        (made,) = _run(op, 20, empty, [1], keepdims=0)
        np.testing.assert_array_equal(made, np.full((2, 3), start, np.float32))


def test_reductions_by_attribute_and_by_input() -> None:
    _close(_run("ReduceSum", 11, _X, axes=[-1], keepdims=0)[0], _X.sum(-1))
    _close(_run("ReduceSum", 13, _X, [0, 2])[0], _X.sum((0, 2), keepdims=True))
    _close(_run("ReduceSum", 13, _X, noop_with_empty_axes=1)[0], _X)
    _close(_run("ReduceLogSumExp", 13, _X + 1000, axes=[1])[0].ravel()[:1] > 1000, [True])


def test_the_last_window_starts_inside() -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    options: dict[str, Any] = {"kernel_shape": [2], "strides": [3], "pads": [0, 1], "ceil_mode": 1}
    np.testing.assert_array_equal(_run("MaxPool", 12, x, **options)[0], [[[1, 3]]])
    # The third window would start behind the data, in the padding.
    assert _run("MaxPool", 12, x, **{**options, "pads": [0, 4]})[0].shape == (1, 1, 2)


def test_places_of_maxima() -> None:
    x = np.array([[[[1, 5, 2], [4, 3, 9]]]], np.float32)
    options: dict[str, Any] = {"kernel_shape": [2, 2], "outputs": 2}
    np.testing.assert_array_equal(_run("MaxPool", 12, x, **options)[1], [[[[1, 5]]]])
    column_major = _run("MaxPool", 12, x, storage_order=1, **options)[1]
    np.testing.assert_array_equal(column_major, [[[[2, 5]]]])


def test_scales_of_resize_are_rounded_as_they_are_stored() -> None:
    x = np.arange(3, dtype=np.float32).reshape(1, 1, 3)
    scales = np.array([1, 1, 5 / 3], np.float32).tolist()
    model = ("Resize", 10, x, np.array(scales, np.float32))
    assert _run(*model)[0].shape == (1, 1, 5)


def test_split_into_unequal_parts() -> None:
    parts = _run("Split", 18, np.arange(5, dtype=np.float32), outputs=4, num_outputs=4)
    assert [len(part) for part in parts] == [2, 2, 1, 0]


def test_a_condition_that_is_known_only_when_the_model_runs() -> None:
    def branch(name: str, op: str) -> Any:
        node = helper.make_node(op, ["x"], [name])
        return helper.make_graph([node], name, [], [helper.make_empty_tensor_value_info(name)])

    node = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch("t", "Neg"), else_branch=branch("e", "Abs")
    )
    inputs = {"c": np.array(True), "x": _X}
    model = SpecializedModel(_model(node, inputs, {}, 20), schedule=without_schedule)
    np.testing.assert_array_equal(model(inputs)[0], -_X)
    np.testing.assert_array_equal(model({**inputs, "c": np.array(False)})[0], abs(_X))


def test_a_model_is_compiled_for_each_shape_that_an_input_names() -> None:
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    first = {"x": _X, "s": np.array([6, 4])}
    model = SpecializedModel(_model(node, first, {}, 20), schedule=without_schedule)
    assert model(first)[0].shape == (6, 4)
    other = {"x": _X, "s": np.array([0, -1])}
    assert model(other)[0].shape == (2, 12)
    assert model.executable(first) is model.executable(dict(first))
    assert model.executable(first) is not model.executable(other)


def test_sequences_are_followed_at_import() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=1, keepdims=0),
        helper.make_node("SequenceAt", ["parts", "last"], ["a"]),
        helper.make_node("SequenceErase", ["parts"], ["rest"]),
        helper.make_node("SequenceInsert", ["rest", "a", "first"], ["turned"]),
        helper.make_node("SequenceLength", ["turned"], ["count"]),
        helper.make_node("ConcatFromSequence", ["turned"], ["y"], axis=1, new_axis=1),
    ]
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, _X.shape)]
    outputs = [helper.make_empty_tensor_value_info(name) for name in ("y", "count")]
    known = [numpy_helper.from_array(np.array(n), name) for n, name in ((-1, "last"), (0, "first"))]
    graph = helper.make_graph(nodes, "main", inputs, outputs, known)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    run = SpecializedModel(model.SerializeToString(), schedule=without_schedule)
    made, count = run({"x": _X})
    np.testing.assert_array_equal(made, np.roll(_X, 1, axis=1))
    assert count == 3
    graph.output[0].name = "turned"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    with pytest.raises(GraphError) as caught:
        import_onnx(model.SerializeToString())
    assert str(caught.value) == "output turned is a sequence, which is not supported"


def test_an_operator_that_onnx_defines_by_others() -> None:
    graph = import_onnx(_model(helper.make_node("Mish", ["x"], ["y"]), {"x": _X}, {}, 18))
    assert len(graph.nodes) > 1
    assert all(node.source.startswith("Mish_0.") for node in graph.nodes)


def test_training_is_refused() -> None:
    node = helper.make_node("Dropout", ["x", "r", "t"], ["y"], name="drop")
    known = {"r": np.array(0.5, np.float32), "t": np.array(True)}
    with pytest.raises(GraphError) as caught:
        import_onnx(_model(node, {"x": _X}, known, 13))
    expected = "Dropout (drop): training mode, which drops elements at random, is not supported"
    assert str(caught.value) == expected


def test_group_norms_of_version_18_have_a_factor_for_each_group() -> None:
    x = np.random.default_rng(0).standard_normal((2, 4, 3)).astype("float32")
    scale, shift = np.array([[2, 3], [0, 1]], "float32")
    (made,) = _run("GroupNormalization", 18, x, scale, shift, num_groups=2)
    groups = x.reshape(2, 2, 6)
    mean, variance = groups.mean(2, keepdims=True), groups.var(2, keepdims=True)
    expected = (groups - mean) / np.sqrt(variance + 1e-5) * scale[:, None] + shift[:, None]
    _close(made, expected.reshape(x.shape))

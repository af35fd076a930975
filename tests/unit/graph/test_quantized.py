"""Integer operators of quantized graphs against exact sums in NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tilewright import ir
from tilewright.errors import GraphError
from tilewright.graph import Graph, GraphBuilder, GraphValue, TensorType, parse_graph
from tilewright.graph.passes.pipeline import simplify
from tilewright.graph.passes.quantized_forms import Limits, bias_in_steps, centred_weights
from tilewright.model import Executable
from tilewright.model.kernels import compile_calls
from tilewright.target import Target

_TARGET = Target("llvm")


def _plain(func: ir.PrimFunc, target: Target) -> ir.IRModule:
    return ir.IRModule({str(func.attrs["global_symbol"]): func})


def _run(graph: Graph, *inputs: Any) -> tuple[Any, ...]:
    return Executable(graph, compile_calls(graph, _TARGET, _plain))(*inputs)


def _ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@dataclass(frozen=True)
class _Scale:
    """How numbers are stored."""

    scale: float
    zero: int
    dtype: str

    def bytes(self, real: Any) -> Any:
        kind = np.iinfo(self.dtype)
        steps = np.rint(np.asarray(real, np.float64) / self.scale) + self.zero
        return np.clip(steps, kind.min, kind.max).astype(self.dtype)

    def real(self, q: Any) -> Any:
        return (q.astype(np.float64) - self.zero) * self.scale

    def random(self, shape: Sequence[int], seed: int = 0) -> Any:
        kind = np.iinfo(self.dtype)
        random = np.random.default_rng(seed)
        return random.integers(kind.min, kind.max + 1, shape).astype(self.dtype)


class _Quantized(GraphBuilder):
    """A graph with the operators that quantizers put around others."""

    def floats(self, value: GraphValue, own: _Scale) -> GraphValue:
        return self.call("qnn.dequantize", value, *self._parameters(own))

    def bytes(self, value: GraphValue, own: _Scale) -> GraphValue:
        return self.call("qnn.quantize", value, *self._parameters(own), dtype=own.dtype)

    def data(self, shape: Sequence[int], own: _Scale, name: str = "x") -> GraphValue:
        return self.floats(self.input(name, TensorType(tuple(shape), own.dtype)), own)

    def weights(self, numbers: Any, scale: Any, zero: Any) -> GraphValue:
        given = [self.constant(np.asarray(array)) for array in (numbers, scale, zero)]
        return self.call("qnn.dequantize", *given)

    def _parameters(self, own: _Scale) -> list[GraphValue]:
        return [self.constant(np.float32(own.scale)), self.constant(np.array(own.zero, own.dtype))]


def _check_steps(made: Any, real: Any, own: _Scale) -> None:
    """The same bytes; one step apart where a number lies in the middle between two steps."""
    assert made.dtype == own.dtype
    apart = np.abs(made.astype(int) - own.bytes(real).astype(int))
    steps = np.asarray(real, np.float64) / own.scale
    is_between = np.abs(np.abs(steps - np.rint(steps)) - 0.5) < 1e-3 + 1e-6 * np.abs(steps)
    assert np.all(apart <= is_between)


def _windows(x: Any, kernel: int, stride: int, padding: int) -> Any:
    """`[n, c, y, x, ky, kx]` of real numbers, zeros outside."""
    wide = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    views = np.lib.stride_tricks.sliding_window_view(wide, (kernel, kernel), (2, 3))
    return views[:, :, ::stride, ::stride]


def _scales(draw: Any, dtypes: Sequence[str]) -> _Scale:
    dtype = draw(st.sampled_from(dtypes))
    kind = np.iinfo(dtype)
    zero = draw(st.integers(kind.min, kind.max))
    scale = draw(st.sampled_from([0.5, 0.01, 0.0375, 3.0]))
    return _Scale(float(np.float32(scale)), zero, dtype)


_BYTES = ("uint8", "int8")


@dataclass(frozen=True)
class _Layer:
    data: _Scale
    weight_zero: Any
    weight_scale: Any
    numbers: Any
    bias: Any | None
    limits: tuple[float, float] | None
    result: _Scale


@st.composite
def _layers(draw: Any, shape: Sequence[int], axis: int = 0) -> _Layer:
    """Weights with one scale or one for each output, with zero points of all kinds."""
    outputs = shape[axis]
    form = [-1 if n == axis else 1 for n in range(len(shape))]
    random = np.random.default_rng(draw(st.integers(0, 99)))
    dtype = draw(st.sampled_from(_BYTES))
    middle = 128 if dtype == "uint8" else 0
    is_each = draw(st.booleans())
    far = draw(st.sampled_from([20, 100]))  # farther than what int8 has room for
    zero = random.integers(middle - far, middle + far, outputs if is_each else ())
    kind = np.iinfo(dtype)
    spread = random.integers(-120 + far, 120 - far, shape)
    if far == 100:
        spread = random.integers(kind.min, kind.max + 1, shape) - zero.reshape(
            form if is_each else ()
        )
    numbers = (spread + (zero.reshape(form) if is_each else zero)).astype(dtype)
    scale = random.uniform(0.01, 0.02, outputs if is_each else ()).astype(np.float32)
    if is_each:
        scale, zero = scale.reshape(form), zero.reshape(form)
    bias = random.standard_normal(outputs).astype(np.float32) if draw(st.booleans()) else None
    limits = draw(st.sampled_from([None, (0.0, math.inf), (0.0, 6.0), (-1.0, 1.0)]))
    data, result = _scales(draw, _BYTES), _scales(draw, _BYTES)
    return _Layer(data, zero.astype(dtype), scale, numbers, bias, limits, result)


def _finished(graph: _Quantized, layer: _Layer, sums: GraphValue, column: list[int]) -> Graph:
    if layer.bias is not None:
        sums = graph.call("add", sums, graph.constant(layer.bias.reshape(column)))
    if layer.limits is not None:
        low, high = layer.limits
        sums = (
            graph.call("nn.relu", sums)
            if high == math.inf
            else graph.call("clip", sums, a_min=low, a_max=high)
        )
    return graph.graph([graph.bytes(sums, layer.result)])


def _real_result(layer: _Layer, sums: Any, column: list[int]) -> Any:
    if layer.bias is not None:
        sums = sums + layer.bias.astype(np.float64).reshape(column)
    return sums if layer.limits is None else np.clip(sums, *layer.limits)


def _real_weights(layer: _Layer) -> Any:
    centred = layer.numbers.astype(np.float64) - layer.weight_zero.astype(np.float64)
    return centred * layer.weight_scale.astype(np.float64)


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_convolutions(data: Any) -> None:
    channels, outputs, size = (data.draw(st.integers(1, 6)) for _ in range(3))
    kernel = data.draw(st.integers(1, min(size + 2, 3)))
    stride, padding = data.draw(st.integers(1, 2)), data.draw(st.integers(0, 1))
    padding = padding if kernel <= size + 2 * padding and kernel > padding else 1
    groups = channels if data.draw(st.booleans()) else 1
    shape = [outputs * groups, channels // groups, kernel, kernel]
    layer = data.draw(_layers(shape))
    graph = _Quantized()
    weight_parts = layer.numbers, layer.weight_scale, layer.weight_zero
    x = graph.data([2, channels, size, size], layer.data)
    sums = graph.call(
        "nn.conv2d", x, graph.weights(*weight_parts), strides=[stride, stride],
        padding=[padding] * 4, dilation=[1, 1], groups=groups,
    )  # fmt: skip
    simple = simplify(_finished(graph, layer, sums, [-1, 1, 1]))
    if groups == 1 or outputs == 1:
        assert "qnn.conv2d" in _ops(simple)
        assert "nn.conv2d" not in _ops(simple)
    given = layer.data.random([2, channels, size, size])
    windows = _windows(layer.data.real(given), kernel, stride, padding)
    weights = _real_weights(layer)
    if groups == 1:
        exact = np.einsum("nchwij,ocij->nohw", windows, weights)
    else:
        per_group = weights.reshape(groups, outputs, kernel, kernel)
        exact = np.einsum("nchwij,coij->ncohw", windows, per_group)
        exact = exact.reshape(2, -1, *exact.shape[3:])
    _check_steps(_run(simple, given)[0], _real_result(layer, exact, [-1, 1, 1]), layer.result)


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_products(data: Any) -> None:
    rows, depth, columns = (data.draw(st.integers(1, 9)) for _ in range(3))
    is_turned = data.draw(st.booleans())
    shape = [columns, depth] if is_turned else [depth, columns]
    layer = data.draw(_layers(shape, 0 if is_turned else 1))
    graph = _Quantized()
    x = graph.data([rows, depth], layer.data)
    weights = graph.weights(layer.numbers, layer.weight_scale, layer.weight_zero)
    sums = graph.call("nn.matmul", x, weights, transpose_b=is_turned)
    simple = simplify(_finished(graph, layer, sums, [-1]))
    assert _ops(simple)[-1] in ("qnn.requantize", "qnn.flip_sign")
    given = layer.data.random([rows, depth])
    real = _real_weights(layer)
    exact = layer.data.real(given) @ (real.T if is_turned else real)
    _check_steps(_run(simple, given)[0], _real_result(layer, exact, [-1]), layer.result)


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_additions(data: Any) -> None:
    scales = [_scales(data.draw, _BYTES) for _ in range(3)]
    is_limited = data.draw(st.booleans())
    graph = _Quantized()
    a, b = (graph.data([3, 4, 5, 2], own, name) for own, name in zip(scales, "ab", strict=False))
    total = graph.call("add", a, b)
    total = graph.call("nn.relu", total) if is_limited else total
    simple = simplify(graph.graph([graph.bytes(total, scales[2])]))
    assert "add" not in _ops(simple)
    given = [own.random([3, 4, 5, 2], seed) for seed, own in enumerate(scales[:2])]
    exact = sum(own.real(q) for own, q in zip(scales, given, strict=False))
    _check_steps(_run(simple, *given)[0], np.maximum(exact, 0 if is_limited else -1e9), scales[2])


@given(st.data())
@settings(max_examples=10, deadline=None)
def test_means(data: Any) -> None:
    own, result = _scales(data.draw, _BYTES), _scales(data.draw, _BYTES)
    graph = _Quantized()
    x = graph.data([2, 3, 4, 5], own)
    mean = graph.call("mean", x, axis=[2, 3], keepdims=True)
    simple = simplify(graph.graph([graph.bytes(mean, result)]))
    assert "qnn.mean" in _ops(simple)
    given = own.random([2, 3, 4, 5])
    exact = own.real(given).mean(axis=(2, 3), keepdims=True)
    _check_steps(_run(simple, given)[0], exact, result)


_OWN = _Scale(0.5, 7, "uint8")
_SIGNED = _Scale(0.25, -3, "int8")


@pytest.mark.parametrize("own", [_OWN, _SIGNED])
def test_what_moves_elements_moves_bytes(own: _Scale) -> None:
    graph = _Quantized()
    x = graph.data([2, 3, 4, 4], own)
    largest = graph.call(
        "nn.pool2d", x, kernel=[3, 3], stride=[2, 2], dilation=[1, 1], padding=[1, 1, 1, 1],
        pool_type="max", ceil_mode=False, layout="NCHW", count_include_pad=False,
    )  # fmt: skip
    turned = graph.call("transpose", largest, axes=[0, 2, 3, 1])
    flat = graph.call("reshape", turned, newshape=[2, 12])
    twice = graph.call("concatenate", flat, flat, axis=1)
    simple = simplify(graph.graph([graph.bytes(twice, own)]))
    assert not {"qnn.quantize", "qnn.dequantize"} & set(_ops(simple))
    given = own.random([2, 3, 4, 4])
    low = np.iinfo(own.dtype).min
    wide = np.pad(given, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=low)
    views = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))[:, :, ::2, ::2]
    expected = views.max(axis=(4, 5)).transpose(0, 2, 3, 1).reshape(2, 12)
    np.testing.assert_array_equal(_run(simple, given)[0], np.concatenate([expected] * 2, axis=1))


def test_another_scale_behind_a_move_is_no_copy_of_bytes() -> None:
    graph = _Quantized()
    flat = graph.call("reshape", graph.data([2, 6], _OWN), newshape=[12])
    simple = simplify(graph.graph([graph.bytes(flat, _SIGNED)]))
    given = _OWN.random([2, 6])
    (made,) = _run(simple, given)
    np.testing.assert_array_equal(made, _SIGNED.bytes(_OWN.real(given)).reshape(12))


def test_numbers_that_are_needed_as_floats() -> None:
    """Sums, additions and bytes that are outputs, too; a layer whose result is not quantized."""
    graph = _Quantized()
    x = graph.data([3, 4], _OWN)
    numbers = np.arange(8, dtype=np.int8).reshape(4, 2)
    weights = graph.weights(numbers, np.float32(0.5), np.int8(0))
    sums = graph.call("nn.matmul", x, weights)
    limited = graph.call("clip", sums, a_min=-1.0, a_max=9.0)
    total = graph.call("add", x, x)
    simple = simplify(graph.graph([x, sums, limited, total, graph.bytes(total, _OWN)]))
    assert _ops(simple).count("nn.matmul") == 1
    given = _OWN.random([3, 4])
    real = _OWN.real(given)
    made = _run(simple, given)
    product = real @ (numbers * 0.5)
    wanted = [real, product, np.clip(product, -1, 9), 2 * real]
    for one, other in zip(made, wanted, strict=False):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    np.testing.assert_array_equal(made[-1], _OWN.bytes(2 * real))


@pytest.mark.parametrize(
    ("numbers", "zero", "why"),
    [
        (np.full((4, 2), 2**15, np.uint16), np.uint16(3), "unsigned ones"),
        (np.full((4, 2), 5, np.int16), np.int16(3), "weights of 16 bits"),
    ],
)
def test_layers_that_stay_as_they_are(numbers: Any, zero: Any, why: str) -> None:
    graph = _Quantized()
    x = graph.data([3, 4], _OWN)
    product = graph.call("nn.matmul", x, graph.weights(numbers, np.float32(0.01), zero))
    simple = simplify(graph.graph([graph.bytes(product, _OWN)]))
    assert "qnn.requantize" not in _ops(simple), why
    given = _OWN.random([3, 4])
    real = _OWN.real(given) @ ((numbers.astype(np.float64) - float(zero)) * 0.01)
    _check_steps(_run(simple, given)[0], real, _OWN)


def test_a_bias_between_steps_of_the_sums_is_added_to_their_numbers() -> None:
    graph = _Quantized()
    weights = graph.weights(np.full((1, 2), 3, np.int8), np.float32(1), np.int8(0))
    sums = graph.call("nn.matmul", graph.data([4, 1], _OWN), weights)
    total = graph.call("add", sums, graph.constant(np.array([0.25, 8], np.float32)))
    result = _Scale(0.125, 0, "uint8")
    simple = simplify(graph.graph([graph.bytes(total, result), total]))
    given = np.array([[7], [8], [9], [10]], np.uint8)
    real = _OWN.real(given) * 3 + np.array([0.25, 8])
    steps, floats = _run(simple, given)
    np.testing.assert_array_equal(steps, result.bytes(real))
    np.testing.assert_array_equal(floats, real)


def test_scales_that_are_known_only_when_the_model_runs() -> None:
    text = """
def main(x: uint8[2, 3], scale: float32[()], zero: uint8[()]):
    real = qnn.dequantize(x, scale, zero)
    twice = add(real, real)
    q = qnn.quantize(twice, scale, zero, dtype='uint8')
    return q
"""
    simple = simplify(parse_graph(text))
    given = _OWN.random([2, 3])
    (made,) = _run(simple, given, np.float32(_OWN.scale), np.uint8(_OWN.zero))
    np.testing.assert_array_equal(made, _OWN.bytes(2 * _OWN.real(given)))


def test_a_zero_point_at_the_border_that_is_known_only_when_the_model_runs() -> None:
    text = """
def main(x: uint8[1, 2, 3, 3], zero: uint8[()]):
    w = constant(int8[2, 2, 3, 3])
    t = constant(int32[2, 1, 1])
    sums = qnn.conv2d(x, w, zero, strides=[1, 1], padding=[1, 1, 1, 1], dilation=[1, 1])
    own = qnn.subtract_zero(sums, t, zero)
    return own
"""
    parsed = parse_graph(text)
    weights = np.random.default_rng(1).integers(-128, 128, (2, 2, 3, 3)).astype(np.int8)
    totals = weights.astype(np.int32).sum(axis=(1, 2, 3)).reshape(2, 1, 1)
    known = {v: (weights if v.name == "w" else totals) for v in parsed.constants}
    graph = Graph(parsed.name, parsed.inputs, parsed.outputs, parsed.nodes, known)
    given = np.random.default_rng(2).integers(0, 256, (1, 2, 3, 3)).astype(np.uint8)
    windows = _windows(given.astype(np.int64) - 77, 3, 1, 1)
    exact = np.einsum("nchwij,ocij->nohw", windows, weights.astype(np.int64))
    (made,) = _run(simplify(graph), given, np.uint8(77))
    np.testing.assert_array_equal(made, exact)


def test_halves_are_rounded_to_even_and_results_saturate() -> None:
    text = """
def main(x: float32[6]):
    scale = constant(float32[()])
    zero = constant(int8[()])
    q = qnn.quantize(x, scale, zero, dtype='int8')
    return q
"""
    parsed = parse_graph(text)
    known = {v: (np.float32(2) if v.name == "scale" else np.int8(1)) for v in parsed.constants}
    graph = Graph(parsed.name, parsed.inputs, parsed.outputs, parsed.nodes, known)
    given = np.array([1, 3, -1, 5, 1e9, -1e9], np.float32)
    (made,) = _run(graph, given)
    np.testing.assert_array_equal(made, np.array([1, 3, 1, 3, 127, -128], np.int8))


def test_limits_behind_each_other() -> None:
    assert Limits().within(0, 6).within(-1, 3) == Limits(0, 3)
    assert Limits(0, 6).within(7, 9) == Limits(7, 7)
    assert Limits(0, 6).as_bytes(0.05, 10, "uint8") == [10, 130]
    assert Limits().as_bytes(0.05, 10, "int8") == [-128, 127]


def test_weights_and_bias_that_do_not_fit() -> None:
    assert centred_weights(np.array([0, 255], np.uint8), np.uint8(0)) is None
    assert bias_in_steps(np.full(3, 1.5), np.ones(3)) is None
    assert bias_in_steps(np.full(3, 1e30), np.ones(3)) is None
    steps = bias_in_steps(np.float32(2), np.array([0.5, 1.0]))
    assert steps is not None
    assert steps.tolist() == [4, 2]


def test_parameters_that_do_not_fit_the_data() -> None:
    graph = GraphBuilder()
    x = graph.input("x", TensorType((2, 3), "uint8"))
    with pytest.raises(GraphError, match=r"^qnn\.dequantize of uint8\[2, 3\], float32\[2\]: "):
        graph.call("qnn.dequantize", x, graph.constant(np.ones(2, np.float32)))
    numbers = [graph.constant(np.array(1, kind)) for kind in ("int32", "float32", "int32")]
    with pytest.raises(GraphError, match=r"qnn\.mean keeps its axes; leave out keepdims=False$"):
        graph.call("qnn.mean", x, *numbers, axis=[1], limits=[0, 255], keepdims=False)

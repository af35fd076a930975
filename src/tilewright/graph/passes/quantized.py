"""Integer operators in quantized graphs, where floats stand between bytes and bytes.

A value that is dequantized stays bytes until somebody needs its numbers. Layers of bytes with known
weights sum in int32; bias and zero points become one offset for each channel, activations become
limits, and the quantization behind them a requantization, which fuses with the layer. What only
moves elements, or finds the largest, works on bytes. Everything else works on floats as before.

Bytes are unsigned inside the graph, which is what dot-product instructions take: int8 results are
made as uint8 with a zero point that is 128 higher.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.graph.graph import Array, Graph, GraphNode, GraphValue
from tilewright.graph.passes.quantized_forms import (
    LARGEST_SUM,
    Addition,
    Bytes,
    Form,
    LayerSums,
    Limits,
    Mean,
    Weights,
    bias_in_steps,
    dequantized,
    limited,
)
from tilewright.graph.rewriting import Rewriting

_SIGN = 128  # between int8 and uint8


def integer_operators(graph: Graph) -> Graph:
    """The same graph with layers on bytes instead of on dequantized numbers."""
    if not any(node.op == "qnn.dequantize" for node in graph.nodes):
        return graph
    return _Quantized(graph).run(_replaced)


class _Quantized(Rewriting):
    """Old values may have a form instead of a new value, or unsigned bytes for signed ones."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.forms: dict[GraphValue, Form] = {}
        self.unsigned: dict[GraphValue, GraphValue] = {}

    def translated(self, value: GraphValue) -> GraphValue:
        """The new value, which is made now if there is only a form of it."""
        if value not in self._new:
            if value in self.unsigned:
                self._new[value] = self.call("qnn.flip_sign", self.unsigned[value])
            elif value in self.forms:
                self._new[value] = self._real(value, self.forms[value])
        return super().translated(value)

    def _real(self, value: GraphValue, form: Form) -> GraphValue:
        match form:
            case Bytes():
                return self.dequantize(form)
            case LayerSums():
                total = self.call("add", form.value, self.constant(form.offset, "offset"))
                made = self.call("qnn.dequantize", total, self.constant(form.scale, "scale"))
                if form.bias is not None:
                    bias = self.constant(form.bias.astype(np.float32), "bias")
                    made = self.call("add", made, bias)
                return self._clipped(made, form.limits)
            case _:
                node = self._old_makers[value]
                (made,) = self.calls(node.op, self.inputs_of(node), node.attrs, (), node.source)
                return made

    def _clipped(self, value: GraphValue, limits: Limits) -> GraphValue:
        for op, limit in (("maximum", limits.low), ("minimum", limits.high)):
            if np.isfinite(limit):
                value = self.call(op, value, self.constant(np.float32(limit), "limit"))
        return value

    @property
    def _old_makers(self) -> dict[GraphValue, GraphNode]:
        return self.old.makers()

    def dequantize(self, form: Bytes) -> GraphValue:
        """Bytes as floats."""
        known = self.known(form.value)
        if known is not None:
            return self.constant(dequantized(known, form.scale, form.zero), form.value.name)
        scale, zero = self.constant(form.scale, "scale"), self.constant(form.zero, "zero")
        return self.call("qnn.dequantize", form.value, scale, zero)

    def uniform(self, value: GraphValue) -> Bytes | None:
        """The form of a value that has one scale; its bytes are unsigned."""
        form = self.forms.get(value)
        if not isinstance(form, Bytes) or not form.is_uniform or self.known(form.value) is not None:
            return None
        match form.value.type.dtype:
            case "uint8":
                return form
            case "int8":
                flipped = self.call("qnn.flip_sign", form.value)
                return Bytes(flipped, form.scale, form.zero.astype(np.int32) + _SIGN)
        return None

    def numbers(self, value: GraphValue) -> Array | None:
        """The real numbers of a value that is known."""
        form = self.forms.get(value)
        if isinstance(form, Bytes):
            known = self.known(form.value)
            wide = form.scale.astype(np.float64)  # holds a bias of 32 bits
            return None if known is None else dequantized(known, wide, form.zero)
        return self.old.constants.get(value)

    def weights(self, value: GraphValue, axis: int) -> Weights | None:
        """Known weights of a layer whose outputs lie along an axis."""
        form = self.forms.get(value)
        known = self.known(form.value) if isinstance(form, Bytes) else None
        if known is None or not isinstance(form, Bytes):
            return None
        return Weights.of(known, form.scale, form.zero, axis)


Rule = Callable[[_Quantized, GraphNode], "tuple[GraphValue, ...] | None"]


def _replaced(graph: Rewriting, node: GraphNode) -> tuple[GraphValue, ...] | None:
    assert isinstance(graph, _Quantized)
    rule = _RULES.get(node.op)
    return None if rule is None or len(node.outputs) != 1 else rule(graph, node)


def _keep(graph: _Quantized, node: GraphNode, form: Form | None) -> tuple[GraphValue, ...] | None:
    """Remember the form of a result, if there is one."""
    if form is None:
        return None
    graph.forms[node.outputs[0]] = form
    return ()


# --- bytes --------------------------------------------------------------------------------------


def _parameters(graph: _Quantized, node: GraphNode) -> tuple[Array, Array] | None:
    """Scale and zero point of a node where both are known."""
    _, scale, *zero = node.operands
    given = [graph.old.constants.get(value) for value in (scale, *zero)]
    if any(array is None for array in given) or scale.type.dtype != "float32":
        return None
    return np.asarray(given[0]), np.asarray(given[1] if zero else 0)


def _dequantize(graph: _Quantized, node: GraphNode) -> tuple[GraphValue, ...] | None:
    parameters, source = _parameters(graph, node), node.operands[0]
    if parameters is None:
        return None
    scale, zero = parameters
    if source in graph.unsigned:
        form = Bytes(graph.unsigned[source], scale, zero.astype(np.int32) + _SIGN)
        return _keep(graph, node, form)
    return _keep(graph, node, Bytes(graph.translated(source), scale, zero))


def _quantize(graph: _Quantized, node: GraphNode) -> tuple[GraphValue, ...] | None:
    parameters, result = _parameters(graph, node), node.outputs[0]
    dtype = result.type.dtype
    if parameters is None or dtype not in ("uint8", "int8"):
        return None
    scale, zero = parameters
    if scale.size != 1 or zero.size != 1:
        return None
    point = int(zero.reshape(())) + (_SIGN if dtype == "int8" else 0)
    target = _Target(graph, np.float32(scale.reshape(())), point, node.source)
    made = target.of(node.operands[0])
    if dtype == "uint8":
        return (made,)
    graph.unsigned[result] = made
    return ()


class _Target:
    """Unsigned bytes of one scale, made of whatever form a value has."""

    def __init__(self, graph: _Quantized, scale: Any, zero: int, source: str) -> None:
        self._graph = graph
        self._scale = scale
        self._zero = zero
        self._source = source

    def of(self, value: GraphValue) -> GraphValue:
        """The bytes of a value."""
        match self._graph.forms.get(value):
            case Bytes() as form if self._is_own(form):
                return form.value
            case LayerSums() as form:
                return self._of_sums(form)
            case Addition() as form:
                return self._of_addition(form)
            case Mean() as form:
                return self._of_mean(form)
        real = self._graph.translated(value)
        scale, zero = self._constant(self._scale), self._constant(np.uint8(self._zero))
        return self._call("qnn.quantize", real, scale, zero, dtype="uint8")

    def _is_own(self, form: Bytes) -> bool:
        if form.value.type.dtype != "uint8" or not form.is_uniform:
            return False
        is_same = form.scale.reshape(()) == self._scale and form.zero.reshape(()) == self._zero
        return bool(is_same)

    def _of_sums(self, form: LayerSums) -> GraphValue:
        factor = (form.scale / self._scale).astype(np.float32)
        parameters = [form.offset, factor, np.int32(self._zero)]
        if form.bias is not None:
            parameters.append((form.bias / np.float64(self._scale)).astype(np.float32))
        operands = [self._constant(array) for array in parameters]
        return self._call("qnn.requantize", form.value, *operands, **self._limits(form.limits))

    def _of_addition(self, form: Addition) -> GraphValue:
        factors = [self._factor(x.scale) for x in (form.a, form.b)]
        zeros = [np.float32(x.zero.reshape(())) for x in (form.a, form.b)]
        # In float32 as onnxruntime does, whose results differ by a step otherwise.
        moved = factors[0] * zeros[0] + factors[1] * zeros[1]
        offset = np.float32(self._zero) - moved
        operands = [self._constant(number) for number in (*factors, offset)]
        limits = self._limits(form.limits)
        return self._call("qnn.add", form.a.value, form.b.value, *operands, **limits)

    def _of_mean(self, form: Mean) -> GraphValue:
        extents = form.x.value.type.extents
        count = int(np.prod([extents[axis] for axis in form.axes], dtype=np.int64))
        offset = np.int32(-int(form.x.zero.reshape(())) * count)
        factor = np.float32(self._factor(form.x.scale) / np.float32(count))
        operands = [self._constant(number) for number in (offset, factor, np.int32(self._zero))]
        limits = form.limits.as_bytes(self._scale, self._zero, "uint8")
        options = {"axis": list(form.axes), "limits": limits, "keepdims": True}
        return self._call("qnn.mean", form.x.value, *operands, **options)

    def _factor(self, scale: Array) -> Any:
        return np.float32(scale.reshape(())) / self._scale

    def _limits(self, limits: Limits) -> dict[str, Any]:
        return {"limits": limits.as_bytes(self._scale, self._zero, "uint8"), "dtype": "uint8"}

    def _constant(self, array: Any) -> GraphValue:
        return self._graph.constant(np.asarray(array), "q")

    def _call(self, op: str, *inputs: GraphValue, **attrs: Any) -> GraphValue:
        return self._graph.call(op, *inputs, source=self._source, **attrs)


def _move(graph: _Quantized, node: GraphNode) -> tuple[GraphValue, ...] | None:
    """What moves elements or finds the largest does the same to bytes."""
    form = graph.forms.get(node.operands[0])
    if isinstance(form, Bytes) and graph.known(form.value) is not None:
        return _move_known(graph, node, form)
    if node.op == "nn.pool2d" and node.attrs.get("pool_type") != "max":
        return None
    forms = [graph.uniform(value) for value in node.operands]
    found = [form for form in forms if form is not None]
    if len(found) != len(node.inputs) or not all(map(found[0].has_parameters_of, found)):
        return None
    values = [form.value for form in found]
    (made,) = graph.calls(node.op, values, node.attrs, (), node.source)
    return _keep(graph, node, Bytes(made, found[0].scale, found[0].zero))


def _move_known(graph: _Quantized, node: GraphNode, form: Bytes) -> tuple[GraphValue, ...] | None:
    """Weights that are turned, or a bias in the form of a column."""
    known = np.asarray(graph.known(form.value))
    if node.op == "transpose" and len(node.operands) == 1:
        axes = node.attrs["axes"]
        parts = [x.reshape([1] * (known.ndim - x.ndim) + list(x.shape)).transpose(axes)
                 for x in (form.scale, form.zero)]  # fmt: skip
        turned = np.ascontiguousarray(known.transpose(axes))
        return _keep(graph, node, Bytes(graph.constant(turned, form.value.name), *parts))
    if node.op != "reshape" or known.ndim != 1:
        return None
    shape = node.outputs[0].type.extents
    scale, zero = (np.broadcast_to(x, known.shape).reshape(shape) for x in (form.scale, form.zero))
    column = graph.constant(known.reshape(shape), form.value.name)
    return _keep(graph, node, Bytes(column, scale, zero))


# --- layers -------------------------------------------------------------------------------------


def _conv2d(graph: _Quantized, node: GraphNode) -> tuple[GraphValue, ...] | None:
    data, weights = graph.uniform(node.operands[0]), graph.weights(node.operands[1], 0)
    if data is None or weights is None or node.attrs.get("data_layout", "NCHW") != "NCHW":
        return None
    outputs, groups = len(weights.scales), node.attrs.get("groups", 1)
    if weights.zeros.any() and groups not in (1, outputs):
        return None
    options = {key: node.attrs[key] for key in ("strides", "padding", "dilation")}
    options |= {"groups": groups, "border": int(data.zero.reshape(()))}

    def sums_with(numbers: Array) -> GraphValue:
        weight = graph.constant(numbers, "weight")
        return graph.call("qnn.conv2d", data.value, weight, source=node.source, **options)

    ones = np.ones((groups, *weights.numbers.shape[1:]), np.int8)
    layer = _Layer(graph, data, weights, weights.numbers.reshape(outputs, -1), [-1, 1, 1])
    return _keep(graph, node, layer.sums(sums_with, ones))


def _matmul(graph: _Quantized, node: GraphNode) -> tuple[GraphValue, ...] | None:
    turned = node.op == "nn.dense" or bool(node.attrs.get("transpose_b"))
    is_plain = len(node.operands) == len(node.inputs) == 2 and not node.attrs.get("transpose_a")
    data = graph.uniform(node.operands[0])
    weights = graph.weights(node.operands[1], 0 if turned else 1)
    if data is None or weights is None or not is_plain or node.attrs.get("out_dtype"):
        return None
    options = {"transpose_b": turned, "out_dtype": "int32"}

    def sums_with(numbers: Array) -> GraphValue:
        weight = graph.constant(numbers, "weight")
        return graph.call("nn.matmul", data.value, weight, source=node.source, **options)

    rows = weights.numbers if turned else weights.numbers.T
    ones = np.ones_like(weights.numbers[:1] if turned else weights.numbers[:, :1])
    return _keep(graph, node, _Layer(graph, data, weights, rows, [-1]).sums(sums_with, ones))


@dataclass(frozen=True, eq=False)
class _Layer:
    """Products of bytes with rows of weights; what is given for each output has some form."""

    graph: _Quantized
    data: Bytes
    weights: Weights
    rows: Array
    form: list[int]

    def sums(self, sums_with: Callable[[Array], GraphValue], ones: Array) -> LayerSums | None:
        """The sums, from which zero points are taken out: `(x - z) * (w - c)` is summed up.

        A zero point of the weights needs the sums of the data that a row meets.
        """
        totals, zeros = self.rows.astype(np.int64), self.weights.zeros.astype(np.int64)
        if 255 * (np.abs(totals).sum(axis=1) + np.abs(zeros)).max(initial=0) > LARGEST_SUM // 2:
            return None
        value = sums_with(self.weights.numbers)
        if zeros.any():
            each = self.graph.constant(zeros.astype(np.int32).reshape(self.form), "zeros")
            value = self.graph.call("qnn.subtract_zero", value, each, sums_with(ones))
        brought_in = totals.sum(axis=1) - zeros * self.rows.shape[1]
        offset = (-int(self.data.zero.reshape(())) * brought_in).astype(np.int32)
        scale = np.float32(self.data.scale.reshape(())) * self.weights.scales.astype(np.float32)
        return LayerSums(value, offset.reshape(self.form), scale.reshape(self.form))


def _add(graph: _Quantized, node: GraphNode) -> tuple[GraphValue, ...] | None:
    for value, other in (node.operands, node.operands[::-1]):
        form, bias = graph.forms.get(value), graph.numbers(other)
        if isinstance(form, LayerSums) and bias is not None and form.limits == Limits():
            return _keep(graph, node, _with_bias(graph, form, other, bias))
    a, b = (graph.uniform(value) for value in node.operands)
    return None if a is None or b is None else _keep(graph, node, Addition(a, b))


def _with_bias(
    graph: _Quantized, form: LayerSums, value: GraphValue, bias: Array
) -> LayerSums | None:
    """Sums with a number added to each channel: to the offset, if it is a number of steps."""
    if np.broadcast_shapes(bias.shape, form.scale.shape) != form.scale.shape:
        return None
    own = graph.forms.get(value)
    steps = bias_in_steps(bias, form.scale)
    if isinstance(own, Bytes) and np.allclose(own.scale, form.scale, rtol=1e-6, atol=0):
        known = graph.known(own.value)  # in steps, but for the rounding of a product of scales
        steps = None if known is None else known.astype(np.int32) - own.zero.astype(np.int32)
    if steps is not None:
        return replace(form, offset=form.offset + steps)
    return replace(form, bias=bias if form.bias is None else form.bias + bias)


def _mean(graph: _Quantized, node: GraphNode) -> tuple[GraphValue, ...] | None:
    x, axes = graph.uniform(node.operands[0]), node.attrs.get("axis")
    if x is None or axes is None or not node.attrs.get("keepdims"):
        return None
    rank = len(x.value.type.shape)
    listed = sorted(axis % rank for axis in ([axes] if isinstance(axes, int) else axes))
    return _keep(graph, node, Mean(x, tuple(listed)))


# --- activations --------------------------------------------------------------------------------


def _activation(graph: _Quantized, node: GraphNode) -> tuple[GraphValue, ...] | None:
    form, limits = graph.forms.get(node.operands[0]), _limits_of(graph, node)
    if form is None or isinstance(form, Bytes) or limits is None or limits[0] > limits[1]:
        return None
    return _keep(graph, node, limited(form, *limits))


def _limits_of(graph: _Quantized, node: GraphNode) -> tuple[float, float] | None:
    match node.op:
        case "nn.relu":
            return 0.0, np.inf
        case "clip":
            return float(node.attrs["a_min"]), float(node.attrs["a_max"])
    limit = graph.old.constants.get(node.operands[-1])
    if limit is None or limit.size != 1 or len(node.operands) != 2 or np.isnan(limit).any():
        return None
    number = float(limit.reshape(()))
    return (number, np.inf) if node.op == "maximum" else (-np.inf, number)


_MOVES = (
    "reshape", "transpose", "squeeze", "expand_dims", "nn.flatten", "strided_slice", "concatenate",
    "nn.pool2d", "identity",
)  # fmt: skip
_RULES: dict[str, Rule] = {
    "qnn.dequantize": _dequantize, "qnn.quantize": _quantize,
    "nn.conv2d": _conv2d, "nn.matmul": _matmul, "nn.dense": _matmul, "add": _add, "mean": _mean,
    **dict.fromkeys(_MOVES, _move),
    **dict.fromkeys(("nn.relu", "clip", "maximum", "minimum"), _activation),
}  # fmt: skip

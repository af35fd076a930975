"""RNN, GRU and LSTM, step by step: what depends on the input alone is one product before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright.errors import GraphError
from tilewright.frontend.onnx.context import NodeContext, converts
from tilewright.frontend.onnx.converters.control_flow import element
from tilewright.graph import GraphValue

Function: TypeAlias = "Callable[[NodeContext, GraphValue], GraphValue]"


def _hard_sigmoid(node: NodeContext, x: GraphValue) -> GraphValue:
    dtype = x.type.dtype
    line = node.call("multiply", x, node.constant(0.2, dtype))
    line = node.call("add", line, node.constant(0.5, dtype))
    return node.call("clip", line, a_min=0.0, a_max=1.0)


def _softsign(node: NodeContext, x: GraphValue) -> GraphValue:
    one = node.constant(1, x.type.dtype)
    return node.call("divide", x, node.call("add", one, node.call("abs", x)))


_FUNCTIONS: dict[str, Function] = {
    "relu": lambda node, x: node.call("nn.relu", x),
    "tanh": lambda node, x: node.call("tanh", x),
    "sigmoid": lambda node, x: node.call("sigmoid", x),
    "hardsigmoid": _hard_sigmoid,
    "softsign": _softsign,
}
_USUAL = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@dataclass(frozen=True)
class _Direction:
    """One direction of a layer: its weights, and functions by position."""

    node: NodeContext
    number: int
    is_reversed: bool

    @property
    def hidden(self) -> int:
        return int(self.node.attr("hidden_size") or self.node.shape(self.node[2])[-1])

    def weight(self, position: int) -> GraphValue | None:
        """The part of an input for this direction."""
        value = self.node.optional(position)
        return None if value is None else element(self.node, value, 0, self.number)

    def apply(self, position: int, x: GraphValue) -> GraphValue:
        """A function of a gate, after clipping."""
        node, usual = self.node, _USUAL[self.node.op_type]
        names = node.attr("activations") or usual * (self.number + 1)
        name = names[self.number * len(usual) + position].lower()
        if name not in _FUNCTIONS or node.attr("activation_alpha") or node.attr("activation_beta"):
            raise GraphError(f"activation {name} with these options is not supported")
        limit = node.attr("clip")
        if limit:
            x = node.call("clip", x, a_min=-float(limit), a_max=float(limit))
        return _FUNCTIONS[name](node, x)

    def part(self, x: GraphValue, gate: int, count: int = 1) -> GraphValue:
        """The columns of one gate, or of some that stand side by side."""
        shape, size = self.node.shape(x), self.hidden
        begin, end = [0] * len(shape), list(shape)
        begin[-1], end[-1] = gate * size, (gate + count) * size
        ones = [1] * len(shape)
        return self.node.call("strided_slice", x, begin=begin, end=end, strides=ones)

    def add(self, *values: GraphValue | None) -> GraphValue:
        """The sum of the terms that are present."""
        given = [value for value in values if value is not None]
        total = given[0]
        for value in given[1:]:
            total = self.node.call("add", total, value)
        return total

    def times(self, a: GraphValue, b: GraphValue) -> GraphValue:
        return self.node.call("multiply", a, b)

    def biases(self) -> tuple[GraphValue | None, GraphValue | None]:
        """For the product with the input, and for that with the state."""
        both = self.weight(3)
        if both is None:
            return None, None
        gates = _GATES[self.node.op_type]
        return self.part(both, 0, gates), self.part(both, gates, gates)


Step: TypeAlias = "Callable[[_Direction, GraphValue, Sequence[GraphValue]], list[GraphValue]]"


def _rnn_step(layer: _Direction, x: GraphValue, states: Sequence[GraphValue]) -> list[GraphValue]:
    (h,) = states
    recurrent = _recurrent(layer, h, layer.biases()[1])
    return [layer.apply(0, layer.add(x, recurrent))]


def _recurrent(layer: _Direction, h: GraphValue, bias: GraphValue | None) -> GraphValue:
    weight = layer.weight(2)
    assert weight is not None
    return layer.add(layer.node.call("nn.dense", h, weight), bias)


def _gru_step(layer: _Direction, x: GraphValue, states: Sequence[GraphValue]) -> list[GraphValue]:
    (h,) = states
    node, size = layer.node, layer.hidden
    weight, bias = layer.weight(2), layer.biases()[1]
    assert weight is not None
    rows = [_rows(node, weight, 0, 2 * size), _rows(node, weight, 2 * size, 3 * size)]
    gates_bias = None if bias is None else layer.part(bias, 0, 2)
    own_bias = None if bias is None else layer.part(bias, 2)
    gates = layer.add(layer.part(x, 0, 2), node.call("nn.dense", h, rows[0]), gates_bias)
    z = layer.apply(0, layer.part(gates, 0))
    r = layer.apply(0, layer.part(gates, 1))
    if node.attr("linear_before_reset", 0):
        inner = layer.times(r, layer.add(node.call("nn.dense", h, rows[1]), own_bias))
    else:
        inner = layer.add(node.call("nn.dense", layer.times(r, h), rows[1]), own_bias)
    new = layer.apply(1, layer.add(layer.part(x, 2), inner))
    rest = node.call("subtract", node.constant(1, x.type.dtype), z)
    return [layer.add(layer.times(rest, new), layer.times(z, h))]


def _rows(node: NodeContext, weight: GraphValue, first: int, last: int) -> GraphValue:
    end = [last, node.shape(weight)[1]]
    return node.call("strided_slice", weight, begin=[first, 0], end=end, strides=[1, 1])


def _lstm_step(layer: _Direction, x: GraphValue, states: Sequence[GraphValue]) -> list[GraphValue]:
    h, c = states
    node = layer.node
    gates = layer.add(x, _recurrent(layer, h, layer.biases()[1]))
    peepholes = layer.weight(7)

    def gate(number: int, state: GraphValue, peephole: int) -> GraphValue:
        own = layer.part(gates, number)
        if peepholes is None:
            return own
        return layer.add(own, layer.times(layer.part(peepholes, peephole), state))

    i = layer.apply(0, gate(0, c, 0))
    if node.attr("input_forget", 0):
        f = node.call("subtract", node.constant(1, x.type.dtype), i)
    else:
        f = layer.apply(0, gate(2, c, 2))
    new = layer.apply(1, layer.part(gates, 3))
    cell = layer.add(layer.times(f, c), layer.times(i, new))
    o = layer.apply(0, gate(1, cell, 1))
    return [layer.times(o, layer.apply(2, cell)), cell]


_STEPS: dict[str, Step] = {"RNN": _rnn_step, "GRU": _gru_step, "LSTM": _lstm_step}


def _initial(node: NodeContext, position: int, layer: _Direction, batch: int) -> GraphValue:
    value = node.optional(position)
    if value is None:
        shape, dtype = [batch, layer.hidden], node.type(0).dtype
        return node.call("full", shape=shape, dtype=dtype, fill_value=0)
    return element(node, value, 1 if node.attr("layout", 0) else 0, layer.number)


def _run(layer: _Direction, x: GraphValue) -> tuple[list[GraphValue], list[GraphValue]]:
    """The outputs of all steps in the order of time, and the last states."""
    node = layer.node
    steps, batch = node.shape(x)[:2]
    lengths = node.optional(4)
    if layer.is_reversed:
        x = _turned(node, x, lengths)
    weight = layer.weight(1)
    assert weight is not None
    projected = layer.add(node.call("nn.dense", x, weight), layer.biases()[0])
    places = (5, 6) if node.op_type == "LSTM" else (5,)
    states = [_initial(node, place, layer, batch) for place in places]
    outputs = []
    for step in range(steps):
        made = _STEPS[node.op_type](layer, element(node, projected, 0, step), states)
        output = made[0]
        if lengths is not None:
            runs = _is_running(node, lengths, step)
            output = node.call("where", runs, output, node.constant(0, output.type.dtype))
            made = [node.call("where", runs, *pair) for pair in zip(made, states, strict=True)]
        states = made
        outputs.append(output)
    if layer.is_reversed:
        if lengths is None:
            outputs.reverse()
        else:
            turned = _turned(node, node.call("stack", *outputs, axis=0), lengths)
            outputs = [element(node, turned, 0, step) for step in range(steps)]
    return outputs, states


def _is_running(node: NodeContext, lengths: GraphValue, step: int) -> GraphValue:
    limit = node.constant(step, lengths.type.dtype)
    return node.call("reshape", node.call("greater", lengths, limit), newshape=[-1, 1])


def _turned(node: NodeContext, x: GraphValue, lengths: GraphValue | None) -> GraphValue:
    if lengths is None:
        return node.call("flip", x, axis=0)
    return node.call("reverse_sequence", x, lengths, time_axis=0, batch_axis=1)


@converts("RNN", "GRU", "LSTM")
def _recurrent_layer(node: NodeContext) -> Sequence[GraphValue]:
    direction = node.attr("direction", "forward")
    turned = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    is_batch_first = bool(node.attr("layout", 0))
    x = node.call("transpose", node[0], axes=[1, 0, 2]) if is_batch_first else node[0]
    runs = [_run(_Direction(node, n, back), x) for n, back in enumerate(turned)]
    steps = [node.call("stack", *outputs, axis=0) for outputs, _ in runs]
    y = node.call("stack", *steps, axis=1)
    kept = [
        node.call("stack", *column, axis=0) for column in zip(*(s for _, s in runs), strict=True)
    ]
    if is_batch_first:
        y = node.call("transpose", y, axes=[2, 0, 1, 3])
        kept = [node.call("transpose", value, axes=[1, 0, 2]) for value in kept]
    return [y, *kept]

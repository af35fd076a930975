"""Conditions and loops: what is known at import is followed, loops of known length are unrolled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.errors import GraphError
from tilewright.frontend.onnx.context import NodeContext, converts
from tilewright.graph import GraphValue

_MOST_STEPS = 4096  # a longer loop would make a graph of too many nodes
_NO_TENSOR = "void"  # the type of sequences


@converts("If")
def _if(node: NodeContext) -> Sequence[GraphValue]:
    condition = node[0]
    names = ("then_branch", "else_branch")
    if condition in node.builder.constants:
        chosen = names[0 if np.asarray(node.known(0)).reshape(-1)[0] else 1]
        return node.run_body(node.graph(chosen), (), node.source)
    # Both branches are computed, and one is taken, if that can be said with one type.
    branches = [node.run_body(node.graph(name), (), f"{node.source}.{name}") for name in names]
    if any(value.type.dtype == _NO_TENSOR for branch in branches for value in branch):
        node.unknown(condition, "decides about a sequence")
    if any(a.type != b.type for a, b in zip(*branches, strict=True)):
        node.known(0)  # says what is wrong
    flag = node.call("reshape", condition, newshape=[])
    return [node.call("where", flag, a, b) for a, b in zip(*branches, strict=True)]


@converts("Loop")
def _loop(node: NodeContext) -> Sequence[GraphValue]:
    body = node.graph("body")
    limit = node.integers(0)
    count = _MOST_STEPS if limit is None else limit[0]
    condition = node.optional(1)
    if condition is None:
        condition = node.constant(True, "bool")
    states = [node[n] for n in range(2, len(node.inputs))]
    stacked: list[list[GraphValue]] = [[] for _ in range(len(body.output) - 1 - len(states))]
    for step in range(count):
        if not _is_true(node, condition):
            break
        _check_steps(node, step)
        number = node.constant(step, "int64")
        results = node.run_body(body, (number, condition, *states), f"{node.source}.{step}")
        condition, rest = results[0], results[1:]
        states = list(rest[: len(states)])
        for kept, value in zip(stacked, rest[len(states) :], strict=True):
            kept.append(value)
    return [*states, *(_stack(node, values, 0) for values in stacked)]


def _is_true(node: NodeContext, condition: GraphValue) -> bool:
    if condition not in node.builder.constants:
        node.unknown(condition, "decides how often the body runs")
    return bool(np.asarray(node.builder.constants[condition]).reshape(-1)[0])


def _check_steps(node: NodeContext, step: int) -> None:
    if step >= _MOST_STEPS - 1:
        raise GraphError(f"a loop of more than {_MOST_STEPS - 1} steps is not supported")


def _stack(node: NodeContext, values: Sequence[GraphValue], axis: int) -> GraphValue:
    if not values:
        raise GraphError("a loop that never runs has no results to stack")
    return node.call("stack", *values, axis=axis)


@converts("Scan", since=9)
def _scan(node: NodeContext) -> Sequence[GraphValue]:
    body = node.graph("body")
    count = int(node.attr("num_scan_inputs"))
    inputs = [node[n] for n in range(len(node.inputs))]
    states, scanned = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    axes = node.attr("scan_input_axes") or [0] * count
    turned = node.attr("scan_input_directions") or [0] * count
    steps = node.shape(scanned[0])[axes[0]]
    _check_steps(node, steps - 1)
    results = len(body.output) - len(states)
    stacked: list[list[GraphValue]] = [[] for _ in range(results)]
    for step in range(steps):
        parts = [
            element(node, value, axis, steps - 1 - step if back else step)
            for value, axis, back in zip(scanned, axes, turned, strict=True)
        ]
        made = node.run_body(body, (*states, *parts), f"{node.source}.{step}")
        states = list(made[: len(states)])
        for kept, value in zip(stacked, made[len(states) :], strict=True):
            kept.append(value)
    places = node.attr("scan_output_axes") or [0] * results
    backwards = node.attr("scan_output_directions") or [0] * results
    return [
        *states,
        *(
            _stack(node, values[::-1] if back else values, axis)
            for values, axis, back in zip(stacked, places, backwards, strict=True)
        ),
    ]


def element(node: NodeContext, value: GraphValue, axis: int, index: int) -> GraphValue:
    """One element along an axis, without that axis."""
    shape = node.shape(value)
    axis %= len(shape)
    begin, end = [0] * len(shape), list(shape)
    begin[axis], end[axis] = index, index + 1
    part = node.call("strided_slice", value, begin=begin, end=end, strides=[1] * len(shape))
    return node.call("reshape", part, newshape=shape[:axis] + shape[axis + 1 :])

"""Passes: fewer nodes, the same results."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.graph import parse_graph
from tilewright.graph.passes.fold_constants import fold_constants
from tilewright.graph.passes.fold_limits import fold_limits
from tilewright.graph.passes.simplify_arithmetic import simplify_arithmetic
from tilewright.graph.passes.sink_reshapes import sink_reshapes
from tilewright.model import compile_model


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("strided_slice(w, begin=[1], end=[3])", lambda w: w[1:3]),
        ("strided_slice(w, begin=[3, 0], end=[-9, 4], strides=[-1, 2])", lambda w: w[::-1, 0:4:2]),
        ("strided_slice(w, begin=[1], end=[4], strides=[2], axes=[1])", lambda w: w[:, 1:4:2]),
        ("concatenate(w, w, axis=1)", lambda w: np.concatenate([w, w], 1)),
        ("stack(w, w, axis=1)", lambda w: np.stack([w, w], 1)),
        ("flip(w, axis=1)", lambda w: w[:, ::-1]),
        ("transpose(w, axes=[1, 0])", lambda w: w.T),
        ("reshape(w, newshape=[2, -1])", lambda w: w.reshape(2, -1)),
        ("add(w, w)", lambda w: w + w),
        ("sqrt(w)", np.sqrt),
    ],
)
def test_what_is_known_is_computed(call: str, expected: object) -> None:
    weight = np.arange(20, dtype=np.float32).reshape(4, 5)
    text = f"def main():\n    w = constant(float32[4, 5])\n    y = {call}\n    return y\n"
    graph = fold_constants(parse_graph(text, {"w": weight}))
    assert not graph.nodes
    (output,) = graph.outputs
    made = graph.constants[output]
    assert callable(expected)
    np.testing.assert_array_equal(made, expected(weight))
    assert made.shape == output.type.shape
    assert made.flags.c_contiguous


def test_what_depends_on_an_input_stays() -> None:
    text = """
def main(x: float32[2]):
    w = constant(float32[2])
    a = add(w, w)
    b = multiply(a, x)
    return b
"""
    assert [node.op for node in fold_constants(parse_graph(text)).nodes] == ["multiply"]


def test_reshapes_move_behind_what_works_on_elements() -> None:
    text = """
def main(x: float32[6, 4], b: float32[4]):
    a = reshape(x, newshape=[2, 3, 4])
    c = add(a, b)
    d = reshape(c, newshape=[6, 4])
    return d
"""
    assert [node.op for node in sink_reshapes(parse_graph(text)).nodes] == ["add"]


def test_reshapes_of_operands_that_are_stretched_stay() -> None:
    """The other operand has more elements than the flat form."""
    text = """
def main(x: float32[2, 4, 1], y: float32[2, 4, 8, 8]):
    a = reshape(x, newshape=[2, 4, 1, 1])
    b = multiply(a, y)
    return b
"""
    graph = sink_reshapes(parse_graph(text))
    assert [node.op for node in graph.nodes] == ["reshape", "multiply"]
    assert graph.outputs[0].type.shape == (2, 4, 8, 8)


@pytest.mark.parametrize(
    ("call", "numbers", "ops"),
    [
        ("add(x, c)", [0], []),
        ("add(c, x)", [0], []),
        ("add(c, x)", [0, 0], ["add"]),
        ("subtract(x, c)", [0], []),
        ("subtract(c, x)", [0], ["subtract"]),
        ("multiply(c, x)", [1], []),
        ("multiply(x, c)", [1, 2], ["multiply"]),
        ("divide(x, c)", [1], []),
        ("divide(x, c)", [3, 0.25], ["multiply"]),
        ("divide(c, x)", [1], ["divide"]),
        ("divide(x, c)", [3, 0], ["divide"]),
        ("divide(x, c)", [3, 3e38], ["divide"]),
        ("power(x, c)", [1], []),
        ("identity(x)", [1], []),
    ],
)
def test_arithmetic_with_known_numbers(call: str, numbers: list[float], ops: list[str]) -> None:
    text = f"""
def main(x: float32[3, 2]):
    c = constant(float32[{len(numbers)}])
    y = {call}
    return y
"""
    constants = {"c": np.asarray(numbers, np.float32)}
    original = parse_graph(text, constants)
    graph = simplify_arithmetic(original)
    assert [node.op for node in graph.nodes] == ops
    x = np.linspace(0.5, 3, 6, dtype=np.float32).reshape(3, 2)
    op = call.partition("(")[0]
    first, second = (constants["c"], x) if call.endswith("(c, x)") else (x, constants["c"])
    with np.errstate(all="ignore"):
        wanted = x if op == "identity" else getattr(np, op)(first, second)
    np.testing.assert_allclose(compile_model(graph)(x)[0], wanted, rtol=1e-6)


def test_a_neutral_number_that_stretches_its_operand_stays() -> None:
    text = """
def main(x: float32[2]):
    c = constant(float32[1, 1])
    y = add(x, c)
    return y
"""
    assert [node.op for node in simplify_arithmetic(parse_graph(text)).nodes] == ["add"]


def test_a_quotient_that_is_rounded_stays_a_quotient() -> None:
    text = """
def main(x: float32[2]):
    c = constant(float32[2])
    a = divide(x, c)
    b = round(a)
    d = exp(a)
    return b, d
"""
    graph = parse_graph(text, {"c": np.asarray([3, 0.3], np.float32)})
    ops = [node.op for node in simplify_arithmetic(graph).nodes]
    assert ops == ["divide", "round", "exp"]


def test_limits_that_are_numbers_become_part_of_the_operator() -> None:
    text = """
def main(x: float32[4, 5], y: float32[4, 5]):
    low = constant(float32[()])
    high = constant(float32[1])
    a = maximum(x, low)
    b = minimum(high, a)
    c1 = maximum(y, high)
    c = minimum(c1, low)
    d = maximum(y, low)
    e = minimum(d, high)
    return b, c, d, e
"""
    limits = {"low": np.float32(-1), "high": np.array([2], np.float32)}
    original = parse_graph(text, limits)
    made = fold_limits(original)
    ops = [node.op for node in made.nodes]
    # The wrong way round, and where others read what lies between, all stays.
    assert sorted(ops) == ["clip", "maximum", "maximum", "minimum", "minimum"]
    x = np.array([-9, -1, 0.5, 2, 9, np.nan, np.inf, -np.inf, 0, -0.0] * 2, np.float32)
    arrays = [x.reshape(4, 5), x.reshape(4, 5)]
    for ours, theirs in zip(
        compile_model(made)(*arrays), compile_model(original)(*arrays), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_limits_of_integers_stay() -> None:
    text = """
def main(x: int32[4]):
    low = constant(int32[()])
    high = constant(int32[()])
    y = maximum(x, low)
    z = minimum(y, high)
    return z
"""
    graph = parse_graph(text, {"low": np.int32(0), "high": np.int32(2**30 + 1)})
    assert [node.op for node in fold_limits(graph).nodes] == ["maximum", "minimum"]

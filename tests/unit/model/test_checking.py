"""`check`: wrong kernels and wrong passes are found and named; right models pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tilewright.errors import GraphError
from tilewright.graph import Graph, GraphNode, parse_graph
from tilewright.graph.passes.pipeline import simplify
from tilewright.graph.passes.winograd import winograd_candidates, with_winograd
from tilewright.model import Executable, ExternalCall, compile_model
from tilewright.model.checking import difference
from tilewright.model.kernels import compile_calls
from tilewright.target import Target

_TEXT = """
def net(x: float32[1, 4, 8, 8]):
    w = constant(float32[8, 4, 3, 3])
    gamma = constant(float32[8])
    beta = constant(float32[8])
    mean = constant(float32[8])
    var = constant(float32[8])
    v = constant(float32[5, 288])
    conv = nn.conv2d(x, w)
    norm = nn.batch_norm(conv, gamma, beta, mean, var)
    active = nn.relu(norm)
    flat = reshape(active, newshape=[1, 288])
    scores = nn.dense(flat, v)
    best = argmax(scores, axis=1)
    chances = nn.softmax(scores)
    return chances, best
"""


def _graph() -> Graph:
    rng = np.random.default_rng(7)
    shapes = {"w": (8, 4, 3, 3), "gamma": (8,), "beta": (8,), "mean": (8,), "v": (5, 288)}
    constants = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    graph = parse_graph(_TEXT, {**constants, "var": np.ones(8, np.float32)})
    nodes = tuple(dataclasses.replace(n, source=f"/{n.outputs[0].name}") for n in graph.nodes)
    return dataclasses.replace(graph, nodes=nodes)


_X = np.random.default_rng(8).standard_normal((1, 4, 8, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return _graph()


def test_a_right_model_is_right(graph: Graph) -> None:
    executable = compile_model(graph)
    report = executable.check(graph, _X)
    assert report.is_right, str(report)
    assert report.first is None
    assert report.unchecked == ()
    assert {op for check in report.kernels for op in check.operators} >= {
        "nn.conv2d", "nn.relu", "nn.dense", "nn.softmax", "argmax"
    }  # fmt: skip
    assert max(check.error for check in report.kernels) < 1e-5
    assert len(report.outputs) == 2
    assert len(report.layers) >= 3
    assert str(report).startswith(f"all {len(report.kernels)} kernels and the outputs are right")


def test_a_node_that_became_two_operators_is_named_once(graph: Graph) -> None:
    """A convolution with a bias, for example, is a convolution and an addition."""
    nodes = tuple(dataclasses.replace(node, source="/conv") for node in graph.nodes[:3])
    executable = compile_model(dataclasses.replace(graph, nodes=nodes + graph.nodes[3:]))
    kernels = executable.check(graph, _X).kernels
    assert [one.nodes for one in kernels if "nn.conv2d" in one.operators] == [("/conv",)]
    profile = executable.profile(_X, repeats=1)
    assert [step.sources for step in profile if "nn.conv2d" in step.operators] == [("/conv",)]


def _with_wrong_kernel(graph: Graph, wrong: str, instead: str) -> Executable:
    """The model with the kernel of another operator of the same types in one place."""
    simple = simplify(graph)
    calls = compile_calls(simple, Target("llvm"))
    nodes = tuple(
        GraphNode(instead, n.inputs, n.outputs, n.attrs, n.source) if n.op == wrong else n
        for n in simple.nodes
    )
    others = compile_calls(dataclasses.replace(simple, nodes=nodes), Target("llvm"))
    planted = [
        dataclasses.replace(call, kernel=other.kernel)
        for call, other in zip(calls, others, strict=True)
    ]
    return Executable(simple, planted)


@pytest.mark.parametrize(
    ("wrong", "instead", "node"),
    [
        ("nn.relu", "sigmoid", "/active"),
        ("nn.softmax", "nn.log_softmax", "/chances"),
        ("argmax", "argmin", "/best"),
    ],
)
def test_a_planted_wrong_kernel_is_found(graph: Graph, wrong: str, instead: str, node: str) -> None:
    """In the middle, at the end, and one of whole numbers."""
    report = _with_wrong_kernel(graph, wrong, instead).check(graph, _X)
    assert not report.is_right
    first = report.first
    assert first is not None
    assert first in report.kernels
    assert wrong in first.operators
    assert node in first.nodes
    assert sum(not check.is_right for check in report.kernels) == 1  # what follows is not blamed
    assert str(report).startswith(f"wrong kernel: {first.value} of ")
    assert f"{wrong}" in str(report)
    assert node in str(report)


def test_a_wrong_pass_is_told_from_a_wrong_kernel(graph: Graph) -> None:
    """Kernels that do what a wrong graph says are right; the model is not."""
    simple = simplify(graph)
    nodes = tuple(
        GraphNode("sigmoid", n.inputs, n.outputs, n.attrs, n.source) if n.op == "nn.relu" else n
        for n in simple.nodes
    )
    wrong = dataclasses.replace(simple, nodes=nodes)
    report = Executable(wrong, compile_calls(wrong, Target("llvm"))).check(graph, _X)
    assert all(check.is_right for check in report.kernels)
    first = report.first
    assert first is not None
    assert not report.is_right
    assert "/active" in first.nodes
    assert str(report).startswith("kernels are right, but not the model: ")


def test_a_reference_from_elsewhere(graph: Graph) -> None:
    """Arrays by the names of nodes or values, as another runtime has them."""
    executable = compile_model(graph)
    chances, best = executable(_X)
    asked: list[Mapping[str, Any]] = []

    def reference(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.append(inputs)
        return {"/chances": chances, "best": best + 1, "unknown": chances}

    report = executable.check(graph, x=_X, reference=reference)
    assert list(asked[0]) == ["x"]
    first = report.first
    assert first is not None
    assert first.operators == ("argmax",)
    assert first.error == 1
    with pytest.raises(GraphError) as caught:
        executable.check(graph, _X, reference=lambda inputs: {"other": chances})
    assert str(caught.value) == (
        "the reference gives other, none of which is a value or a node of net"
    )


def test_kernels_are_checked_whatever_passes_made_them(graph: Graph) -> None:
    """Weights come from the packed ones, so nobody has to know how the graph was made."""
    simple = dataclasses.replace(simplify(graph), name="other")
    report = Executable(simple, compile_calls(simple, Target("llvm"))).check(graph, _X)
    assert report.unchecked == ()
    assert report.is_right
    assert any("nn.conv2d" in check.operators for check in report.kernels)


_WINDOWS = """
def net(x: float32[1, 16, 16, 16]):
    w = constant(float32[16, 16, 3, 3])
    conv = nn.conv2d(x, w, padding=1)
    active = nn.relu(conv)
    return active
"""


def test_kernels_that_compute_their_weights_are_checked() -> None:
    """Winograd's transformed weights cannot be undone, but are recognised."""
    rng = np.random.default_rng(9)
    graph = parse_graph(_WINDOWS, {"w": rng.standard_normal((16, 16, 3, 3)).astype(np.float32)})
    simple = simplify(graph)
    (node,) = winograd_candidates(simple)
    tiled = with_winograd(simple, {node.outputs[0]: 4})
    executable = Executable(tiled, compile_calls(tiled, Target("llvm")))
    report = executable.check(graph, rng.standard_normal((1, 16, 16, 16)).astype(np.float32))
    assert report.unchecked == ()
    assert report.is_right, report
    assert any("nn.winograd_conv2d" in check.operators for check in report.kernels)


def test_tolerances_can_be_given(graph: Graph) -> None:
    executable = compile_model(graph)
    strict = executable.check(graph, _X, tolerances={"float32": 0.0})
    assert not strict.is_right
    assert executable.check(graph, _X, tolerances={"float32": 1.0}).is_right


def test_external_steps_are_listed() -> None:
    graph = parse_graph("def main(x: float32[4]):\n    y = exp(x)\n    return y\n")
    call = ExternalCall("slow", lambda a: [np.exp(a[0])], graph.inputs, graph.outputs)
    report = Executable(graph, [call]).check(graph, np.ones(4, np.float32))
    assert report.is_right
    assert report.unchecked == ("slow: a Python function runs it",)
    assert str(report).splitlines()[1] == "not checked: slow: a Python function runs it"


def test_differences() -> None:
    nan, inf = float("nan"), float("inf")
    a = np.array([1, 2, nan, inf], np.float32)
    assert difference(a, a) == 0
    assert difference(np.array([1, 2, 3, inf], np.float32), a) == inf
    assert difference(np.array([1, 2, nan, -inf], np.float32), a) == inf
    assert difference(np.array([1, nan]), np.array([1, 2.0])) == inf
    assert difference(np.array([1.0, 3.0]), np.array([1.0, 4.0])) == 0.25
    assert difference(np.array([0.5]), np.array([0.0])) == 0.5
    assert difference(np.array([1, 3]), np.array([1, 6])) == 3
